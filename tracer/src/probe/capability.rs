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
    /// The slow path of a mutex, where `LockWaits` is not to be had; so the next four.
    MutexWaits,
    /// The slow paths of a rw_semaphore.
    RwsemWaits,
    /// The slow path of a percpu_rw_semaphore.
    PercpuRwsemWaits,
    /// The slow path of a counting semaphore.
    SemaphoreWaits,
    /// The slow paths of an rwlock.
    RwlockWaits,
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

impl Capability {
    /// Every capability, in the order of reports.
    pub const ALL: [Capability; 19] = [
        Capability::LockWaits,
        Capability::Osq,
        Capability::MutexOwner,
        Capability::RwsemOwner,
        Capability::Qspinlock,
        Capability::MutexWaits,
        Capability::RwsemWaits,
        Capability::PercpuRwsemWaits,
        Capability::SemaphoreWaits,
        Capability::RwlockWaits,
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
            Capability::MutexWaits => "mutex-waits",
            Capability::RwsemWaits => "rwsem-waits",
            Capability::PercpuRwsemWaits => "percpu-rwsem-waits",
            Capability::SemaphoreWaits => "semaphore-waits",
            Capability::RwlockWaits => "rwlock-waits",
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
}
