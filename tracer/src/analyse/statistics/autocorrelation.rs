//! How much successive values tell of each other: the length of blocks, and what a series is worth.
//!
//! Block length: D. Politis and H. White, "Automatic block-length selection for the dependent bootstrap",
//! Econometric Reviews 23 (2004), with the correction of A. Patton, D. Politis and H. White, ibid. 28
//! (2009), for the circular bootstrap. The long-run variance that it needs is by the flat-top lag window of
//! D. Politis and J. Romano, "Bias-corrected nonparametric spectral estimation", J. Time Series Analysis 16
//! (1995).

/// Lags that must all be insignificant, at least.
const QUIET_LAGS: usize = 5;
/// Widths of the band of insignificance, in units of sqrt(log10 n / n).
const BAND: f64 = 2.0;
/// An autocorrelation of one step that is taken for the estimate at most: beyond, a series is a drift, and
/// nothing of its length helps.
const STRONGEST: f64 = 0.98;

/// The dependence within a series.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Dependence {
    /// Variance of the series' mean over what it would be were the values independent; at least 1.
    pub inflation: f64,
    /// Length of the bootstrap's blocks.
    pub block: usize,
}

impl Dependence {
    /// Of the values in the order of time.
    pub fn of(values: &[f64]) -> Dependence {
        let count = values.len();
        let covariances = autocovariances(values, furthest_lag(count));
        let Some(&variance) = covariances.first().filter(|variance| **variance > 0.0) else {
            return Dependence { inflation: 1.0, block: shortest_block(count) };
        };
        let window = 2 * quiet_from(&covariances, count).max(1);
        let (mut long_run, mut slope) = (variance, 0.0);
        for (lag, covariance) in covariances.iter().enumerate().take(window + 1).skip(1) {
            let weight = flat_top(lag as f64 / window as f64);
            long_run += 2.0 * weight * covariance;
            slope += 2.0 * weight * lag as f64 * covariance;
        }
        let first = covariances.get(1).copied().unwrap_or_default() / variance;
        let inflation = (long_run / variance).max(of_first_order(first, count)).max(1.0);
        Dependence { inflation, block: block_length(long_run, slope, count) }
    }

    /// How many independent values `count` of the series are worth.
    pub fn effective(&self, count: usize) -> f64 {
        count as f64 / self.inflation
    }
}

/// The inflation of an autoregression of the first order whose coefficient is the first autocorrelation,
/// corrected for the bias that it has in short series (M. Kendall, "Note on bias in the estimation of
/// autocorrelation", Biometrika 41, 1954): without it, short and strongly dependent series look more
/// certain than they are.
fn of_first_order(first: f64, count: usize) -> f64 {
    let unbiased = (first + (1.0 + 3.0 * first) / count as f64).min(STRONGEST);
    // A coefficient that chance gives to independent values is none.
    let chance = 1.0 / (count as f64).sqrt();
    if unbiased < chance { 1.0 } else { (1.0 + unbiased) / (1.0 - unbiased) }
}

/// The smallest lag behind which the autocorrelations are as small as chance makes them.
fn quiet_from(covariances: &[f64], count: usize) -> usize {
    let band = BAND * ((count as f64).log10() / count as f64).sqrt();
    let is_quiet = |lag: usize| {
        covariances.get(lag).is_none_or(|covariance| covariance.abs() < band * covariances[0])
    };
    let quiet = quiet_lags(count);
    (0..covariances.len())
        .find(|lag| (lag + 1..=lag + quiet).all(is_quiet))
        .unwrap_or(covariances.len() - 1)
}

fn quiet_lags(count: usize) -> usize {
    QUIET_LAGS.max((count as f64).log10().sqrt().ceil() as usize)
}

fn furthest_lag(count: usize) -> usize {
    let lags = (count as f64).sqrt().ceil() as usize + quiet_lags(count);
    // The window is twice the lag behind which all is quiet.
    (2 * lags).min(count.saturating_sub(1))
}

/// 1 up to half of the window, and down to 0 at its end.
fn flat_top(position: f64) -> f64 {
    (2.0 * (1.0 - position)).clamp(0.0, 1.0)
}

fn block_length(long_run: f64, slope: f64, count: usize) -> usize {
    let longest = (3.0 * (count as f64).sqrt()).min(count as f64 / 3.0).ceil().max(1.0);
    // For the circular bootstrap: 2 G^2 / D with D = 4/3 g(0)^2.
    let scaled = 1.5 * (slope / long_run).powi(2) * count as f64;
    let best = if long_run > 0.0 { scaled.cbrt().ceil() } else { longest };
    (best.min(longest) as usize).max(shortest_block(count))
}

/// The order of length that is right for weak dependence (n to the third), so that what the correlogram
/// does not show is not lost, and long series cost less.
fn shortest_block(count: usize) -> usize {
    ((count as f64).cbrt().floor() as usize).max(1)
}

/// Lags 0 to `furthest`, divided by the number of values.
fn autocovariances(values: &[f64], furthest: usize) -> Vec<f64> {
    let count = values.len().max(1) as f64;
    let mean = values.iter().sum::<f64>() / count;
    let centred: Vec<f64> = values.iter().map(|value| value - mean).collect();
    (0..=furthest)
        .map(|lag| {
            let products = centred.iter().zip(centred.iter().skip(lag)).map(|(a, b)| a * b);
            products.sum::<f64>() / count
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::truth_tests::autoregression;
    use super::*;

    #[test]
    fn covariances_of_a_known_series() {
        assert_eq!(autocovariances(&[1.0, -1.0, 1.0, -1.0], 2), [1.0, -0.75, 0.5]);
    }

    #[test]
    fn independent_values_are_worth_themselves_nearly() {
        let dependence = Dependence::of(&autoregression(0.0, 3600, 1));
        assert!(dependence.inflation < 1.3, "{dependence:?}");
        assert_eq!(dependence.block, 15);
    }

    /// The truth for a coefficient f is (1 + f) / (1 - f).
    #[test]
    fn dependent_values_are_worth_less() {
        for (coefficient, truth) in [(0.3, 1.857), (0.6, 4.0), (0.8, 9.0)] {
            let mean: f64 = (0..20)
                .map(|seed| Dependence::of(&autoregression(coefficient, 3600, seed)).inflation)
                .sum::<f64>()
                / 20.0;
            assert!((0.85..1.35).contains(&(mean / truth)), "{coefficient}: {mean}, not {truth}");
        }
        let weak = Dependence::of(&autoregression(0.2, 3600, 3)).block;
        let strong = Dependence::of(&autoregression(0.9, 3600, 3)).block;
        assert!(strong > 2 * weak && strong <= 180, "{weak} and {strong}");
    }

    #[test]
    fn a_constant_and_a_short_series_have_an_answer() {
        for values in [&[][..], &[1.0][..], &[2.0, 2.0, 2.0][..], &[1.0, 5.0][..]] {
            let dependence = Dependence::of(values);
            assert!(dependence.inflation >= 1.0 && dependence.inflation.is_finite());
            assert!(dependence.block >= 1);
        }
    }
}
