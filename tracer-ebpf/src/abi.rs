//! Layouts of map keys, map values and ring-buffer records.
//!
//! All times are nanoseconds of CLOCK_MONOTONIC (`bpf_ktime_get_ns`), all counts are events.

/// How a wait is charged. The order is the index into every per-class array.
///
/// The spin classes are time on a CPU, the sleep classes time in the slow path of a lock that
/// sleeps (asleep, or awake and waiting to run again: depth `locks` does not tell these apart).
#[repr(u8)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LockClass {
    /// Queueing in `osq_lock`, before becoming the one optimistic spinner.
    Osq = 0,
    /// Spinning in `mutex_spin_on_owner` while the owner runs.
    MutexOwner = 1,
    /// Optimistic spinning of a mutex that is in neither of the two above (or cannot be split).
    MutexSpin = 2,
    /// Spinning in `rwsem_spin_on_owner`.
    RwsemOwner = 3,
    /// A queued spinlock's slow path.
    Qspinlock = 4,
    /// A queued spinlock's slow path whose lock is a CPU's run-queue lock.
    Rq = 5,
    /// A queued rwlock's slow path, as reader or writer.
    Rwlock = 6,
    /// Asleep in a mutex.
    Mutex = 7,
    /// Asleep in a rw_semaphore.
    Rwsem = 8,
    /// Asleep in a percpu_rw_semaphore.
    PercpuRwsem = 9,
    /// Asleep in an rt_mutex, or any lock that PREEMPT_RT builds on one.
    RtMutex = 10,
    /// Asleep in a counting semaphore.
    Semaphore = 11,
}

/// How many lock classes there are.
pub const CLASS_COUNT: usize = 12;

impl LockClass {
    /// Every class, in index order.
    pub const ALL: [LockClass; CLASS_COUNT] = [
        LockClass::Osq,
        LockClass::MutexOwner,
        LockClass::MutexSpin,
        LockClass::RwsemOwner,
        LockClass::Qspinlock,
        LockClass::Rq,
        LockClass::Rwlock,
        LockClass::Mutex,
        LockClass::Rwsem,
        LockClass::PercpuRwsem,
        LockClass::RtMutex,
        LockClass::Semaphore,
    ];

    /// The class at an index, if there is one.
    #[inline]
    pub fn from_index(index: u8) -> Option<LockClass> {
        Self::ALL.get(index as usize).copied()
    }

    /// The name in reports and JSON.
    pub fn name(self) -> &'static str {
        match self {
            LockClass::Osq => "osq",
            LockClass::MutexOwner => "mutex_owner",
            LockClass::MutexSpin => "mutex_spin",
            LockClass::RwsemOwner => "rwsem_owner",
            LockClass::Qspinlock => "qspinlock",
            LockClass::Rq => "rq",
            LockClass::Rwlock => "rwlock",
            LockClass::Mutex => "mutex",
            LockClass::Rwsem => "rwsem",
            LockClass::PercpuRwsem => "percpu_rwsem",
            LockClass::RtMutex => "rt_mutex",
            LockClass::Semaphore => "semaphore",
        }
    }

    /// Whether the wait burns CPU (`spin{class}` in the ledger) or sleeps (`lock_sleep{class}`).
    #[inline]
    pub fn is_spin(self) -> bool {
        (self as u8) < LockClass::Mutex as u8
    }
}

/// Which side of the benchmark a task belongs to.
#[repr(u8)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Side {
    /// Every task that is not in the task map, as one sum.
    Other = 0,
    /// The postmaster and its children.
    Server = 1,
    /// The load generator's threads.
    Client = 2,
}

/// How many sides there are.
pub const SIDE_COUNT: usize = 3;

impl Side {
    /// Every side, in index order.
    pub const ALL: [Side; SIDE_COUNT] = [Side::Other, Side::Server, Side::Client];

    /// The name in reports and JSON.
    pub fn name(self) -> &'static str {
        match self {
            Side::Other => "other",
            Side::Server => "server",
            Side::Client => "client",
        }
    }
}

