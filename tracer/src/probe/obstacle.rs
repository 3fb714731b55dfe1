//! What stands in the way of attaching a method to a target.

use super::capability::Method;
use crate::kernel::Features;
use crate::kernel::features::Check;

/// The remedy for missing privileges.
pub(crate) const BE_ROOT: &str = "run with sudo, or grant CAP_BPF and CAP_PERFMON";
const KPROBES: &str = "use a kernel with CONFIG_KPROBES=y";
const BTF: &str = "use a kernel with CONFIG_DEBUG_INFO_BTF=y";
const LOCKDOWN: &str = "boot without lockdown=confidentiality";

/// Functions in which tasks sleep.
const SLEEPS: [&str; 7] = [
    "__down",
    "__mutex_lock_interruptible_slowpath",
    "__mutex_lock_killable_slowpath",
    "__mutex_lock_slowpath",
    "percpu_rwsem_wait",
    "rwsem_down_read_slowpath",
    "rwsem_down_write_slowpath",
];

/// Why something cannot be attached, and what would help.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Obstacle {
    pub(super) why: String,
    pub(super) remedy: Option<&'static str>,
    /// The target itself is not in this kernel.
    pub(super) absent: bool,
}

impl Obstacle {
    fn new(why: impl Into<String>, remedy: Option<&'static str>) -> Option<Self> {
        Some(Obstacle { why: why.into(), remedy, absent: false })
    }

    fn absent(what: &str, name: &str) -> Option<Self> {
        let why = format!("this kernel has no {what} {name}");
        Some(Obstacle { why, remedy: None, absent: true })
    }
}

/// The first obstacle to attaching `method` to `target`, if there is one.
pub(super) fn obstacle(features: &Features, method: Method, target: &str) -> Option<Obstacle> {
    general(features).or_else(|| match method {
        Method::TpBtf | Method::RawTracepoint | Method::Tracepoint => {
            at_tracepoint(features, method, target)
        }
        Method::Fentry | Method::Kprobe => at_function(features, method, target),
        Method::None => None,
    })
}

/// Obstacles to any tracing.
fn general(features: &Features) -> Option<Obstacle> {
    match &features.bpf {
        Check::Yes => None,
        Check::Unknown(why) => Obstacle::new(why.as_str(), Some(BE_ROOT)),
        Check::No(why) if !features.privileges.can_trace() => {
            Obstacle::new(why.as_str(), Some(BE_ROOT))
        }
        Check::No(why) => Obstacle::new(format!("BPF: {why}"), None),
    }
}

fn at_tracepoint(features: &Features, method: Method, target: &str) -> Option<Obstacle> {
    let Some(tracepoint) = features.tracepoints.get(target) else {
        return Obstacle::absent("tracepoint", target);
    };
    if target.starts_with("syscalls:") && method != Method::Tracepoint {
        return Obstacle::new("system calls have classic tracepoints only", None);
    }
    match method {
        Method::TpBtf if !tracepoint.btf || matches!(features.btf, Check::No(_)) => {
            Obstacle::new("no BTF for it", Some(BTF))
        }
        Method::TpBtf => failed(&features.tp_btf, None),
        Method::Tracepoint if tracepoint.id.is_none() => {
            let lockdown = !features.may_read_kernel_memory();
            Obstacle::new("tracefs is out of reach", lockdown.then_some(LOCKDOWN))
        }
        Method::Tracepoint => failed(&features.perf_events, None),
        _ => None,
    }
}

fn at_function(features: &Features, method: Method, target: &str) -> Option<Obstacle> {
    let Some(function) = features.functions.get(target) else {
        // Without BTF and kallsyms the absence would be guesswork, but so would an attachment.
        return Obstacle::absent("function", target);
    };
    if function.traceable == Some(false) {
        return Obstacle::new(format!("{target} is marked untraceable"), None);
    }
    if SLEEPS.contains(&target) {
        if method == Method::Kprobe {
            let why = "kretprobes forget returns while many tasks sleep in the function";
            return Obstacle::new(why, None);
        }
        if !features.has_waiting_trampolines() {
            let why = "this kernel frees trampolines in which tasks sleep";
            return Obstacle::new(why, Some("use Linux 5.10.28 or newer"));
        }
    }
    if method == Method::Fentry {
        if target.ends_with("_sys_sendto") && !features.has_task_pt_regs_helper() {
            let why = "before Linux 5.15 fentry cannot see what a system call was given";
            return Obstacle::new(why, None);
        }
        return match function.btf {
            true => failed(&features.fentry, None),
            false => Obstacle::new("no BTF for it", Some(BTF)),
        };
    }
    if !features.may_read_kernel_memory() {
        return Obstacle::new("lockdown=confidentiality forbids kprobes", Some(LOCKDOWN));
    }
    failed(&features.kprobes, Some(KPROBES))
        .or_else(|| failed(&features.perf_events, None))
        .or_else(|| match function.symbol || !features.kallsyms.readable {
            true => None,
            false => Obstacle::new(format!("no symbol {target}: inlined or renamed"), None),
        })
}

fn failed(check: &Check, remedy: Option<&'static str>) -> Option<Obstacle> {
    check.why().and_then(|why| Obstacle::new(why, remedy))
}
