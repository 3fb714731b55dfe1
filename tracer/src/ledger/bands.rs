//! Where the transactions of one latency spent their time: the median's, the 99th percentile's, the
//! slowest one percent's.

use lockscope_ebpf::{LatencyBucket, bucket_begin_ns};

use super::states::States;
use crate::model::LatencyBand;

/// Percentiles that have a band of their own, if there are that many transactions.
const PERCENTILES: [(&str, f64); 4] =
    [("p50", 50.0), ("p90", 90.0), ("p99", 99.0), ("p99.9", 99.9)];
/// The last band: this share of the transactions, the slowest.
const SLOWEST: f64 = 1.0;

/// A sum of buckets.
#[derive(Clone, Debug, Default)]
pub struct Transactions {
    /// How many.
    pub count: u64,
    /// The sum of their latencies.
    pub latency_ns: u64,
    /// The sum of their time by state.
    pub states: States,
}

impl Transactions {
    /// All of some buckets.
    pub fn of(buckets: &[LatencyBucket]) -> Transactions {
        let mut sum = Transactions::default();
        for bucket in buckets {
            sum.count += bucket.count;
            sum.latency_ns += bucket.latency_ns;
            sum.states.add(&States::from(bucket.states_ns));
        }
        sum
    }
}

/// The bands, each from the buckets that hold it: what it really covers is said. Percentiles that
/// fall into one bucket are one band, named by the first of them.
pub fn bands(buckets: &[LatencyBucket]) -> Vec<LatencyBand> {
    let total = Transactions::of(buckets).count;
    if total == 0 {
        return Vec::new();
    }
    let mut bands: Vec<LatencyBand> = Vec::new();
    let mut last = None;
    for (name, percentile) in PERCENTILES {
        // A percentile of fewer transactions than it has steps is the maximum.
        if (total as f64) * (100.0 - percentile) < 100.0 {
            continue;
        }
        let index = bucket_of_rank(buckets, (percentile / 100.0 * total as f64).ceil() as u64);
        if last != Some(index) {
            bands.extend(band(name, buckets, index, index + 1));
            last = Some(index);
        }
    }
    let wanted = (SLOWEST / 100.0 * total as f64).ceil() as u64;
    let first = bucket_of_rank(buckets, total + 1 - wanted);
    bands.extend(band("slowest", buckets, first, buckets.len()));
    bands
}

/// The bucket that holds the transaction of this rank, from 1.
fn bucket_of_rank(buckets: &[LatencyBucket], rank: u64) -> usize {
    let mut before = 0;
    for (index, bucket) in buckets.iter().enumerate() {
        before += bucket.count;
        if before >= rank {
            return index;
        }
    }
    buckets.len().saturating_sub(1)
}

/// The buckets `[from, to)`.
fn band(name: &str, buckets: &[LatencyBucket], from: usize, to: usize) -> Option<LatencyBand> {
    let total = Transactions::of(buckets).count as f64;
    let before = Transactions::of(&buckets[..from]).count as f64;
    let within = Transactions::of(&buckets[from..to]);
    let last = buckets[from..to].iter().rposition(|bucket| bucket.count > 0)? + from;
    let bound = |index: usize| bucket_begin_ns(u32::try_from(index).unwrap_or(u32::MAX));
    Some(LatencyBand {
        name: name.to_owned(),
        percentile_from: 100.0 * before / total,
        percentile_to: 100.0 * (before + within.count as f64) / total,
        latency_from_ns: bound(from),
        latency_to_ns: bound(last + 1),
        transactions_count: within.count,
        latency_ns: within.latency_ns as f64 / within.count as f64,
        per_transaction_ns: within.states.per_transaction(within.count),
    })
}

#[cfg(test)]
mod tests {
    use lockscope_ebpf::{LATENCY_BUCKETS, State, latency_bucket};

    use super::*;

    fn buckets(transactions: &[(u64, u64, State)]) -> Vec<LatencyBucket> {
        let mut buckets = vec![LatencyBucket::EMPTY; LATENCY_BUCKETS];
        for (count, latency_ns, state) in transactions {
            let bucket = &mut buckets[latency_bucket(*latency_ns) as usize];
            bucket.count += count;
            bucket.latency_ns += count * latency_ns;
            bucket.states_ns[usize::from(state.0)] += count * latency_ns;
        }
        buckets
    }

    #[test]
    fn the_slowest_have_a_ledger_of_their_own_and_say_what_they_cover() {
        let buckets = buckets(&[(9_800, 1_000, State::CPU), (200, 70_000, State::IO)]);
        let bands = bands(&buckets);
        let names: Vec<_> = bands.iter().map(|band| band.name.as_str()).collect();
        assert_eq!(names, ["p50", "p99", "slowest"], "p90 and p99.9 are in the same buckets");
        let slowest = bands.last().unwrap();
        assert_eq!((slowest.percentile_from, slowest.percentile_to), (98.0, 100.0));
        assert_eq!(slowest.transactions_count, 200);
        assert!(slowest.latency_from_ns <= 70_000 && 70_000 < slowest.latency_to_ns);
        assert_eq!(slowest.per_transaction_ns.io, Some(70_000.0));
        assert_eq!(bands[0].per_transaction_ns.cpu, Some(1_000.0));
        assert_eq!(bands[0].per_transaction_ns.total_ns(), bands[0].latency_ns);
    }

    #[test]
    fn few_transactions_have_no_high_percentiles_and_none_no_bands() {
        let names = |buckets: &[LatencyBucket]| -> Vec<String> {
            bands(buckets).into_iter().map(|band| band.name).collect()
        };
        assert_eq!(
            names(&buckets(&[(5, 100, State::CPU), (5, 9_000, State::CPU)])),
            ["p50", "p90", "slowest"]
        );
        assert_eq!(names(&buckets(&[(1, 100, State::CPU)])), ["slowest"]);
        assert!(names(&buckets(&[])).is_empty());
    }
}