/// Buckets of a log2 histogram of nanoseconds: bucket `i` holds `[2^i, 2^(i+1))`, bucket 0 also 0,
/// the last one everything above.
pub const HISTOGRAM_BUCKETS: usize = 32;

/// What is known of one class of waits: of a task, of a side, of a lock.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitStats {
    /// Waits (or phases of a wait) that began.
    pub begin_count: u64,
    /// Waits (or phases) that ended.
    pub end_count: u64,
    /// Nanoseconds in ended waits, less what nested waits took.
    pub total_ns: u64,
    /// The longest of them.
    pub max_ns: u64,
    /// Log2 histogram of the same nanoseconds.
    pub histogram: [u32; HISTOGRAM_BUCKETS],
}

impl WaitStack {
    /// Frames that were opened in this generation of the gate.
    pub fn open_in(&self, generation: u32) -> u64 {
        let open = self.frames.iter().take(self.depth as usize);
        open.filter(|frame| frame.generation == generation).count() as u64
    }

    /// Nothing open.
    pub const EMPTY: WaitStack = WaitStack { depth: 0, pad: 0, frames: [Frame::NONE; WAIT_DEPTH] };
}

impl Frame {
    /// No wait.
    pub const NONE: Frame =
        Frame { begin_ns: 0, nested_ns: 0, lock: 0, class: 0, hook: 0, pad: [0; 2], generation: 0 };
}

