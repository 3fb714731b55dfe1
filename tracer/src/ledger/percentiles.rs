//! Latency of the transactions that only the server told, from the kernel side's buckets.

use lockscope_ebpf::{LatencyBucket, bucket_begin_ns};

use crate::model::Latency;

/// One bucket: how many transactions, and the sum of their latencies.
type Bucket = (u64, u64);

/// How many transactions there are by latency, without their time by state.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Latencies(Vec<Bucket>);

impl Latencies {
    /// Of the kernel side's buckets.
    pub fn of(buckets: &[LatencyBucket]) -> Latencies {
        Latencies(buckets.iter().map(|bucket| (bucket.count, bucket.latency_ns)).collect())
    }

    /// What came since `earlier`.
    pub fn since(&self, earlier: &Latencies) -> Latencies {
        let before = earlier.0.iter().copied().chain(std::iter::repeat((0, 0)));
        let difference = |(now, before): (&Bucket, Bucket)| {
            (now.0.saturating_sub(before.0), now.1.saturating_sub(before.1))
        };
        Latencies(self.0.iter().zip(before).map(difference).collect())
    }

    /// How many.
    pub fn count(&self) -> u64 {
        self.0.iter().map(|(count, _)| count).sum()
    }

    /// Their mean in nanoseconds, exact; `None` when there are none.
    pub fn mean_ns(&self) -> Option<u64> {
        let sum_ns: u64 = self.0.iter().map(|(_, sum_ns)| sum_ns).sum();
        sum_ns.checked_div(self.count())
    }

    /// The latency below which this part (0 … 1) of them lies: its rank's place in the bucket that holds
    /// it, as if they lay evenly in there. A bucket is at most a quarter wide.
    pub fn quantile_ns(&self, part: f64) -> Option<u64> {
        let count = self.count();
        let rank = ((part * count as f64).ceil() as u64).clamp(1, count.max(1));
        let mut before = 0;
        for (index, (within, sum_ns)) in self.0.iter().enumerate() {
            if before + within < rank {
                before += within;
                continue;
            }
            if *within == 1 {
                return Some(*sum_ns);
            }
            let bound = |index: usize| bucket_begin_ns(u32::try_from(index).unwrap_or(u32::MAX));
            let (begin_ns, end_ns) = (bound(index), bound(index + 1));
            let place = (rank - before) as f64 / *within as f64;
            return Some(begin_ns + (place * (end_ns - begin_ns) as f64) as u64);
        }
        None
    }

    /// The model's numbers; `None` when there are none. The standard deviation is that of the buckets'
    /// means: what lies within a bucket is not in it.
    pub fn summary(&self) -> Option<Latency> {
        let mean_ns = self.mean_ns()?;
        let quantile_ns = |part| self.quantile_ns(part).unwrap_or(mean_ns);
        Some(Latency {
            mean: mean_ns,
            stddev: self.stddev_ns(mean_ns),
            p50: quantile_ns(0.5),
            p90: quantile_ns(0.9),
            p95: quantile_ns(0.95),
            p99: quantile_ns(0.99),
            p999: quantile_ns(0.999),
            p9999: Some(quantile_ns(0.9999)),
            max: quantile_ns(1.0),
        })
    }

    fn stddev_ns(&self, mean_ns: u64) -> u64 {
        let square = |(count, sum_ns): &Bucket| {
            let from_mean = *sum_ns as f64 / *count as f64 - mean_ns as f64;
            *count as f64 * from_mean * from_mean
        };
        let squares: f64 = self.0.iter().filter(|(count, _)| *count > 0).map(square).sum();
        (squares / self.count().max(1) as f64).sqrt() as u64
    }
}

#[cfg(test)]
mod tests {
    use lockscope_ebpf::{LATENCY_BUCKETS, latency_bucket};
    use proptest::prelude::*;

    use super::*;

    fn latencies(each: &[u64]) -> Latencies {
        let mut buckets = vec![LatencyBucket::EMPTY; LATENCY_BUCKETS];
        for ns in each {
            let bucket = &mut buckets[latency_bucket(*ns) as usize];
            bucket.count += 1;
            bucket.latency_ns += ns;
        }
        Latencies::of(&buckets)
    }

    #[test]
    fn one_alone_is_exact_and_nobody_has_no_latency() {
        let summary = latencies(&[1_234_567]).summary().unwrap();
        assert_eq!((summary.mean, summary.p50, summary.max), (1_234_567, 1_234_567, 1_234_567));
        assert_eq!(summary.stddev, 0);
        assert_eq!(latencies(&[]).summary(), None);
    }

    #[test]
    fn an_interval_is_what_came_since_the_one_before() {
        let (first, both) = (latencies(&[1_000]), latencies(&[1_000, 9_000]));
        assert_eq!(both.since(&first).mean_ns(), Some(9_000));
        assert_eq!(both.since(&Latencies::default()), both);
        assert_eq!(first.since(&first).mean_ns(), None);
    }

    proptest! {
        #[test]
        fn quantiles_are_at_most_a_bucket_away(
            mut each in prop::collection::vec(16_u64..1 << 38, 1..200),
            part in 0.0..=1.0_f64,
        ) {
            let found = latencies(&each).quantile_ns(part).unwrap();
            each.sort_unstable();
            let rank = ((part * each.len() as f64).ceil() as usize).clamp(1, each.len());
            let exact = each[rank - 1];
            prop_assert!(found.abs_diff(exact) <= exact / 4 + 1, "{found} is not {exact}");
        }

        #[test]
        fn quantiles_never_fall(each in prop::collection::vec(1_u64..1 << 39, 1..100)) {
            let summary = latencies(&each).summary().unwrap();
            let quantiles = [summary.p50, summary.p90, summary.p95, summary.p99, summary.p999, summary.max];
            prop_assert!(quantiles.is_sorted(), "{quantiles:?}");
        }
    }
}
