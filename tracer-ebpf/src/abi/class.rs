//! How waits are charged.

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