impl TaskAccount {
    /// An account without any wait, opened at `since_ns`.
    pub const fn new(tgid: u32, side: Side, since_ns: u64) -> TaskAccount {
        TaskAccount {
            tgid,
            side: side as u8,
            exited: 0,
            pad: [0; 2],
            since_ns,
            exited_ns: 0,
            requests_count: 0,
            transactions_count: 0,
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

impl CpuAccount {
    /// A CPU's empty account.
    pub const fn new(preempt_count_address: u64) -> CpuAccount {
        CpuAccount {
            busy: 0,
            sample_tick: 0,
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

impl WaitStats {
    /// Nothing seen.
    pub const ZERO: WaitStats = WaitStats {
        begin_count: 0,
        end_count: 0,
        total_ns: 0,
        max_ns: 0,
        histogram: [0; HISTOGRAM_BUCKETS],
    };
}

/// Depth of the stack of nested waits.
pub const WAIT_DEPTH: usize = 8;

/// One open wait.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame {
    /// When the current phase began.
    pub begin_ns: u64,
    /// Nanoseconds of it that nested waits took.
    pub nested_ns: u64,
    /// Kernel address of the lock; 0 when the probe does not know it.
    pub lock: u64,
    /// The `LockClass` of the phase.
    pub class: u8,
    /// The hook that opened the wait, so that its own end closes it (see `account`).
    pub hook: u8,
    /// Explicit padding.
    pub pad: [u8; 2],
    /// The gate's generation at the begin: a wait cut by the gate is dropped and counted.
    pub generation: u32,
}

/// The open waits of a task or of a CPU's context, innermost last.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitStack {
    /// How many frames are open.
    pub depth: u32,
    /// Explicit padding.
    pub pad: u32,
    /// The frames; only the first `depth` hold anything.
    pub frames: [Frame; WAIT_DEPTH],
}

/// A traced task's own account; key of the `TASKS` map is the tid in the initial pid namespace.
///
/// Only the task itself writes it (it runs on one CPU at a time), but for the `irq_*` fields,
/// which interrupts on its CPU add to.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TaskAccount {
    /// The process id (tgid).
    pub tgid: u32,
    /// The `Side` it belongs to.
    pub side: u8,
    /// 1 once the task has exited; the user side then reads the account a last time and deletes it.
    pub exited: u8,
    /// Explicit padding.
    pub pad: [u8; 2],
    /// When the account was opened (fork or attach).
    pub since_ns: u64,
    /// When the task exited, 0 while it lives.
    pub exited_ns: u64,
    /// Requests answered: ReadyForQuery sent, any status.
    pub requests_count: u64,
    /// Transactions ended: ReadyForQuery with status `I` sent.
    pub transactions_count: u64,
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

/// What each CPU keeps for itself: everything that is not a traced task's.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuAccount {
    /// 1 while one of lockscope's programs runs on this CPU. Events raised meanwhile (by its own
    /// map operations, or by an interrupt) are left out and counted, so no count can be torn.
    pub busy: u32,
    /// Counts waits below the threshold, to sample one in N.
    pub sample_tick: u32,
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

/// Key of the `LOCKS` map.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LockKey {
    /// Kernel address of the lock; 0 where the hook does not tell.
    pub lock: u64,
    /// The `LockClass`.
    pub class: u8,
    /// The `Side` of the waiter.
    pub side: u8,
    /// Explicit padding, 0.
    pub pad: [u8; 6],
}

/// Kernel frames kept in a sample.
pub const STACK_DEPTH: usize = 24;

/// A sampled wait, sent through the ring buffer.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitSample {
    /// When the wait (phase) ended.
    pub end_ns: u64,
    /// How long it was, less nested waits.
    pub wait_ns: u64,
    /// Kernel address of the lock, 0 if unknown.
    pub lock: u64,
    /// The waiter.
    pub tid: u32,
    /// Its process.
    pub tgid: u32,
    /// How many waits this sample stands for: 1 above the threshold, N below it.
    pub weight: u32,
    /// The `LockClass`.
    pub class: u8,
    /// The `Side` of the waiter.
    pub side: u8,
    /// Frames in `stack`.
    pub stack_len: u8,
    /// Explicit padding.
    pub pad: u8,
    /// Return addresses, innermost first.
    pub stack: [u64; STACK_DEPTH],
}

/// Block-plug counters of one side, one set a CPU.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PlugStats {
    /// `blk_start_plug` calls (function probe).
    pub start_count: u64,
    /// `blk_finish_plug` calls (function probe).
    pub finish_count: u64,
    /// `block_plug` events: a first request entered an empty plug.
    pub plug_count: u64,
    /// `block_unplug` events: a queue's share of a plug list was handed to the driver.
    pub unplug_count: u64,
    /// Requests in those, the sum of the event's depth.
    pub unplugged_requests_count: u64,
    /// `block_unplug` events that were implicit (from the scheduler, or because the plug was full).
    pub implicit_unplug_count: u64,
    /// Calls of `__blk_flush_plug` (`blk_flush_plug_list` before 5.16).
    pub flush_count: u64,
    /// Those with no request in the plug.
    pub empty_flush_count: u64,
    /// Those from the scheduler (`from_schedule`).
    pub schedule_flush_count: u64,
    /// Nanoseconds in flush calls, less nothing: plug time is not a ledger state.
    pub flush_ns: u64,
}

impl PlugStats {
    /// Adds the counters of another CPU.
    pub fn add(&mut self, more: &PlugStats) {
        self.start_count += more.start_count;
        self.finish_count += more.finish_count;
        self.plug_count += more.plug_count;
        self.unplug_count += more.unplug_count;
        self.unplugged_requests_count += more.unplugged_requests_count;
        self.implicit_unplug_count += more.implicit_unplug_count;
        self.flush_count += more.flush_count;
        self.empty_flush_count += more.empty_flush_count;
        self.schedule_flush_count += more.schedule_flush_count;
        self.flush_ns += more.flush_ns;
    }
}

/// Who a plug event is charged to: the sides, then kworkers apart from the other tasks.
pub const PLUG_OWNER_COUNT: usize = SIDE_COUNT + 1;
/// Index of kworkers among the plug owners.
pub const PLUG_OWNER_KWORKER: usize = SIDE_COUNT;

/// What was lost or set aside; index into the per-CPU `LOSSES` array.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Loss {
    /// The ring buffer had no room for a sample.
    RingFull = 0,
    /// A task could not be added to `TASKS`.
    TasksFull = 1,
    /// A lock could not be added to `LOCKS`.
    LocksFull = 2,
    /// The stack walk failed.
    StackError = 3,
    /// An end with no open wait that matches.
    UnmatchedEnd = 4,
    /// Open waits dropped because an outer one ended: their own end was never seen.
    InferredEnd = 5,
    /// A begin with the stack of nested waits full.
    NestedTooDeep = 6,
    /// An event raised by lockscope's own map operations, left out on purpose.
    SelfInflicted = 7,
    /// A wait cut by the gate: it began or ended in a slice with the programs off.
    CutByGate = 8,
    /// A sleeping wait of a task outside the task map that could not be remembered.
    OtherFull = 9,
    /// A new task with the tid of one whose account had not been read yet.
    TidReused = 10,
    /// The bytes of a reply could not be read.
    ReplyUnreadable = 11,
}

