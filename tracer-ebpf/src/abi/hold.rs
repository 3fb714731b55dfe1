//! Who holds a contended lock, and for how long.

use super::STACK_DEPTH;

/// Bytes of a task's name.
pub const COMM_BYTES: usize = 16;

/// Who holds a lock now, as far as waits for it tell. Key: the lock's address.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    /// Address of the holder's `task_struct`; 0 = nobody known, `OWNED_BY_READERS` = readers.
    pub owner: u64,
    /// When the hold began: at the end of the holder's own wait, or when it was first seen.
    pub since_ns: u64,
    /// When it was first known that somebody waits meanwhile; 0 = not yet.
    pub contended_since_ns: u64,
    /// The holder's tid; 0 = readers.
    pub tid: u32,
    /// The gate's generation in which the hold was seen to begin.
    pub generation: u32,
}

/// `Held.owner` of a lock that readers hold: which of them is not known.
pub const OWNED_BY_READERS: u64 = 1;

impl Held {
    /// Nobody.
    pub const NOBODY: Held =
        Held { owner: 0, since_ns: 0, contended_since_ns: 0, tid: 0, generation: 0 };
}

/// Key of the `HOLDERS` map.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct HolderKey {
    /// The lock's address.
    pub lock: u64,
    /// The holder; 0 = readers.
    pub tid: u32,
    /// Explicit padding, 0.
    pub pad: u32,
}

/// Contended holds of one lock by one task: of each, the time in which others waited.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HoldStats {
    /// Holds that ended.
    pub count: u64,
    /// Their nanoseconds.
    pub total_ns: u64,
    /// The longest.
    pub max_ns: u64,
    /// Of `count`, those whose end is the release itself; the others end with the next waiter's
    /// wait, and so hold its wake-up too.
    pub released_count: u64,
}

/// Who a holder is. Key: the tid.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HolderName {
    /// Its process; 0 where this kernel does not tell.
    pub tgid: u32,
    /// Its name, padded with zeros.
    pub comm: [u8; COMM_BYTES],
}

/// Where a holder's stack was taken.
#[repr(u8)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum HolderAt {
    /// At the release.
    Release = 0,
    /// When it was switched out with the lock held.
    Switch = 1,
}

/// Key of the `HOLDER_STACKS` map.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct HolderStackKey {
    /// The lock's address.
    pub lock: u64,
    /// The holder.
    pub tid: u32,
    /// The `HolderAt`.
    pub at: u8,
    /// Explicit padding, 0.
    pub pad: [u8; 3],
}

/// A holder's own stack, of its longest hold so far.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HolderStack {
    /// How long others had waited by then.
    pub hold_ns: u64,
    /// Frames in `stack`.
    pub stack_len: u32,
    /// Explicit padding.
    pub pad: u32,
    /// Return addresses, innermost first.
    pub stack: [u64; STACK_DEPTH],
}

/// Slots of the `MARKS` array, by tid; a power of two. Two tasks in one slot: the later one counts.
pub const MARK_SLOTS: usize = 1024;

/// A holder whose stack is wanted when it is switched out.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mark {
    /// The lock that it holds.
    pub lock: u64,
    /// The holder; 0 = none.
    pub tid: u32,
    /// Explicit padding.
    pub pad: u32,
}
