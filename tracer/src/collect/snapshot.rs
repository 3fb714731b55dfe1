//! One reading of all accounts.

use std::collections::HashMap;
use std::{fs, io};

use lockscope_ebpf::{
    CLASS_COUNT, CpuAccount, LOSS_COUNT, LockKey, PLUG_OWNER_COUNT, PlugStats, TaskAccount,
    WaitStack, WaitStats,
};

/// All accounts at one instant. Counters only grow; differences of two snapshots are an interval.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// CLOCK_MONOTONIC.
    pub at_ns: u64,
    /// The traced tasks that live, and those that ended since the snapshot before, by tid.
    pub tasks: HashMap<u32, TaskAccount>,
    /// Everything per CPU, summed.
    pub machine: Machine,
}

impl Snapshot {
    /// Tid and process of each traced task that lives.
    pub fn task_ids(&self) -> impl Iterator<Item = (u32, u32)> {
        let living = self.tasks.iter().filter(|(_, account)| account.exited == 0);
        living.map(|(tid, account)| (*tid, account.tgid))
    }
}

/// The per-CPU accounts, summed over the CPUs.
#[derive(Clone, Debug)]
pub struct Machine {
    /// Waits of tasks that are not traced, by class.
    pub other_waits: [WaitStats; CLASS_COUNT],
    /// Waits of interrupts while no traced task was current.
    pub other_irq_count: u64,
    /// Nanoseconds of those.
    pub other_irq_ns: u64,
    /// Begins of waits in interrupts.
    pub irq_begin_count: u64,
    /// Ends of waits in interrupts.
    pub irq_end_count: u64,
    /// Run-queue lock acquisitions of tasks that are not traced.
    pub other_rq_acquire_count: u64,
    /// Stacks of open waits: of each CPU and its interrupt levels.
    pub open: Vec<WaitStack>,
    /// By plug owner.
    pub plug: [PlugStats; PLUG_OWNER_COUNT],
    /// By `Loss`.
    pub losses: [u64; LOSS_COUNT],
}

impl Default for Machine {
    fn default() -> Self {
        Machine {
            other_waits: [WaitStats::ZERO; CLASS_COUNT],
            other_irq_count: 0,
            other_irq_ns: 0,
            irq_begin_count: 0,
            irq_end_count: 0,
            other_rq_acquire_count: 0,
            open: Vec::new(),
            plug: [PlugStats::default(); PLUG_OWNER_COUNT],
            losses: [0; LOSS_COUNT],
        }
    }
}

impl Machine {
    /// Waits of CPUs that were opened in this generation of the gate and have not ended.
    pub fn open_in(&self, generation: u32) -> u64 {
        self.open.iter().map(|stack| stack.open_in(generation)).sum()
    }

    /// Adds one CPU's account.
    pub fn add(&mut self, cpu: &CpuAccount) {
        for (sum, waits) in self.other_waits.iter_mut().zip(&cpu.other_waits) {
            add_waits(sum, waits);
        }
        self.other_irq_count += cpu.other_irq_count;
        self.other_irq_ns += cpu.other_irq_ns;
        self.irq_begin_count += cpu.irq_begin_count;
        self.irq_end_count += cpu.irq_end_count;
        self.other_rq_acquire_count += cpu.other_rq_acquire_count;
        self.open.push(cpu.open);
        self.open.extend(cpu.open_irq);
        for (sum, plug) in self.plug.iter_mut().zip(&cpu.plug) {
            sum.add(plug);
        }
        for (sum, lost) in self.losses.iter_mut().zip(&cpu.losses) {
            *sum += lost;
        }
    }
}

/// Adds waits of the same class; the maximum is the larger one.
pub fn add_waits(sum: &mut WaitStats, more: &WaitStats) {
    sum.begin_count += more.begin_count;
    sum.end_count += more.end_count;
    sum.total_ns += more.total_ns;
    sum.max_ns = sum.max_ns.max(more.max_ns);
    for (bucket, count) in sum.histogram.iter_mut().zip(&more.histogram) {
        *bucket = bucket.saturating_add(*count);
    }
}

/// The contended locks, each summed over the CPUs.
pub type Locks = HashMap<LockKey, WaitStats>;

/// Number of possible CPUs: per-CPU maps hold a value for each, online or not.
///
/// # Errors
/// `/sys/devices/system/cpu/possible` cannot be read or understood.
pub fn possible_cpus() -> io::Result<usize> {
    let path = "/sys/devices/system/cpu/possible";
    let text = fs::read_to_string(path)?;
    last_cpu(&text)
        .map(|last| last + 1)
        .ok_or_else(|| io::Error::other(format!("{path} says `{}`, not a CPU list", text.trim())))
}

/// The highest number of a CPU list such as `0-3,8`.
pub(crate) fn last_cpu(list: &str) -> Option<usize> {
    list.trim().rsplit([',', '-']).next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn possible_cpus_counts_to_the_highest_number() {
        assert_eq!(last_cpu("0\n"), Some(0));
        assert_eq!(last_cpu("0-3\n"), Some(3));
        assert_eq!(last_cpu("0-3,8-11"), Some(11));
        assert_eq!(last_cpu(""), None);
        assert!(possible_cpus().unwrap() >= 1);
    }

    #[test]
    fn adding_waits_keeps_the_longest() {
        let mut sum =
            WaitStats { begin_count: 1, end_count: 1, total_ns: 5, max_ns: 5, ..WaitStats::ZERO };
        sum.histogram[2] = 1;
        let more =
            WaitStats { begin_count: 2, end_count: 1, total_ns: 3, max_ns: 3, ..WaitStats::ZERO };
        add_waits(&mut sum, &more);
        assert_eq!((sum.begin_count, sum.end_count, sum.total_ns, sum.max_ns), (3, 2, 8, 5));
        assert_eq!(sum.histogram[2], 1);
    }
}
