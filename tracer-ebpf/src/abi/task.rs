//! The account of a traced task.

use super::{CLASS_COUNT, Side, State, TaskClock, WaitStack, WaitStats};

/// A traced task's own account; key of the `TASKS` map is the tid in the initial pid namespace.
///
/// Only the task itself writes it (it runs on one CPU at a time), but for the `irq_*` fields,
/// which interrupts on its CPU add to, and the clock of a task that sleeps, which its waker moves.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TaskAccount {
    /// What it does, and its time by state.
    pub clock: TaskClock,
    /// The process id (tgid).
    pub tgid: u32,
    /// The `Side` it belongs to.
    pub side: u8,
    /// 1 once the task has exited; the user side then reads the account a last time and deletes it.
    pub exited: u8,
    /// The set of latency buckets, from 1, that its transactions are counted in; 0 = in none.
    pub counted: u8,
    /// `TaskAccount::FOLLOWED` and the like.
    pub flags: u8,
    /// When the account was opened (fork or attach).
    pub since_ns: u64,
    /// When the task exited, 0 while it lives.
    pub exited_ns: u64,
    /// Address of Postgres's `my_wait_event_info` in the task's memory: a pointer to its wait event
    /// word. 0 = it has none, or it is not known.
    pub wait_event_address: u64,
    /// Address of `st_state` in the backend's status entry, where its replies are encrypted; else 0.
    pub status_address: u64,
    /// Requests answered: ReadyForQuery sent, any status.
    pub requests_count: u64,
    /// Transactions ended: ReadyForQuery with status `I` sent.
    pub transactions_count: u64,
    /// Those of its transactions that were told from their begin to their end, and counted.
    pub told_count: u64,
    /// ReadyForQuery with status `E` sent.
    pub failed_requests_count: u64,
    /// Waits that interrupts of this task's CPU spun, while it was current.
    pub irq_count: u64,
    /// Nanoseconds of those.
    pub irq_ns: u64,
    /// Run-queue locks that the task acquired through `raw_spin_rq_lock_nested` (only on request).
    pub rq_acquire_count: u64,
    /// The plug flush that the task is in.
    pub flush: OpenFlush,
    /// Buffer and length of the `sendto` that the task is in (only where the hook at its return
    /// cannot see the arguments).
    pub send_buffer: u64,
    /// See `send_buffer`.
    pub send_len: u64,
    /// The last bytes that the task sent, newest in the low byte: a ReadyForQuery message may be
    /// spread over two sends.
    pub sent_tail: u64,
    /// By `LockClass`.
    pub waits: [WaitStats; CLASS_COUNT],
    /// The waits that are open now.
    pub open: WaitStack,
}

/// A flush of a block plug that has begun.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenFlush {
    /// When the outermost call began.
    pub begin_ns: u64,
    /// Calls that are open: a stacked device's flush runs inside its upper's.
    pub depth: u32,
    /// The gate's generation at the begin.
    pub generation: u32,
}

impl TaskAccount {
    /// What the task forks joins the trace, with the same side, `counted` and flags.
    pub const FOLLOWED: u8 = 1;
    /// The session that the task may be is asked for at its first reply whether it is one of those
    /// that are left out (`SESSIONS_LEFT_OUT`).
    pub const MAY_BE_LEFT_OUT: u8 = 2;
    /// It was: its transactions are counted nowhere.
    pub const LEFT_OUT: u8 = 4;

    /// An account without any wait, opened at `since_ns`.
    pub const fn new(tgid: u32, side: Side, since_ns: u64) -> TaskAccount {
        TaskAccount {
            clock: TaskClock::new(State::WAIT_UNKNOWN),
            tgid,
            side: side as u8,
            exited: 0,
            counted: 0,
            flags: 0,
            since_ns,
            exited_ns: 0,
            wait_event_address: 0,
            status_address: 0,
            requests_count: 0,
            transactions_count: 0,
            told_count: 0,
            failed_requests_count: 0,
            irq_count: 0,
            irq_ns: 0,
            rq_acquire_count: 0,
            flush: OpenFlush { begin_ns: 0, depth: 0, generation: 0 },
            send_buffer: 0,
            send_len: 0,
            sent_tail: 0,
            waits: [WaitStats::ZERO; CLASS_COUNT],
            open: WaitStack::EMPTY,
        }
    }
}
