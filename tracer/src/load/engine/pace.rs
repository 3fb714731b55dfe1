//! When transactions are due: a rate's schedule, and who sleeps until when.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::load::script::Random;

/// The schedule of one worker under a rate limit (`-R`): a Poisson process, so that transactions are
/// due as if many independent users asked for them, whether or not the server keeps up.
#[derive(Debug)]
pub(super) struct Pace {
    random: Random,
    /// Mean time between two due transactions of this worker.
    mean_ns: f64,
    last_ns: u64,
}

impl Pace {
    pub(super) fn new(mean_ns: f64, start_ns: u64, random: Random) -> Self {
        Self { random, mean_ns, last_ns: start_ns }
    }

    /// When the next transaction is due.
    pub(super) fn next(&mut self) -> u64 {
        let gap_ns = -self.random.positive_unit().ln() * self.mean_ns;
        self.last_ns = self.last_ns.saturating_add(gap_ns as u64);
        self.last_ns
    }
}

/// Clients that wait for their time.
#[derive(Debug, Default)]
pub(super) struct Timers {
    heap: BinaryHeap<Reverse<(u64, usize)>>,
}

impl Timers {
    /// Wakes `slot` at `due_ns`.
    pub(super) fn set(&mut self, due_ns: u64, slot: usize) {
        self.heap.push(Reverse((due_ns, slot)));
    }

    /// When the next one is due.
    pub(super) fn next_ns(&self) -> Option<u64> {
        self.heap.peek().map(|Reverse((due_ns, _))| *due_ns)
    }

    /// One whose time has come.
    pub(super) fn pop_due(&mut self, now_ns: u64) -> Option<usize> {
        if self.next_ns()? > now_ns {
            return None;
        }
        self.heap.pop().map(|Reverse((_, slot))| slot)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_schedule_keeps_its_rate_and_is_irregular() {
        let mut pace = Pace::new(1000.0, 50, Random::new(7));
        let due: Vec<u64> = (0..10_000).map(|_| pace.next()).collect();
        let mean = (due[9_999] - 50) as f64 / 10_000.0;
        assert!((mean - 1000.0).abs() < 50.0, "{mean}");
        let gaps: Vec<f64> = due.windows(2).map(|two| (two[1] - two[0]) as f64).collect();
        let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / 9_999.0;
        // An exponential distribution's deviation is its mean.
        assert!((variance.sqrt() / mean - 1.0).abs() < 0.1, "{variance}");
    }

    proptest! {
        #[test]
        fn timers_wake_in_order_and_never_early(due in prop::collection::vec(0_u64..100, 0..30)) {
            let mut timers = Timers::default();
            for (slot, due_ns) in due.iter().enumerate() {
                timers.set(*due_ns, slot);
            }
            let mut woken = Vec::new();
            for now_ns in 0..100 {
                while let Some(slot) = timers.pop_due(now_ns) {
                    prop_assert_eq!(due[slot], now_ns);
                    woken.push(slot);
                }
            }
            woken.sort_unstable();
            prop_assert_eq!(woken, (0..due.len()).collect::<Vec<_>>());
        }
    }
}
