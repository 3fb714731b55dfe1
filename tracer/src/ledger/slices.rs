//! The run cut into slices with the programs on and off.
//!
//! Per-transaction numbers divide by the transactions of the slices that were on; what tracing
//! costs shows as the difference between neighbouring slices.

/// Load that fell into one slice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SliceLoad {
    /// Successful transactions that ended in it.
    pub transactions_count: u64,
    /// Sum of their latencies.
    pub latency_ns: u64,
}

/// A stretch of the measured part with the gate in one position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slice {
    /// Whether the programs were on.
    pub on: bool,
    /// CLOCK_MONOTONIC.
    pub begin_ns: u64,
    /// CLOCK_MONOTONIC; `u64::MAX` while it is open.
    pub end_ns: u64,
    /// What the load did in it.
    pub load: SliceLoad,
}

impl Slice {
    /// Its length up to now.
    pub fn duration_ns(&self, now_ns: u64) -> u64 {
        self.end_ns.min(now_ns).saturating_sub(self.begin_ns)
    }
}

/// All slices, oldest first.
#[derive(Clone, Debug, Default)]
pub struct Slices {
    slices: Vec<Slice>,
}

/// Two neighbouring slices, one of each kind, as rates.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SlicePair {
    /// Transactions per second with the programs on.
    pub tps_on: f64,
    /// With them off.
    pub tps_off: f64,
    /// Mean latency with the programs on.
    pub latency_on_ns: f64,
    /// With them off.
    pub latency_off_ns: f64,
}

impl Slices {
    /// The gate has moved (or the measured part has begun).
    pub fn begin(&mut self, on: bool, now_ns: u64) {
        self.end(now_ns);
        let load = SliceLoad::default();
        self.slices.push(Slice { on, begin_ns: now_ns, end_ns: u64::MAX, load });
    }

    /// The measured part has ended.
    pub fn end(&mut self, now_ns: u64) {
        if let Some(last) = self.slices.last_mut() {
            last.end_ns = last.end_ns.min(now_ns);
        }
    }

    /// Adds a successful transaction to the slice it ended in, and tells whether that one was on;
    /// `None` when it ended in none.
    pub fn add(&mut self, ended_ns: u64, latency_ns: u64) -> Option<bool> {
        let after = self.slices.partition_point(|slice| slice.begin_ns <= ended_ns);
        let slice = after.checked_sub(1).and_then(|index| self.slices.get_mut(index))?;
        if ended_ns >= slice.end_ns {
            return None;
        }
        slice.load.transactions_count += 1;
        slice.load.latency_ns += latency_ns;
        Some(slice.on)
    }

    /// Whether the programs are on; `None` before the measured part and after it.
    pub fn is_on(&self) -> Option<bool> {
        self.slices.last().filter(|slice| slice.end_ns == u64::MAX).map(|slice| slice.on)
    }

    /// Load of the slices that were on.
    pub fn traced(&self) -> SliceLoad {
        self.traced_between(0, u64::MAX)
    }

    /// Load of the slices that were on and began in `[from_ns, to_ns)`.
    pub fn traced_between(&self, from_ns: u64, to_ns: u64) -> SliceLoad {
        let mut sum = SliceLoad::default();
        let within =
            |slice: &&Slice| slice.on && slice.begin_ns >= from_ns && slice.begin_ns < to_ns;
        for slice in self.slices.iter().filter(within) {
            sum.transactions_count += slice.load.transactions_count;
            sum.latency_ns += slice.load.latency_ns;
        }
        sum
    }

    /// Nanoseconds that the programs were on within `[from_ns, to_ns)`.
    pub fn on_ns_between(&self, from_ns: u64, to_ns: u64) -> u64 {
        let overlap =
            |slice: &Slice| slice.end_ns.min(to_ns).saturating_sub(slice.begin_ns.max(from_ns));
        self.slices.iter().filter(|slice| slice.on).map(overlap).sum()
    }

