//! The few statistics that a run needs. Definitions and sources: `docs/metrics.md`.

use lockscope_ebpf::HISTOGRAM_BUCKETS;
use statrs::distribution::{ContinuousCDF as _, StudentsT};

/// Mean and sample standard deviation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Summary {
    /// Values.
    pub count: usize,
    /// Arithmetic mean.
    pub mean: f64,
    /// Sample standard deviation (divisor n - 1); 0 for a single value.
    pub stddev: f64,
}

impl Summary {
    /// Of at least one value.
    pub fn of(values: &[f64]) -> Option<Summary> {
        let (mut mean, mut squares) = (0.0, 0.0);
        // Welford's update: no cancellation when the spread is small beside the mean.
        for (index, value) in values.iter().enumerate() {
            let delta = value - mean;
            mean += delta / (index + 1) as f64;
            squares += delta * (value - mean);
        }
        let stddev = match values.len() {
            0 => return None,
            1 => 0.0,
            count => (squares / (count - 1) as f64).sqrt(),
        };
        Some(Summary { count: values.len(), mean, stddev })
    }
}

/// The ratio of two measurements taken in pairs, with its 95 % confidence interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PairedRatio {
    /// Geometric mean of the pairs' ratios.
    pub ratio: f64,
    /// Lower end of the interval.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// Pairs that counted.
    pub pairs_count: u64,
}

/// The fewest pairs that give an interval worth printing.
pub const MIN_PAIRS: usize = 3;

/// Ratio of first to second over pairs of neighbouring slices, e.g. (tps on, tps off).
///
/// Student's t on the logarithms: slices next to each other share the machine's drift, which the
/// pairing cancels, and the logarithm makes the ratio symmetric. Pairs with a slice that measured
/// nothing are left out; fewer than [`MIN_PAIRS`] give no answer.
pub fn paired_ratio(pairs: &[(f64, f64)]) -> Option<PairedRatio> {
    let logs: Vec<f64> = pairs
        .iter()
        .filter(|(first, second)| {
            *first > 0.0 && *second > 0.0 && first.is_finite() && second.is_finite()
        })
        .map(|(first, second)| (first / second).ln())
        .collect();
    if logs.len() < MIN_PAIRS {
        return None;
    }
    let summary = Summary::of(&logs)?;
    let degrees = (summary.count - 1) as f64;
    let quantile = StudentsT::new(0.0, 1.0, degrees).ok()?.inverse_cdf(0.975);
    let half_width = quantile * summary.stddev / (summary.count as f64).sqrt();
    Some(PairedRatio {
        ratio: summary.mean.exp(),
        low: (summary.mean - half_width).exp(),
        high: (summary.mean + half_width).exp(),
        pairs_count: summary.count as u64,
    })
}

