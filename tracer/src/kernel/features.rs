//! What the running kernel offers to a tracer, as plain data: a recording of another machine's
//! features stands in for that machine in tests.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use super::spinlocks::SpinlockFinding;

#[path = "features_probe.rs"]
mod probing;

pub(super) use probing::wanted_symbols;

/// Tracepoints that some capability may use.
pub const TRACEPOINTS: &[&str] = &[
    "block:block_plug",
    "block:block_unplug",
    "lock:contended_release",
    "lock:contention_begin",
    "lock:contention_end",
    "sched:sched_process_exec",
    "sched:sched_process_exit",
    "sched:sched_process_fork",
    "sched:sched_switch",
    "sched:sched_waking",
    "sock:sock_send_length",
    "syscalls:sys_enter_sendto",
    "syscalls:sys_exit_sendto",
];

/// Where this function is, trampolines wait for the tasks that are inside them before they go (5.12,
/// and the stable kernels that were given it).
const WAITING_TRAMPOLINES: &str = "__bpf_tramp_exit";

/// Functions that some capability may use, or whose being there tells something.
pub const FUNCTIONS: &[&str] = &[
    "__arm64_sys_sendto",
    "__blk_flush_plug",
    WAITING_TRAMPOLINES,
    "__down",
    "__mutex_lock_interruptible_slowpath",
    "__mutex_lock_killable_slowpath",
    "__mutex_lock_slowpath",
    "__mutex_unlock_slowpath",
    "__mutex_unlock_slowpath.constprop.0",
    "__mutex_unlock_slowpath.isra.0",
    "__pv_queued_spin_lock_slowpath",
    "__x64_sys_sendto",
    "blk_finish_plug",
    "blk_flush_plug_list",
    "blk_start_plug",
    "mutex_spin_on_owner",
    "native_queued_spin_lock_slowpath",
    "osq_lock",
    "percpu_rwsem_wait",
    "queued_read_lock_slowpath",
    "queued_spin_lock_slowpath",
    "queued_write_lock_slowpath",
    "raw_spin_rq_lock_nested",
    "rwsem_down_read_slowpath",
    "rwsem_down_write_slowpath",
    "rwsem_spin_on_owner",
    "rwsem_wake",
    "rwsem_wake.isra.0",
];

/// Everything that the attach plan depends on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Features {
    /// `uname -r`.
    pub release: String,
    /// `uname -v`.
    pub version: String,
    /// `uname -m`.
    pub machine: String,
    /// What this process may do.
    pub privileges: Privileges,
    /// Whether lockscope runs in the first pid namespace, whose pids the kernel side reports.
    pub initial_pid_namespace: bool,
    /// Whether BPF programs for tracing load at all.
    pub bpf: Check,
    /// Whether the kernel publishes its BTF.
    pub btf: Check,
    /// Whether a program for a BTF tracepoint loads.
    pub tp_btf: Check,
    /// Whether perf events open: kprobes and classic tracepoints hang on them.
    pub perf_events: Check,
    /// Whether the kernel has kprobes.
    pub kprobes: Check,
    /// Whether an fentry program loads and attaches.
    pub fentry: Check,
    /// Whether the kernel has the BPF ring buffer (5.8+).
    pub ring_buffer: Check,
    /// `none`, `integrity`, `confidentiality`; absent when it could not be seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lockdown: Option<String>,
    /// `kernel.kptr_restrict`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kptr_restrict: Option<i32>,
    /// `kernel.perf_event_paranoid`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub perf_event_paranoid: Option<i32>,
    /// What `/proc/kallsyms` shows.
    pub kallsyms: Kallsyms,
    /// Name of the hypervisor, absent on bare metal (and where the processor does not tell).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hypervisor: Option<String>,
    /// Whether contended spinlocks can be seen.
    pub spinlocks: SpinlockFinding,
    /// Whether the kernel is PREEMPT_RT: most of its spinlocks sleep.
    pub preempt_rt: bool,
    /// Of [`TRACEPOINTS`], those that exist.
    pub tracepoints: BTreeMap<String, Tracepoint>,
    /// Of [`FUNCTIONS`], those that exist.
    pub functions: BTreeMap<String, Function>,
}

/// What this process may do.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Privileges {
    /// Effective user id.
    pub euid: u32,
    /// `CAP_BPF` in effect (it exists since 5.8).
    pub cap_bpf: bool,
    /// `CAP_PERFMON` in effect (since 5.8).
    pub cap_perfmon: bool,
    /// `CAP_SYS_ADMIN` in effect; it stands for the other two.
    pub cap_sys_admin: bool,
    /// `CAP_SYS_RESOURCE` in effect: raises RLIMIT_MEMLOCK, which kernels before 5.11 need.
    pub cap_sys_resource: bool,
}

