//! The account of a CPU: everything that is not a traced task's.

use super::{CLASS_COUNT, LOSS_COUNT, PLUG_OWNER_COUNT, PlugStats, WaitStack, WaitStats};

/// What each CPU keeps for itself: everything that is not a traced task's.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuAccount {
    /// 1 while one of lockscope's programs runs on this CPU. Events raised meanwhile (by its own
    /// map operations, or by an interrupt) are left out and counted, so no count can be torn.
    pub busy: u32,
    /// Counts waits below the threshold, to sample one in N.
    pub sample_tick: u32,
    /// 1 = waits that end on this CPU are not counted by lock.
    pub left_out: u32,
    /// Explicit padding.
    pub pad: u32,
    /// Kernel address of this CPU's preempt count; 0 = unknown, interrupts are then not told apart.
    pub preempt_count_address: u64,
    /// Open waits of the current task, if it is not traced and cannot sleep in them.
    pub open: WaitStack,
    /// Open waits of softirqs, hardirqs and NMIs.
    pub open_irq: [WaitStack; IRQ_LEVELS],
    /// Waits of tasks that are not traced.
    pub other_waits: [WaitStats; CLASS_COUNT],
    /// Waits of interrupts while such a task (or none) was current.
    pub other_irq_count: u64,
    /// Nanoseconds of those.
    pub other_irq_ns: u64,
    /// Begins and ends of interrupt waits, whoever was current.
    pub irq_begin_count: u64,
    /// See `irq_begin_count`.
    pub irq_end_count: u64,
    /// Run-queue lock acquisitions of tasks that are not traced (only on request).
    pub other_rq_acquire_count: u64,
    /// By plug owner.
    pub plug: [PlugStats; PLUG_OWNER_COUNT],
    /// By `Loss`.
    pub losses: [u64; LOSS_COUNT],
}

/// Interrupt contexts that nest: softirq, hardirq, NMI.
pub const IRQ_LEVELS: usize = 3;

impl CpuAccount {
    /// A CPU's empty account.
    pub const fn new(preempt_count_address: u64) -> CpuAccount {
        CpuAccount {
            busy: 0,
            sample_tick: 0,
            left_out: 0,
            pad: 0,
            preempt_count_address,
            open: WaitStack::EMPTY,
            open_irq: [WaitStack::EMPTY; IRQ_LEVELS],
            other_waits: [WaitStats::ZERO; CLASS_COUNT],
            other_irq_count: 0,
            other_irq_ns: 0,
            irq_begin_count: 0,
            irq_end_count: 0,
            other_rq_acquire_count: 0,
            plug: [PlugStats {
                start_count: 0,
                finish_count: 0,
                plug_count: 0,
                unplug_count: 0,
                unplugged_requests_count: 0,
                implicit_unplug_count: 0,
                flush_count: 0,
                empty_flush_count: 0,
                schedule_flush_count: 0,
                flush_ns: 0,
            }; PLUG_OWNER_COUNT],
            losses: [0; LOSS_COUNT],
        }
    }
}
