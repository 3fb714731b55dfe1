//! The loads and what is known of them.

/// A stressor with its answer.
#[derive(Debug)]
pub struct Load {
    /// What cases call it.
    pub name: &'static str,
    /// Its program, `stress-…`, with arguments.
    pub command: &'static [&'static str],
    /// The locks that it contends for; none where no lock is to be seen.
    pub locks: &'static [Lock],
    /// Where the stressor counts rounds, in each of which every waiter waits once: how many waits
    /// may come beside those. `None` where a wait may have several phases.
    pub beside_rounds: Option<u64>,
    /// Requests to a disk that each operation makes, in one plug.
    pub plugged_requests: Option<u64>,
}

/// A lock that a load contends for.
#[derive(Debug)]
pub struct Lock {
    /// The class of the waits.
    pub class: &'static str,
    /// Beginnings of the names that the most contended lock of that class may have.
    pub names: &'static [&'static str],
    /// Waits in the class that there are at least, far below what is usual.
    pub at_least: u64,
    /// Who may wait for it.
    pub who: Who,
}

/// Who may be among a lock's waiters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Who {
    /// The lock is the stressor's own: nobody else.
    Own,
    /// The whole machine's: the stressor above all others.
    Anybody,
}

const fn own(class: &'static str, names: &'static [&'static str], at_least: u64) -> Lock {
    Lock { class, names, at_least, who: Who::Own }
}

const fn global(class: &'static str, names: &'static [&'static str], at_least: u64) -> Lock {
    Lock { class, names, at_least, who: Who::Anybody }
}

const fn load(
    name: &'static str,
    command: &'static [&'static str],
    locks: &'static [Lock],
) -> Load {
    Load { name, command, locks, beside_rounds: None, plugged_requests: None }
}

const fn plug(name: &'static str, command: &'static [&'static str], requests: u64) -> Load {
    Load { plugged_requests: Some(requests), ..load(name, command, &[]) }
}

const F_POS_LOCK: &[&str] = &["file.f_pos_lock"];
const I_RWSEM: &[&str] = &["inode.i_rwsem"];
const MMAP_LOCK: &[&str] = &["mm_struct.mmap_lock"];
const SPINLOCKS: &[&str] = &["files_struct.file_lock", "futex_hash_bucket.lock"];
const S_WRITERS: &[&str] = &["super_block.s_writers"];

/// Every load.
pub const LOADS: &[Load] = &[
    load("mutex", &["mutex"], &[own("mutex", F_POS_LOCK, 30), own("mutex_owner", F_POS_LOCK, 5)]),
    load("rwsem", &["rwsem"], &[own("rwsem_owner", I_RWSEM, 20), own("osq", I_RWSEM, 10)]),
    load("mmap", &["mmap"], &[own("osq", MMAP_LOCK, 20), own("rwsem_owner", MMAP_LOCK, 20)]),
    load("qspinlock", &["qspinlock"], &[own("qspinlock", SPINLOCKS, 10)]),
    load("rq", &["rq"], &[global("rq", &["rq["], 100)]),
    load("rwlock", &["rwlock"], &[global("rwlock", &["tasklist_lock"], 20)]),
    Load {
        beside_rounds: Some(0),
        ..load("hold-rwsem", &["hold", "--lock", "rwsem"], &[own("rwsem", I_RWSEM, 4)])
    },
    load("hold-mutex", &["hold", "--lock", "mutex"], &[own("mutex", F_POS_LOCK, 4)]),
    Load {
        // Freezing takes it for writing, which older kernels count as a wait in any case.
        beside_rounds: Some(1),
        ..load("freeze", &["freeze", "--path", "/mnt/frozen"], &[own("percpu_rwsem", S_WRITERS, 4)])
    },
    load("futex", &["futex"], &[]),
    load("cpu", &["cpu", "--threads", "8"], &[]),
    load("cache", &["cache"], &[]),
    load("sleep", &["sleep"], &[]),
    load("disk", &["disk", "--path", "/dev/vda"], &[]),
    plug("plug-1", &["plug", "--threads", "1", "--path", "/dev/vda", "--batch", "1"], 1),
    plug("plug-32", &["plug", "--threads", "1", "--path", "/dev/vda", "--batch", "32"], 32),
    load("mortal", &["mortal"], &[own("osq", MMAP_LOCK, 5), own("rwsem_owner", MMAP_LOCK, 5)]),
    // A guest of Xen has the time of its turns: few spinners ever meet.
    load("xen-qspinlock", &["qspinlock"], &[own("qspinlock", SPINLOCKS, 1)]),
    // PREEMPT_RT builds all but the raw spinlocks on rt-mutexes.
    load("rt-mutex", &["mutex"], &[own("rt_mutex", &["file.f_pos_lock", "("], 20)]),
    load("rt-spinlock", &["qspinlock"], &[own("rt_mutex", &["files_struct", "futex", "("], 20)]),
    load("rt-hold", &["hold", "--lock", "mutex"], &[own("rt_mutex", &["file.f_pos_lock", "("], 4)]),
];

impl Load {
    /// The load of that name.
    #[must_use]
    pub fn find(name: &str) -> Option<&'static Load> {
        LOADS.iter().find(|load| load.name == name)
    }
}
