//! What the plan knows of each capability beforehand: its hooks, best first, and what is lost without it.

use super::capability::Capability;

/// Hooks that together serve a capability.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hooks {
    /// All of these tracepoints.
    Tracepoints(&'static [&'static str]),
    /// All of these functions.
    AllFunctions(&'static [&'static str]),
    /// As many of these functions as the kernel has, at least one.
    AnyFunction(&'static [&'static str]),
}

/// What the plan knows of a capability beforehand.
#[derive(Clone, Copy, Debug)]
pub(super) struct Facts {
    /// Best first.
    pub(super) hooks: &'static [Hooks],
    /// What the report lacks without it.
    pub(super) lost: &'static str,
    /// What to do where the kernel lacks every hook.
    pub(super) remedy: Option<&'static str>,
    /// Why it is attached only on request.
    pub(super) only_on_request: Option<&'static str>,
}

const CONTENTION: &[Hooks] =
    &[Hooks::Tracepoints(&["lock:contention_begin", "lock:contention_end"])];

impl Capability {
    /// What only stands in for `lock-waits`, which sees the same.
    pub(super) fn stands_in_for_lock_waits(self) -> bool {
        use Capability::{
            MutexWaits, PercpuRwsemWaits, Qspinlock, RwlockWaits, RwsemWaits, SemaphoreWaits,
        };
        [Qspinlock, MutexWaits, RwsemWaits, PercpuRwsemWaits, SemaphoreWaits, RwlockWaits]
            .contains(&self)
    }

