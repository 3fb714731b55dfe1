//! Waits: what is known of a class of them, and those that are open.

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
    /// Low bits of how often the task had gone to sleep at the begin, where the hook cannot tell whether
    /// the wait sleeps.
    pub switches: u16,
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
        Frame { begin_ns: 0, nested_ns: 0, lock: 0, class: 0, hook: 0, switches: 0, generation: 0 };
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