/// How many kinds of loss there are.
pub const LOSS_COUNT: usize = 12;

impl Loss {
    /// Every kind, in index order.
    pub const ALL: [Loss; LOSS_COUNT] = [
        Loss::RingFull,
        Loss::TasksFull,
        Loss::LocksFull,
        Loss::StackError,
        Loss::UnmatchedEnd,
        Loss::InferredEnd,
        Loss::NestedTooDeep,
        Loss::SelfInflicted,
        Loss::CutByGate,
        Loss::OtherFull,
        Loss::TidReused,
        Loss::ReplyUnreadable,
    ];

    /// The key in the JSON's `losses`.
    pub fn name(self) -> &'static str {
        match self {
            Loss::RingFull => "ring_full",
            Loss::TasksFull => "tasks_full",
            Loss::LocksFull => "locks_full",
            Loss::StackError => "stack_error",
            Loss::UnmatchedEnd => "unmatched_end",
            Loss::InferredEnd => "inferred_end",
            Loss::NestedTooDeep => "nested_too_deep",
            Loss::SelfInflicted => "self_inflicted",
            Loss::CutByGate => "cut_by_gate",
            Loss::OtherFull => "other_full",
            Loss::TidReused => "tid_reused",
            Loss::ReplyUnreadable => "reply_unreadable",
        }
    }
}

#[cfg(test)]
mod tests {
    use core::mem::{align_of, size_of};

    use super::*;

    /// Sizes are part of the ABI: a change here is a change on both sides.
    #[test]
    fn layouts_have_no_hidden_padding() {
        assert_eq!(size_of::<WaitStats>(), 32 + 4 * HISTOGRAM_BUCKETS);
        assert_eq!(size_of::<Frame>(), 32);
        assert_eq!(size_of::<WaitStack>(), 8 + WAIT_DEPTH * size_of::<Frame>());
        assert_eq!(
            size_of::<TaskAccount>(),
            8 + 8 * 8 + 40 + CLASS_COUNT * size_of::<WaitStats>() + size_of::<WaitStack>()
        );
        assert_eq!(
            size_of::<CpuAccount>(),
            16 + (1 + IRQ_LEVELS) * size_of::<WaitStack>()
                + CLASS_COUNT * size_of::<WaitStats>()
                + 40
                + PLUG_OWNER_COUNT * size_of::<PlugStats>()
                + 8 * LOSS_COUNT
        );
        assert_eq!(size_of::<LockKey>(), 16);
        assert_eq!(size_of::<WaitSample>(), 40 + 8 * STACK_DEPTH);
        assert_eq!(size_of::<PlugStats>(), 80);
        assert_eq!(align_of::<TaskAccount>(), 8);
    }

    #[test]
    fn class_and_loss_indices_match_their_order() {
        for (index, class) in LockClass::ALL.iter().enumerate() {
            assert_eq!(*class as usize, index);
        }
        for (index, loss) in Loss::ALL.iter().enumerate() {
            assert_eq!(*loss as usize, index);
        }
        for (index, side) in Side::ALL.iter().enumerate() {
            assert_eq!(*side as usize, index);
        }
    }
}
