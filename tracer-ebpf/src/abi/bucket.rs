//! Transactions by latency.

use super::STATE_COUNT;

/// Buckets of latencies: four to each power of two, up to 2^40 ns (18 minutes); the last one holds
/// everything above too.
pub const LATENCY_BUCKETS: usize = 160;

/// The transactions of one bucket, one set a CPU.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LatencyBucket {
    /// How many.
    pub count: u64,
    /// The sum of their latencies.
    pub latency_ns: u64,
    /// The sum of their time by state.
    pub states_ns: [u64; STATE_COUNT],
}

impl LatencyBucket {
    /// Nothing in it.
    pub const EMPTY: LatencyBucket =
        LatencyBucket { count: 0, latency_ns: 0, states_ns: [0; STATE_COUNT] };

    /// Adds another CPU's.
    pub fn add(&mut self, more: &LatencyBucket) {
        self.count += more.count;
        self.latency_ns += more.latency_ns;
        for (sum, ns) in self.states_ns.iter_mut().zip(&more.states_ns) {
            *sum += ns;
        }
    }
}

/// The bucket of a latency.
#[inline(always)]
pub fn latency_bucket(ns: u64) -> u32 {
    if ns < 4 {
        return ns as u32;
    }
    let log = floor_log2(ns);
    let bucket = 4 * (log - 1) + ((ns >> (log - 2)) & 3) as u32;
    if bucket < LATENCY_BUCKETS as u32 { bucket } else { LATENCY_BUCKETS as u32 - 1 }
}

/// Floor of the binary logarithm; 0 for 0. BPF has no count-leading-zeros.
#[inline(always)]
pub fn floor_log2(value: u64) -> u32 {
    // Every bit below the highest is set, and they are counted: without a branch, each of which would
    // double the paths that the verifier walks.
    let mut bits = value | 1;
    bits |= bits >> 1;
    bits |= bits >> 2;
    bits |= bits >> 4;
    bits |= bits >> 8;
    bits |= bits >> 16;
    bits |= bits >> 32;
    bits.count_ones() - 1
}

/// The smallest latency of a bucket; the largest is one less than the next bucket's.
pub const fn bucket_begin_ns(bucket: u32) -> u64 {
    if bucket < 4 {
        return bucket as u64;
    }
    let log = bucket / 4 + 1;
    (4 + bucket as u64 % 4) << (log - 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_contiguous_and_hold_what_they_say() {
        for bucket in 0..LATENCY_BUCKETS as u32 {
            let begin = bucket_begin_ns(bucket);
            assert_eq!(latency_bucket(begin), bucket, "{begin}");
            assert_eq!(latency_bucket(bucket_begin_ns(bucket + 1) - 1), bucket);
        }
        assert_eq!(latency_bucket(u64::MAX), LATENCY_BUCKETS as u32 - 1);
    }

    #[test]
    fn logarithms_are_exact() {
        assert_eq!(floor_log2(0), 0);
        for log in 0..64 {
            assert_eq!(floor_log2(1 << log), log);
            assert_eq!(floor_log2((1 << log) | ((1 << log) - 1)), log);
        }
    }

    #[test]
    fn a_bucket_is_at_most_a_quarter_wide() {
        for bucket in 16..LATENCY_BUCKETS as u32 {
            let (begin, end) = (bucket_begin_ns(bucket), bucket_begin_ns(bucket + 1));
            assert!((end - begin) * 4 <= begin);
        }
    }
}
