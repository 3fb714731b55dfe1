//! What lockscope can observe, through which hooks, and the ways a hook can be attached.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::plan::PlanError;

/// One thing that can be observed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Capability {
    /// Waits for locks of every kind, from the kernel's own contention tracepoints.
    LockWaits,
    /// Queueing for the optimistic spinner's place.
    Osq,
    /// Spinning on a mutex whose owner runs.
    MutexOwner,
    /// Spinning on a rw_semaphore whose owner runs.
    RwsemOwner,
    /// The queued spinlock's slow path.
    Qspinlock,
    /// Acquisitions of run-queue locks, contended or not.
    RqAcquire,
    /// Block plugs filled and emptied.
    PlugEvents,
    /// Block plugs begun and finished.
    PlugCalls,
    /// Time in flushing a block plug.
    PlugFlush,
    /// Tasks that come and go.
    Tasks,
    /// Who has a CPU, who waits for one, who sleeps.
    Scheduling,
    /// The end of a request: the server's reply.
    Requests,
    /// The release of a contended mutex or rw_semaphore.
    HoldEnd,
    /// Switching out of a task that holds one.
    HolderStack,
}

/// A way of attaching a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Method {
    /// A tracepoint whose arguments BTF describes.
    TpBtf,
    /// A raw tracepoint.
    RawTracepoint,
    /// A classic tracepoint, through a perf event.
    Tracepoint,
    /// A function's entry and exit through BPF trampolines.
    Fentry,
    /// A function's entry and exit through kprobes.
    Kprobe,
    /// Not attached.
    None,
}

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
    /// Every capability, in the order of reports.
    pub const ALL: [Capability; 14] = [
        Capability::LockWaits,
        Capability::Osq,
        Capability::MutexOwner,
        Capability::RwsemOwner,
        Capability::Qspinlock,
        Capability::RqAcquire,
        Capability::PlugEvents,
        Capability::PlugCalls,
        Capability::PlugFlush,
        Capability::Tasks,
        Capability::Scheduling,
        Capability::Requests,
        Capability::HoldEnd,
        Capability::HolderStack,
    ];

    /// The name on the command line and in reports.
    pub fn name(self) -> &'static str {
        match self {
            Capability::LockWaits => "lock-waits",
            Capability::Osq => "osq",
            Capability::MutexOwner => "mutex-owner",
            Capability::RwsemOwner => "rwsem-owner",
            Capability::Qspinlock => "qspinlock",
            Capability::RqAcquire => "rq-acquire",
            Capability::PlugEvents => "plug-events",
            Capability::PlugCalls => "plug-calls",
            Capability::PlugFlush => "plug-flush",
            Capability::Tasks => "tasks",
            Capability::Scheduling => "scheduling",
            Capability::Requests => "requests",
            Capability::HoldEnd => "hold-end",
            Capability::HolderStack => "holder-stack",
        }
    }

    pub(super) fn facts(self) -> Facts {
        let (hooks, lost, remedy): (&'static [Hooks], _, _) = match self {
            Capability::LockWaits => (
                CONTENTION,
                "all waits asleep in a mutex, rwsem, percpu-rwsem or rt-mutex, and rwlock spins: \
                 only the spins that function probes see remain",
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
                &[Hooks::Tracepoints(&["sched:sched_process_fork", "sched:sched_process_exit"])],
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

impl Method {
    /// Every method that attaches something, cheapest first within its kind.
    pub const ATTACHING: [Method; 5] =
        [Method::TpBtf, Method::RawTracepoint, Method::Tracepoint, Method::Fentry, Method::Kprobe];

    /// The name on the command line and in reports.
    pub fn name(self) -> &'static str {
        match self {
            Method::TpBtf => "tp_btf",
            Method::RawTracepoint => "raw_tracepoint",
            Method::Tracepoint => "tracepoint",
            Method::Fentry => "fentry",
            Method::Kprobe => "kprobe",
            Method::None => "none",
        }
    }

    /// Whether it hangs on a function rather than on a tracepoint.
    pub fn is_for_functions(self) -> bool {
        matches!(self, Method::Fentry | Method::Kprobe)
    }
}

impl fmt::Display for Capability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Capability {
    type Err = PlanError;

    fn from_str(text: &str) -> Result<Self, PlanError> {
        Self::ALL.into_iter().find(|capability| capability.name() == text).ok_or_else(|| {
            let known: Vec<_> = Self::ALL.iter().map(|capability| capability.name()).collect();
            PlanError::UnknownCapability { given: text.into(), suggestion: suggest(text, &known) }
        })
    }
}

/// `did you mean `x`?`, or the whole list when nothing is near.
pub(super) fn suggest(given: &str, known: &[&str]) -> String {
    let near = known
        .iter()
        .map(|name| (strsim::jaro_winkler(given, name), name))
        .filter(|(similarity, _)| *similarity > 0.8)
        .max_by(|(left, _), (right, _)| left.total_cmp(right));
    match near {
        Some((_, name)) => format!("did you mean `{name}`?"),
        None => format!("known: {}", known.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::features::{FUNCTIONS, TRACEPOINTS};

    #[test]
    fn names_survive_parsing_and_json() {
        for capability in Capability::ALL {
            assert_eq!(capability.name().parse::<Capability>().unwrap(), capability);
            let json = serde_json::to_string(&capability).unwrap();
            assert_eq!(json, format!("\"{capability}\""));
        }
        for method in Method::ATTACHING {
            assert_eq!(serde_json::to_string(&method).unwrap(), format!("\"{method}\""));
        }
    }

    #[test]
    fn a_misspelt_name_gets_a_suggestion_and_a_strange_one_the_list() {
        let near = "qspinlok".parse::<Capability>().unwrap_err().to_string();
        assert!(near.contains("did you mean `qspinlock`?"), "{near}");
        let far = "xyz".parse::<Capability>().unwrap_err().to_string();
        assert!(far.contains("lock-waits, osq"), "{far}");
    }

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