    pub(super) fn facts(self) -> Facts {
        let (hooks, lost, remedy): (&'static [Hooks], _, _) = match self {
            Capability::LockWaits => (
                CONTENTION,
                "waits for an rt-mutex; waits for other locks are known only as far as the functions \
                 below tell",
                Some("use Linux 5.19 or newer"),
            ),
            Capability::Osq => (
                &[Hooks::AllFunctions(&["osq_lock"])],
                "osq and mutex_owner cannot be told apart and are shown as mutex_spin; an rwsem's \
                 osq queue is invisible",
                None,
            ),
            Capability::MutexOwner => (
                &[Hooks::AllFunctions(&["mutex_spin_on_owner"])],
                "spinning on a running owner is not split from the rest of mutex_spin",
                None,
            ),
            Capability::RwsemOwner => (
                &[Hooks::AllFunctions(&["rwsem_spin_on_owner"])],
                "optimistic spinning on rw_semaphores (mmap_lock, i_rwsem) is invisible",
                None,
            ),
            Capability::Qspinlock => (
                &[Hooks::AnyFunction(&[
                    "native_queued_spin_lock_slowpath",
                    "__pv_queued_spin_lock_slowpath",
                    "queued_spin_lock_slowpath",
                ])],
                "contention of spinlocks",
                None,
            ),
            Capability::MutexWaits => (
                &[Hooks::AllFunctions(&[
                    "__mutex_lock_slowpath",
                    "__mutex_lock_interruptible_slowpath",
                    "__mutex_lock_killable_slowpath",
                ])],
                "time asleep in mutexes, and who holds them",
                None,
            ),
            Capability::RwsemWaits => (
                &[Hooks::AllFunctions(&["rwsem_down_read_slowpath", "rwsem_down_write_slowpath"])],
                "time asleep in rw_semaphores (mmap_lock, i_rwsem), and who holds them",
                None,
            ),
            Capability::PercpuRwsemWaits => (
                &[Hooks::AllFunctions(&["percpu_rwsem_wait"])],
                "time asleep in percpu_rw_semaphores (freezing a filesystem)",
                None,
            ),
            Capability::SemaphoreWaits => (
                &[Hooks::AllFunctions(&["__down"])],
                "time asleep in counting semaphores (xfs's buffers)",
                None,
            ),
            Capability::RwlockWaits => (
                &[Hooks::AllFunctions(&[
                    "queued_read_lock_slowpath",
                    "queued_write_lock_slowpath",
                ])],
                "contention of rwlocks (tasklist_lock)",
                None,
            ),
            Capability::RqAcquire => (
                &[Hooks::AllFunctions(&["raw_spin_rq_lock_nested"])],
                "acquisitions of run-queue locks are not counted (their contention is)",
                None,
            ),
            Capability::PlugEvents => (
                &[Hooks::Tracepoints(&["block:block_plug", "block:block_unplug"])],
                "requests per flush",
                None,
            ),
            Capability::PlugCalls => (
                &[Hooks::AllFunctions(&["blk_start_plug", "blk_finish_plug"])],
                "plugs begun and finished are not counted",
                None,
            ),
            Capability::PlugFlush => (
                &[
                    Hooks::AllFunctions(&["__blk_flush_plug"]),
                    Hooks::AllFunctions(&["blk_flush_plug_list"]),
                ],
                "time in flushes, empty flushes, and flushes that the scheduler caused",
                None,
            ),
            Capability::Tasks => (
                &[Hooks::Tracepoints(&[
                    "sched:sched_process_fork",
                    "sched:sched_process_exec",
                    "sched:sched_process_exit",
                ])],
                "backends and workers that start during the run are counted as `other`",
                None,
            ),
            Capability::Scheduling => (
                &[Hooks::Tracepoints(&["sched:sched_switch", "sched:sched_waking"])],
                "CPU time, waiting for a CPU, I/O and Postgres's own waits: only lock time is split \
                 from the rest",
                None,
            ),
            Capability::Requests => (
                &[
                    Hooks::Tracepoints(&["sock:sock_send_length"]),
                    Hooks::AnyFunction(&["__x64_sys_sendto", "__arm64_sys_sendto"]),
                    Hooks::Tracepoints(&["syscalls:sys_enter_sendto", "syscalls:sys_exit_sendto"]),
                ],
                "the begin and end of each transaction on the server's side: its time by latency, and \
                 what lies between transactions; a second count of them",
                None,
            ),
            Capability::HoldEnd => (
                &[
                    Hooks::Tracepoints(&["lock:contended_release"]),
                    // Compilers drop what the function does not need and say so in its name.
                    Hooks::AnyFunction(&[
                        "__mutex_unlock_slowpath",
                        "__mutex_unlock_slowpath.constprop.0",
                        "__mutex_unlock_slowpath.isra.0",
                        "rwsem_wake",
                        "rwsem_wake.isra.0",
                    ]),
                ],
                "a hold ends with the next waiter's wait and so holds its wake-up too; no stack of \
                 the release",
                None,
            ),
            Capability::HolderStack => (
                &[Hooks::Tracepoints(&["sched:sched_switch"])],
                "where holders sleep or are preempted with the lock held",
                None,
            ),
        };
        let only_on_request = match self {
            Capability::RqAcquire => Some(
                "only on request: it fires at every acquisition through this function, contended or not",
            ),
            Capability::Requests => Some(
                "only on request at depth locks: the load generator counts each backend's transactions, \
                 and the hook fires at every send of the machine",
            ),
            _ => None,
        };
        Facts { hooks, lost, remedy, only_on_request }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::features::{FUNCTIONS, TRACEPOINTS};

    /// A hook that the features do not look for would never be found.
    #[test]
    fn every_hook_is_looked_for() {
        for capability in Capability::ALL {
            for hooks in capability.facts().hooks {
                match hooks {
                    Hooks::Tracepoints(names) => {
                        assert!(names.iter().all(|name| TRACEPOINTS.contains(name)), "{names:?}");
                    }
                    Hooks::AllFunctions(names) | Hooks::AnyFunction(names) => {
                        assert!(names.iter().all(|name| FUNCTIONS.contains(name)), "{names:?}");
                    }
                }
            }
        }
    }
}