impl Privileges {
    /// Whether programs for tracing may be loaded.
    pub fn can_trace(&self) -> bool {
        self.cap_sys_admin || (self.cap_bpf && self.cap_perfmon)
    }
}

/// The outcome of looking or trying.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "works", content = "why")]
pub enum Check {
    /// It works.
    Yes,
    /// It does not, and why.
    No(String),
    /// It could not be seen, and why.
    Unknown(String),
}

impl Check {
    /// Whether it is known to work.
    pub fn is_yes(&self) -> bool {
        *self == Check::Yes
    }

    /// Why it does not work or could not be seen.
    pub fn why(&self) -> Option<&str> {
        match self {
            Check::Yes => None,
            Check::No(why) | Check::Unknown(why) => Some(why),
        }
    }
}

/// What `/proc/kallsyms` shows.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kallsyms {
    /// The file exists.
    pub readable: bool,
    /// It shows addresses, not zeros.
    pub addresses: bool,
    /// It lists variables as well as functions (`CONFIG_KALLSYMS_ALL`).
    pub data_symbols: bool,
}

/// One tracepoint that exists.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tracepoint {
    /// Its number for `perf_event_open`; absent when tracefs is out of reach.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<u32>,
    /// BTF describes its arguments.
    pub btf: bool,
}

/// One function that exists.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Function {
    /// kallsyms lists it under exactly this name.
    pub symbol: bool,
    /// BTF describes its arguments.
    pub btf: bool,
    /// ftrace reaches it; absent when its list is unreadable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traceable: Option<bool>,
}

/// A kernel's version number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KernelVersion {
    /// 6 of 6.12.
    pub major: u32,
    /// 12 of 6.12.
    pub minor: u32,
}

impl KernelVersion {
    /// A version to compare with.
    pub const fn new(major: u32, minor: u32) -> Self {
        KernelVersion { major, minor }
    }
}

impl fmt::Display for KernelVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

impl Features {
    /// Looks at the running kernel. What cannot be seen is recorded as such: this never fails.
    ///
    /// Takes 100 ms, most of it the kernel formatting `/proc/kallsyms`; see [`super::running`].
    pub fn probe() -> Features {
        probing::probe()
    }

    /// The version that the release string begins with (distributions patch features in and out,
    /// so it decides nothing that can be looked at).
    pub fn kernel_version(&self) -> KernelVersion {
        let mut numbers = self
            .release
            .split(|c: char| !c.is_ascii_digit())
            .map(|digits| digits.parse().unwrap_or(0));
        KernelVersion::new(numbers.next().unwrap_or(0), numbers.next().unwrap_or(0))
    }

    /// Whether `bpf_get_func_ret` exists (5.17+): before it, an fexit program reads the return
    /// value as the argument after the last.
    pub fn has_func_ret_helper(&self) -> bool {
        self.kernel_version() >= KernelVersion::new(5, 17)
    }

    /// Whether `bpf_task_pt_regs` exists (5.15+): the way to a system call's arguments for programs
    /// that the verifier does not let follow the call's own `pt_regs` pointer.
    pub fn has_task_pt_regs_helper(&self) -> bool {
        self.kernel_version() >= KernelVersion::new(5, 15)
    }

    /// Whether a task may sleep in a function with a program at its exit: elsewhere the way back may
    /// be gone when it wakes.
    pub fn has_waiting_trampolines(&self) -> bool {
        self.functions.contains_key(WAITING_TRAMPOLINES)
            || self.kernel_version() >= KernelVersion::new(5, 13)
    }

    /// Whether BPF may read kernel memory (lockdown `confidentiality` forbids it).
    pub fn may_read_kernel_memory(&self) -> bool {
        self.lockdown.as_deref() != Some("confidentiality")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn survives_json() {
        let features = Features::probe();
        let json = serde_json::to_string(&features).unwrap();
        assert_eq!(serde_json::from_str::<Features>(&json).unwrap(), features);
        let uname = nix::sys::utsname::uname().unwrap();
        assert_eq!(features.release, uname.release().to_str().unwrap());
    }

    #[test]
    fn reads_the_version_of_any_release_string() {
        let mut features = Features::probe();
        for (release, expected) in [
            ("5.10.0-35-amd64", (5, 10)),
            ("6.18-rc1", (6, 18)),
            ("7.2.0+deb", (7, 2)),
            ("", (0, 0)),
        ] {
            features.release = release.into();
            let (major, minor) = expected;
            assert_eq!(features.kernel_version(), KernelVersion::new(major, minor));
        }
    }
}
