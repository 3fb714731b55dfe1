//! What worker threads use.

use crate::clock::{monotonic_ns, thread_cpu_ns};

/// What a thread has used up to some moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Time on a CPU.
    cpu_ns: u64,
    /// Time ready to run and waiting for a CPU; absent where the kernel does not count it.
    run_queue_ns: Option<u64>,
    /// CLOCK_MONOTONIC just before it was read, and just after: whoever reads may have to wait for a CPU.
    read_ns: (u64, u64),
}

/// What a thread used between two moments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Used {
    /// Time on a CPU.
    pub cpu_ns: u64,
    /// Time ready to run and waiting for a CPU; absent where the kernel does not count it.
    pub run_queue_ns: Option<u64>,
    /// The time in which that was, which is the measured part only as exactly as its ends were read.
    pub wall_ns: u64,
}

impl Usage {
    pub(super) fn of(tid: u32) -> Self {
        let path = format!("/proc/self/task/{tid}/schedstat");
        let before_ns = monotonic_ns();
        let text = std::fs::read_to_string(path).unwrap_or_default();
        let cpu_ns = thread_cpu_ns(tid).unwrap_or_default();
        let read_ns = (before_ns, monotonic_ns());
        let run_queue_ns = text.split_whitespace().nth(1).and_then(|field| field.parse().ok());
        Self { cpu_ns, run_queue_ns, read_ns }
    }

    /// Since `before`.
    pub fn since(self, before: Self) -> Used {
        let run_queue_ns = self.run_queue_ns.zip(before.run_queue_ns);
        Used {
            cpu_ns: self.cpu_ns.saturating_sub(before.cpu_ns),
            run_queue_ns: run_queue_ns.map(|(after, before)| after.saturating_sub(before)),
            wall_ns: self.read_ns.1.saturating_sub(before.read_ns.0),
        }
    }
}

/// What the load's threads took of CPUs for a transaction. Where their clocks were read late, on a machine
/// without time, they went on meanwhile, with transactions that do not count: so it is of each second.
pub fn cpu_per_transaction_ns(used: &[Used], tps: f64) -> Option<u64> {
    let cpus = used.iter().filter(|used| used.wall_ns > 0);
    let cpus: f64 = cpus.map(|used| used.cpu_ns as f64 / used.wall_ns as f64).sum();
    (tps > 0.0).then(|| (1e9 * cpus / tps) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn late_clocks_make_no_transaction_dearer() {
        let used = |cpu_ns, wall_ns| Used { cpu_ns, wall_ns, ..Used::default() };
        let on_time = [used(600_000_000, 3_000_000_000), used(300_000_000, 3_000_000_000)];
        let late = [used(2_400_000_000, 12_000_000_000), used(1_200_000_000, 12_000_000_000)];
        assert_eq!(cpu_per_transaction_ns(&on_time, 100.0), Some(3_000_000));
        assert_eq!(cpu_per_transaction_ns(&late, 100.0), Some(3_000_000));
        assert_eq!(cpu_per_transaction_ns(&on_time, 0.0), None);
    }

    #[test]
    fn use_is_what_came_since() {
        let usage = |cpu_ns, run_queue_ns, read_ns| Usage { cpu_ns, run_queue_ns, read_ns };
        let used = |cpu_ns, run_queue_ns, wall_ns| Used { cpu_ns, run_queue_ns, wall_ns };
        let before = usage(4, Some(2), (100, 101));
        assert_eq!(usage(10, Some(7), (110, 112)).since(before), used(6, Some(5), 12));
        assert_eq!(usage(10, None, (110, 112)).since(before), used(6, None, 12));
    }

    #[test]
    fn a_thread_is_on_a_cpu_for_no_longer_than_it_was_looked_at() {
        let tid = u32::try_from(nix::unistd::gettid().as_raw()).unwrap();
        for _ in 0..200 {
            let before = Usage::of(tid);
            let used = Usage::of(tid).since(before);
            assert!(used.cpu_ns <= used.wall_ns, "{used:?}");
        }
    }
}
