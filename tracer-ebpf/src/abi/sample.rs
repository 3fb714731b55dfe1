//! Single waits, with their stack.

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