    /// Each finished slice that was off against the finished neighbours that were on. Slices
    /// without a transaction tell nothing and are left out.
    pub fn pairs(&self) -> Vec<SlicePair> {
        let mut pairs = Vec::new();
        for (index, off) in self.slices.iter().enumerate().filter(|(_, slice)| !slice.on) {
            let before = index.checked_sub(1).and_then(|index| self.slices.get(index));
            let after = self.slices.get(index + 1);
            let mut on = SliceLoad::default();
            let mut on_ns = 0;
            for slice in [before, after].into_iter().flatten().filter(|slice| slice.on) {
                on.transactions_count += slice.load.transactions_count;
                on.latency_ns += slice.load.latency_ns;
                on_ns += slice.duration_ns(u64::MAX - 1);
            }
            pairs.extend(pair(on, on_ns, off.load, off.duration_ns(u64::MAX - 1)));
        }
        pairs
    }
}

fn pair(on: SliceLoad, on_ns: u64, off: SliceLoad, off_ns: u64) -> Option<SlicePair> {
    if on.transactions_count == 0 || off.transactions_count == 0 || on_ns == 0 || off_ns == 0 {
        return None;
    }
    let rate = |load: SliceLoad, ns: u64| load.transactions_count as f64 * 1e9 / ns as f64;
    let latency = |load: SliceLoad| load.latency_ns as f64 / load.transactions_count as f64;
    Some(SlicePair {
        tps_on: rate(on, on_ns),
        tps_off: rate(off, off_ns),
        latency_on_ns: latency(on),
        latency_off_ns: latency(off),
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn alternating(ends: &[u64]) -> Slices {
        let mut slices = Slices::default();
        let mut on = true;
        let mut begin = 0;
        for end in ends {
            slices.begin(on, begin);
            begin = *end;
            on = !on;
        }
        slices.end(begin);
        slices
    }

    #[test]
    fn transactions_go_to_the_slice_they_ended_in() {
        let mut slices = alternating(&[100, 120, 220]);
        assert_eq!(slices.add(0, 5), Some(true));
        assert_eq!(slices.add(99, 5), Some(true));
        assert_eq!(slices.add(100, 7), Some(false));
        assert_eq!(slices.add(219, 9), Some(true));
        assert_eq!(slices.add(220, 9), None, "after the end");
        assert_eq!(slices.traced(), SliceLoad { transactions_count: 3, latency_ns: 19 });
        assert_eq!(slices.on_ns_between(50, 150), 50 + 30);
    }

    #[test]
    fn a_pair_compares_an_off_slice_with_both_neighbours() {
        let mut slices = alternating(&[100, 200, 300]);
        for (at, latency) in [(10, 4), (110, 2), (120, 2), (210, 4)] {
            slices.add(at, latency);
        }
        let pairs = slices.pairs();
        assert_eq!(pairs.len(), 1);
        assert!((pairs[0].tps_on / pairs[0].tps_off - 0.5).abs() < 1e-9);
        assert!((pairs[0].latency_on_ns - 4.0).abs() < 1e-9);
    }

    proptest! {
        /// Whatever the slices: every transaction is in exactly one, and on + off = all.
        #[test]
        fn slices_partition_the_measured_part(
            lengths in prop::collection::vec(1_u64..1000, 1..40),
            ends in prop::collection::vec(0_u64..50_000, 0..200),
        ) {
            let bounds: Vec<u64> = lengths
                .iter()
                .scan(0, |sum, length| { *sum += length; Some(*sum) })
                .collect();
            let mut slices = alternating(&bounds);
            let last = bounds[bounds.len() - 1];
            let inside = ends.iter().filter(|end| slices.add(**end, 1).is_some()).count();
            prop_assert_eq!(inside, ends.iter().filter(|end| **end < last).count());
            let on: u64 = lengths.iter().step_by(2).sum();
            prop_assert_eq!(slices.on_ns_between(0, u64::MAX), on);
        }
    }
}
