//! The circular block bootstrap of the ratio and the difference of two series' means.
//!
//! Blocks of successive values are drawn, from a circle, so that what successive values share stays
//! (D. Politis and J. Romano, "A circular block-resampling procedure for stationary data", 1992). Both
//! means are weighted: a replicate is a mean over the transactions that its blocks hold.

use fastrand::Rng;

use super::{Dependence, Effect, Series};

/// Replicates: enough for the percentiles of a 99.9 % interval.
pub(super) const REPLICATES: usize = 2000;

/// What resampling says of two series.
#[derive(Clone, Debug)]
pub struct Bootstrapped {
    /// Logarithm of new over base; `None` where either is not always positive.
    pub log_ratio: Option<Effect>,
    /// New less base.
    pub difference: Effect,
    /// Each side's mean.
    pub means: [Effect; 2],
    /// Independent values that each side is worth.
    pub effective: [f64; 2],
}

/// `None` where a side has not even two values.
pub fn bootstrap(base: &Series, new: &Series, seed: u64) -> Option<Bootstrapped> {
    if base.len() < 2 || new.len() < 2 {
        return None;
    }
    let sides = [base, new];
    let dependence = sides.map(|series| Dependence::of(series.values()));
    let effective = [0, 1].map(|side| dependence[side].effective(sides[side].len()));
    let freedom = (effective[0].min(effective[1]) - 1.0).max(1.0);
    let mut random = Rng::with_seed(seed);
    let replicates = [0, 1].map(|side| means(sides[side], dependence[side].block, &mut random));
    let centre = [base.mean()?, new.mean()?];
    let differences = pairs(&replicates, |base, new| new - base);
    let positive = |values: &[f64]| values.iter().all(|mean| *mean > 0.0);
    let log_ratio =
        (positive(&centre) && replicates.iter().all(|means| positive(means))).then(|| {
            let ratios = pairs(&replicates, |base, new| (new / base).ln());
            Effect::resampled((centre[1] / centre[0]).ln(), &ratios, freedom)
        });
    let difference = Effect::resampled(centre[1] - centre[0], &differences, freedom);
    let means = [0, 1].map(|side| {
        Effect::resampled(centre[side], &replicates[side], (effective[side] - 1.0).max(1.0))
    });
    Some(Bootstrapped { log_ratio, difference, means, effective })
}

fn pairs(replicates: &[Vec<f64>; 2], of: impl Fn(f64, f64) -> f64) -> Vec<f64> {
    replicates[0].iter().zip(&replicates[1]).map(|(base, new)| of(*base, *new)).collect()
}

/// Means of one series, resampled; empty with fewer than two values.
pub fn resampled_means(series: &Series, seed: u64) -> Vec<f64> {
    if series.len() < 2 {
        return Vec::new();
    }
    means(series, Dependence::of(series.values()).block, &mut Rng::with_seed(seed))
}

/// Means of resampled series.
fn means(series: &Series, block: usize, random: &mut Rng) -> Vec<f64> {
    let (sums, weights) = series.running_sums();
    let count = series.len();
    (0..REPLICATES)
        .map(|_| {
            let (mut sum, mut weight, mut missing) = (0.0, 0.0, count);
            while missing > 0 {
                let length = block.min(missing);
                let start = random.usize(..count);
                sum += sums[start + length] - sums[start];
                weight += weights[start + length] - weights[start];
                missing -= length;
            }
            sum / weight
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::truth_tests::autoregression;
    use super::*;

    fn series(coefficient: f64, scale: f64, seed: u64) -> Series {
        let noise = autoregression(coefficient, 400, seed);
        Series::new(noise.into_iter().map(|value| (scale * (1.0 + 0.1 * value), 1.0)))
    }

    #[test]
    fn independent_values_have_the_textbook_standard_error() {
        let (base, new) = (series(0.0, 100.0, 1), series(0.0, 105.0, 2));
        let found = bootstrap(&base, &new, 7).unwrap();
        let spread = |series: &Series| {
            let mean = series.mean().unwrap();
            let squares = series.values().iter().map(|value| (value / mean - 1.0).powi(2));
            squares.sum::<f64>() / series.len() as f64 / series.len() as f64
        };
        let textbook = (spread(&base) + spread(&new)).sqrt();
        let standard_error = found.log_ratio.unwrap().standard_error();
        assert!((0.8..1.25).contains(&(standard_error / textbook)), "{standard_error} {textbook}");
    }

    #[test]
    fn the_same_seed_gives_the_same_answer_and_scale_does_not_matter() {
        let (base, new) = (series(0.5, 100.0, 1), series(0.5, 105.0, 2));
        let found = bootstrap(&base, &new, 7).unwrap();
        assert_eq!(bootstrap(&base, &new, 7).unwrap().difference, found.difference);
        let scaled = bootstrap(&series(0.5, 1.0, 1), &series(0.5, 1.05, 2), 7).unwrap();
        let (left, right) = (found.log_ratio.unwrap(), scaled.log_ratio.unwrap());
        assert!((left.interval(0.95).0 - right.interval(0.95).0).abs() < 1e-9);
    }

    #[test]
    fn what_can_be_zero_has_no_ratio_and_what_is_short_no_answer() {
        let rare = Series::new((0..60).map(|i| (if i % 30 == 7 { 5.0 } else { 0.0 }, 1.0)));
        assert!(bootstrap(&rare, &series(0.0, 1.0, 1), 7).unwrap().log_ratio.is_none());
        assert!(bootstrap(&Series::new([(1.0, 1.0)]), &rare, 7).is_none());
    }
}
