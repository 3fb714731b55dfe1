//! The locks by address.

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
