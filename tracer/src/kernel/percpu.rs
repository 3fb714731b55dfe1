//! Where each CPU's run queue and preempt count lie.
//!
//! A per-CPU variable is an offset that each CPU adds its own base to. So one known address of a
//! CPU's run queue gives the address of all its other per-CPU variables.

use serde::{Deserialize, Serialize};

use super::btf::Btf;
use super::symbols::Listing;

/// Where the preempt count is, which tells task context from interrupt context.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PreemptCount {
    /// A per-CPU variable at this offset (x86).
    PerCpu(u64),
    /// A member of `task_struct` at this byte offset (arm64).
    InTask(u32),
}

/// Offsets around the run queue; what BTF does not tell is absent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunQueueLayout {
    /// Per-CPU offset of `runqueues`.
    pub runqueues: Option<u64>,
    /// Byte offset of the lock inside `struct rq`.
    pub lock: Option<u32>,
    /// Where the preempt count is.
    pub preempt_count: Option<PreemptCount>,
    /// Byte offset of `task_struct.se.cfs_rq`, the way from a task to its run queue.
    pub task_cfs_rq: Option<u32>,
    /// Byte offset of `cfs_rq.rq` (with `CONFIG_FAIR_GROUP_SCHED`).
    pub cfs_rq_rq: Option<u32>,
}

impl RunQueueLayout {
    /// Reads the offsets.
    pub fn from_btf(btf: &Btf) -> Self {
        RunQueueLayout {
            runqueues: btf.percpu_offset("runqueues"),
            lock: btf.offset("rq.__lock").or_else(|_| btf.offset("rq.lock")).ok(),
            preempt_count: preempt_count(btf),
            task_cfs_rq: btf.offset("task_struct.se.cfs_rq").ok(),
            cfs_rq_rq: btf.offset("cfs_rq.rq").ok(),
        }
    }

    /// The symbols that [`RunQueueLayout::with_symbols`] looks at.
    pub const SYMBOLS: [&str; 2] = ["runqueues", "__preempt_count"];

    /// Takes the places of the per-CPU variables from kallsyms where BTF lacks one of them, as on
    /// Debian's 5.10: both or none, because the two may count from different starts.
    pub fn with_symbols(self, symbols: &Listing) -> Self {
        let [runqueues, preempt_count] = Self::SYMBOLS.map(|name| symbols.address(name));
        match (self.runqueues, self.preempt_count, runqueues, preempt_count) {
            (Some(_), Some(_), ..) | (.., None, _) => self,
            (.., Some(runqueues), preempt_count) => RunQueueLayout {
                runqueues: Some(runqueues),
                preempt_count: preempt_count.map(PreemptCount::PerCpu).or(self.preempt_count),
                ..self
            },
        }
    }

    /// Address of a CPU's run-queue lock, from the address of its run queue.
    pub fn lock_address(&self, rq: u64) -> Option<u64> {
        rq.checked_add(u64::from(self.lock?))
    }

    /// Address of a CPU's preempt count, from the address of its run queue. Absent where the
    /// count is not a per-CPU variable.
    pub fn preempt_count_address(&self, rq: u64) -> Option<u64> {
        match self.preempt_count? {
            PreemptCount::PerCpu(offset) => {
                Some(rq.wrapping_sub(self.runqueues?).wrapping_add(offset))
            }
            PreemptCount::InTask(_) => None,
        }
    }
}

/// Address of a CPU's run queue, from kallsyms' `runqueues` and that CPU's entry of the array
/// `__per_cpu_offset`.
pub fn rq_address(runqueues: u64, per_cpu_offset: u64) -> u64 {
    runqueues.wrapping_add(per_cpu_offset)
}

/// x86 kept the count in a variable of its own but for 6.2 to 6.14, when it was in `pcpu_hot`.
fn preempt_count(btf: &Btf) -> Option<PreemptCount> {
    if let Some(offset) = btf.percpu_offset("__preempt_count") {
        return Some(PreemptCount::PerCpu(offset));
    }
    if let Some(hot) = btf.percpu_offset("pcpu_hot") {
        let member = btf.offset("pcpu_hot.preempt_count").ok()?;
        return Some(PreemptCount::PerCpu(hot + u64::from(member)));
    }
    // arm64 counts in the low half of a 64-bit word, which is first in memory.
    let in_task = btf.offset("task_struct.thread_info.preempt_count");
    in_task.map(PreemptCount::InTask).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::btf::BtfError;
    use crate::kernel::symbols;

    const SYMBOLS: [&str; 2] = RunQueueLayout::SYMBOLS;

    const LAYOUT: RunQueueLayout = RunQueueLayout {
        runqueues: Some(0x2_ba80),
        lock: Some(8),
        preempt_count: Some(PreemptCount::PerCpu(0x1_5030)),
        task_cfs_rq: None,
        cfs_rq_rq: None,
    };

    #[test]
    fn one_address_gives_the_others_of_the_same_cpu() {
        let base = 0xffff_8880_7b40_0000;
        let rq = rq_address(0x2_ba80, base);
        assert_eq!(LAYOUT.lock_address(rq), Some(base + 0x2_ba88));
        assert_eq!(LAYOUT.preempt_count_address(rq), Some(base + 0x1_5030));
    }

    #[test]
    fn symbols_stand_in_for_btf_without_per_cpu_variables() {
        let symbols = "33c40 A runqueues\n18f30 A __preempt_count\n";
        let symbols = symbols::list_from(symbols.as_bytes(), &SYMBOLS.map(str::to_owned)).unwrap();
        let bare = RunQueueLayout { lock: Some(0), ..RunQueueLayout::default() };
        let filled = bare.with_symbols(&symbols);
        assert_eq!(filled.runqueues, Some(0x3_3c40));
        assert_eq!(filled.preempt_count, Some(PreemptCount::PerCpu(0x1_8f30)));
        assert_eq!(
            filled.preempt_count_address(0xffff_8880_0003_3c40),
            Some(0xffff_8880_0001_8f30)
        );
        assert_eq!(LAYOUT.with_symbols(&symbols), LAYOUT);
        assert_eq!(bare.with_symbols(&Listing::default()), bare);
    }

    #[test]
    fn what_is_unknown_stays_unknown() {
        let in_task = RunQueueLayout { preempt_count: Some(PreemptCount::InTask(16)), ..LAYOUT };
        assert_eq!(in_task.preempt_count_address(0xffff_8880_0000_0000), None);
        let no_lock = RunQueueLayout { lock: None, ..LAYOUT };
        assert_eq!(no_lock.lock_address(1), None);
    }

    #[test]
    fn the_running_kernel_tells_where_its_run_queues_are() {
        let btf = match Btf::of_running_kernel() {
            Ok(btf) => btf,
            Err(BtfError::Read { .. }) => return eprintln!("skipped: this kernel has no BTF"),
            Err(error) => panic!("{error}"),
        };
        let layout = RunQueueLayout::from_btf(&btf);
        assert!(layout.lock.is_some() && layout.task_cfs_rq.is_some());
        let symbols = symbols::list(&SYMBOLS.map(str::to_owned)).unwrap();
        // Without either source (5.10 for the unprivileged) there is nothing to find.
        if btf.percpu_offset("runqueues").is_some() || symbols.address("runqueues").is_some() {
            let layout = layout.with_symbols(&symbols);
            assert!(layout.runqueues.is_some() && layout.preempt_count.is_some());
        }
    }
}