/// An upper bound of a quantile from a log2 histogram: the end of the bucket that holds it, or the
/// longest value seen where that is smaller (and always in the open last bucket).
///
/// `None` for an empty histogram. The true quantile is above half of the bound unless the bound is
/// `max_ns`.
pub fn quantile_bound(
    histogram: &[u32; HISTOGRAM_BUCKETS],
    quantile: f64,
    max_ns: u64,
) -> Option<u64> {
    let count: u64 = histogram.iter().map(|&bucket| u64::from(bucket)).sum();
    if count == 0 {
        return None;
    }
    // The smallest value with at least this share of all values at or below it.
    let rank = ((quantile * count as f64).ceil() as u64).clamp(1, count);
    let mut seen = 0;
    let index = histogram.iter().position(|&bucket| {
        seen += u64::from(bucket);
        seen >= rank
    })?;
    if index == HISTOGRAM_BUCKETS - 1 {
        return Some(max_ns);
    }
    Some((1 << (index + 1)).min(max_ns))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn close(left: f64, right: f64) {
        assert!((left - right).abs() <= 1e-6 * right.abs().max(1.0), "{left} is not {right}");
    }

    fn histogram_of(values: &[u64]) -> [u32; HISTOGRAM_BUCKETS] {
        let mut histogram = [0; HISTOGRAM_BUCKETS];
        for value in values {
            let bucket = (value.max(&1).ilog2() as usize).min(HISTOGRAM_BUCKETS - 1);
            histogram[bucket] += 1;
        }
        histogram
    }

    #[test]
    fn summary_of_a_known_sample() {
        let summary = Summary::of(&[2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0]).unwrap();
        assert_eq!(summary.count, 8);
        close(summary.mean, 5.0);
        close(summary.stddev, (32.0_f64 / 7.0).sqrt());
        assert_eq!(Summary::of(&[]), None);
        assert_eq!(Summary::of(&[3.0]).unwrap().stddev, 0.0);
        close(Summary::of(&[1e9, 1e9 + 1.0, 1e9 + 2.0]).unwrap().stddev, 1.0);
    }

    #[test]
    fn the_interval_is_students_t_on_the_logarithms() {
        // Logarithms -0.02, -0.01, 0, 0.01, 0.02 around ln 0.98: standard deviation 0.0158114,
        // t(0.975, 4) = 2.7764451 from the printed tables.
        let centre = 0.98_f64.ln();
        let pairs: Vec<(f64, f64)> = [-0.02, -0.01, 0.0, 0.01, 0.02]
            .iter()
            .map(|shift: &f64| (1000.0 * (centre + shift).exp(), 1000.0))
            .collect();
        let ratio = paired_ratio(&pairs).unwrap();
        let half_width = 2.776_445_1 * 0.015_811_388 / 5.0_f64.sqrt();
        close(ratio.ratio, 0.98);
        close(ratio.low, 0.98 * (-half_width).exp());
        close(ratio.high, 0.98 * half_width.exp());
        assert_eq!(ratio.pairs_count, 5);
    }

    #[test]
    fn slices_without_transactions_do_not_count() {
        let pairs = [(99.0, 100.0), (0.0, 100.0), (98.0, 100.0), (100.0, f64::NAN), (97.0, 100.0)];
        assert_eq!(paired_ratio(&pairs).unwrap().pairs_count, 3);
        assert_eq!(paired_ratio(&pairs[..3]), None);
        assert_eq!(paired_ratio(&[]), None);
    }

    /// Of many experiments with a known ratio, about 95 % of the intervals hold it.
    #[test]
    fn the_interval_covers_the_truth_as_often_as_it_says() {
        // A small generator with a fixed seed: the test is the same every time.
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let mut uniform = move || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 11) as f64 / (1_u64 << 53) as f64
        };
        let mut covered = 0;
        for _ in 0..2000 {
            let pairs: Vec<(f64, f64)> = (0..8)
                .map(|_| {
                    // A sum of uniforms is near enough to normal.
                    let noise: f64 = (0..12).map(|_| uniform()).sum::<f64>() - 6.0;
                    let drift = 500.0 + 1000.0 * uniform();
                    (drift * 0.97 * (0.05 * noise).exp(), drift)
                })
                .collect();
            let ratio = paired_ratio(&pairs).unwrap();
            covered += u32::from(ratio.low <= 0.97 && 0.97 <= ratio.high);
        }
        assert!((1860..=1940).contains(&covered), "{covered} of 2000 intervals hold the truth");
    }

    #[test]
    fn a_bound_is_the_end_of_its_bucket_or_the_maximum() {
        let values: Vec<u64> = (0..99).map(|_| 1000).chain([1_000_000]).collect();
        let histogram = histogram_of(&values);
        assert_eq!(quantile_bound(&histogram, 0.99, 1_000_000), Some(1024));
        assert_eq!(quantile_bound(&histogram, 1.0, 1_000_000), Some(1_000_000));
        assert_eq!(quantile_bound(&histogram, 0.5, 1010), Some(1010));
        assert_eq!(quantile_bound(&[0; HISTOGRAM_BUCKETS], 0.99, 0), None);
        let open_end = histogram_of(&[u64::from(u32::MAX) * 10]);
        assert_eq!(quantile_bound(&open_end, 0.99, 77_000_000_000), Some(77_000_000_000));
    }

    proptest! {
        #[test]
        fn a_bound_is_never_below_the_true_quantile_and_less_than_twice_it(
            mut values in prop::collection::vec(1_u64..1 << 31, 1..200),
            quantile in 0.01_f64..1.0,
        ) {
            values.sort_unstable();
            let rank = ((quantile * values.len() as f64).ceil() as usize).max(1);
            let truth = values[rank - 1];
            let max = values[values.len() - 1];
            let bound = quantile_bound(&histogram_of(&values), quantile, max).unwrap();
            prop_assert!(truth <= bound, "{truth} > {bound}");
            prop_assert!(bound <= 2 * truth, "{bound} > 2 * {truth}");
        }
    }
}
