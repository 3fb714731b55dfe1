//! A latency histogram in few steps, for people.

use hdrhistogram::Histogram;

use crate::model::Bucket;

/// Steps within a factor of ten, coarse to fine: the preferred numbers of engineers, each about the
/// same factor above the one before.
const SERIES: [&[u64]; 4] = [
    &[10, 22, 47],
    &[10, 15, 22, 33, 47, 68],
    &[10, 12, 15, 18, 22, 27, 33, 39, 47, 56, 68, 82],
    &[
        10, 11, 12, 13, 15, 16, 18, 20, 22, 24, 27, 30, 33, 36, 39, 43, 47, 51, 56, 62, 68, 75, 82,
        91,
    ],
];
/// Steps that are shown at most, unless the coarsest ones are more.
const MOST: usize = 20;

/// The finest steps that are few enough, from the smallest value to the largest.
pub(super) fn buckets(histogram: &Histogram<u64>) -> Vec<Bucket> {
    if histogram.is_empty() {
        return Vec::new();
    }
    let finest_first = SERIES.iter().rev().map(|series| bounds(series, histogram));
    let mut chosen = Vec::new();
    for bounds in finest_first {
        chosen = bounds;
        if chosen.len() <= MOST + 1 {
            break;
        }
    }
    let mut buckets: Vec<Bucket> = chosen
        .windows(2)
        .map(|bounds| Bucket { from_ns: bounds[0], to_ns: bounds[1], count: 0 })
        .collect();
    for value in histogram.iter_recorded() {
        // Of the values that the histogram does not tell apart, the smallest.
        let ns = histogram.lowest_equivalent(value.value_iterated_to());
        let at = buckets.partition_point(|bucket| bucket.to_ns <= ns);
        let last = buckets.len().saturating_sub(1);
        if let Some(bucket) = buckets.get_mut(at.min(last)) {
            bucket.count += value.count_since_last_iteration();
        }
    }
    buckets
}

/// Bounds of `series` around all values.
fn bounds(series: &[u64], histogram: &Histogram<u64>) -> Vec<u64> {
    let least = |value| histogram.lowest_equivalent(value).max(10);
    let (min, max) = (least(histogram.min()), least(histogram.max()));
    let decades = (0..).map(|exponent| 10_u64.saturating_pow(exponent));
    let all = decades
        .take(19)
        .flat_map(|decade| series.iter().map(move |step| step.saturating_mul(decade)));
    let mut bounds: Vec<u64> = Vec::new();
    for bound in all {
        if bound <= min {
            bounds.clear();
        }
        bounds.push(bound);
        if bound > max {
            break;
        }
    }
    bounds
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn histogram(values: &[u64]) -> Histogram<u64> {
        let mut histogram = Histogram::new_with_bounds(1, 3_600_000_000_000, 3).unwrap();
        values.iter().for_each(|value| histogram.saturating_record(*value));
        histogram
    }

    #[test]
    fn narrow_latencies_get_fine_steps() {
        let buckets = buckets(&histogram(&[50_000, 60_000, 90_000]));
        let bounds: Vec<_> = buckets.iter().map(|bucket| bucket.from_ns).collect();
        assert_eq!(bounds, [47_000, 51_000, 56_000, 62_000, 68_000, 75_000, 82_000]);
        assert_eq!(
            buckets.iter().map(|bucket| bucket.count).collect::<Vec<_>>(),
            [1, 0, 1, 0, 0, 0, 1]
        );
    }

    proptest! {
        #[test]
        fn every_value_is_in_its_bucket(values in prop::collection::vec(0_u64..10_000_000_000_000, 0..50)) {
            let buckets = buckets(&histogram(&values));
            let total: u64 = buckets.iter().map(|bucket| bucket.count).sum();
            prop_assert_eq!(total, values.len() as u64);
            for two in buckets.windows(2) {
                prop_assert_eq!(two[0].to_ns, two[1].from_ns);
            }
            if let (Some(first), Some(last)) = (buckets.first(), buckets.last()) {
                prop_assert!(first.count > 0 && last.count > 0, "{:?}", buckets);
            }
        }
    }
}
