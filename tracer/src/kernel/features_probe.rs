//! Looking at the running kernel.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;

use nix::errno::Errno;
use nix::sys::utsname::uname;

use super::{Check, FUNCTIONS, Features, Function, Kallsyms, Privileges, TRACEPOINTS, Tracepoint};
use crate::kernel::btf::Btf;
use crate::kernel::config::KernelConfig;
use crate::kernel::spinlocks::{SpinlockFacts, SpinlockFinding, conclude, hypervisor_leaves};
use crate::kernel::symbols::{self, Listing};
use crate::kernel::{Running, attempt, running, tracefs};

/// The function whose only caller is BPF's own self-test.
const HARMLESS_FUNCTION: &str = "bpf_fentry_test1";

pub(super) fn probe() -> Features {
    let (release, version, machine) = names();
    let Running { btf, symbols: listing } = running();
    let types = btf.as_ref().ok();
    let traced = tracefs::with_tracefs(Traced::read);
    let config = KernelConfig::of_running_kernel(&release);
    let mut leaves = hypervisor_leaves();
    // A paravirtual guest of Xen sees the processor that Xen sees, whatever that says of itself.
    if let Some(name) = hypervisor_type() {
        leaves.name = Some(name);
    }
    let preempt_rt = version.contains("PREEMPT_RT");
    Features {
        privileges: privileges(),
        initial_pid_namespace: in_initial_pid_namespace(),
        bpf: check(attempt::load_raw_tracepoint()),
        tp_btf: tp_btf(types),
        perf_events: check(attempt::open_perf_event()),
        kprobes: kprobes(),
        fentry: fentry(types),
        ring_buffer: check(attempt::create_ring_buffer()),
        lockdown: traced.lockdown.clone(),
        kptr_restrict: sysctl("kptr_restrict"),
        perf_event_paranoid: sysctl("perf_event_paranoid"),
        kallsyms: Kallsyms {
            readable: listing.symbol_count > 0,
            addresses: listing.addresses,
            data_symbols: listing.found.contains_key(symbols::TYPICAL_VARIABLE),
        },
        spinlocks: spinlocks(&machine, &leaves, config.as_ref()),
        hypervisor: leaves.name,
        preempt_rt,
        tracepoints: tracepoints(&traced, types, listing),
        functions: functions(&traced, types, listing),
        btf: btf.as_ref().map_or_else(
            |error| Check::No(error.to_string()),
            |btf| match btf.unknown_kind() {
                None => Check::Yes,
                Some(kind) => Check::Unknown(format!("read up to an unknown type kind {kind}")),
            },
        ),
        release,
        version,
        machine,
    }
}

fn names() -> (String, String, String) {
    let text = |part: &std::ffi::OsStr| part.to_string_lossy().into_owned();
    match uname() {
        Ok(names) => (text(names.release()), text(names.version()), text(names.machine())),
        Err(_) => Default::default(),
    }
}

/// What only root sees, read where tracefs and securityfs are mounted.
struct Traced {
    lockdown: Option<String>,
    ids: BTreeMap<&'static str, u32>,
    functions: Option<Vec<&'static str>>,
}

impl Traced {
    fn read() -> Self {
        let lockdown = Path::new(tracefs::SECURITYFS).join("lockdown");
        let lockdown = fs::read_to_string(lockdown).ok();
        let ids =
            TRACEPOINTS.iter().filter_map(|name| Some((*name, tracefs::tracepoint_id(name)?)));
        Traced {
            lockdown: lockdown.as_deref().and_then(chosen).map(str::to_owned),
            ids: ids.collect(),
            functions: tracefs::traceable_functions(FUNCTIONS),
        }
    }
}

/// The bracketed word of `none [integrity] confidentiality`.
fn chosen(text: &str) -> Option<&str> {
    let (_, rest) = text.split_once('[')?;
    rest.split_once(']').map(|(word, _)| word)
}

/// The symbols whose being there is a feature.
pub(in crate::kernel) fn wanted_symbols() -> Vec<String> {
    let hooks = TRACEPOINTS.iter().filter_map(|name| name.split_once(':'));
    let hooks = hooks.map(|(_, event)| format!("__traceiter_{event}"));
    let functions = FUNCTIONS.iter().map(|name| (*name).to_owned());
    hooks.chain(functions).chain([symbols::TYPICAL_VARIABLE.to_owned()]).collect()
}

fn privileges() -> Privileges {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let effective = status
        .lines()
        .find_map(|line| line.strip_prefix("CapEff:"))
        .and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .unwrap_or(0);
    let has = |bit: u32| effective >> bit & 1 == 1;
    Privileges {
        euid: nix::unistd::geteuid().as_raw(),
        cap_sys_admin: has(21),
        cap_sys_resource: has(24),
        cap_perfmon: has(38),
        cap_bpf: has(39),
    }
}

/// A refusal for want of privilege says nothing about the kernel.
fn check(outcome: io::Result<()>) -> Check {
    let Err(error) = outcome else { return Check::Yes };
    let denied = matches!(error.raw_os_error(), Some(libc::EPERM | libc::EACCES));
    if denied && !privileges().can_trace() {
        return Check::Unknown("not permitted without CAP_BPF and CAP_PERFMON (or root)".into());
    }
    match error.raw_os_error() {
        Some(code) => Check::No(format!("the kernel refuses it ({:?})", Errno::from_raw(code))),
        None => Check::No(error.to_string()),
    }
}

fn tp_btf(btf: Option<&Btf>) -> Check {
    let Some(btf) = btf else { return Check::No("the kernel has no BTF".into()) };
    // In every supported kernel.
    match btf.typedef_id("btf_trace_sched_process_exit") {
        Some(id) => check(attempt::load_btf_tracepoint(id)),
        None => Check::No("BTF describes no tracepoints".into()),
    }
}

fn fentry(btf: Option<&Btf>) -> Check {
    let Some(btf) = btf else { return Check::No("the kernel has no BTF".into()) };
    match btf.function_id(HARMLESS_FUNCTION) {
        Some(id) => check(attempt::attach_fentry(id)),
        None => Check::Unknown(format!("`{HARMLESS_FUNCTION}` is not there to try it on")),
    }
}

fn kprobes() -> Check {
    let pmu = Path::new("/sys/bus/event_source/devices");
    match (pmu.join("kprobe/type").exists(), pmu.exists()) {
        (true, _) => Check::Yes,
        (false, true) => Check::No("the kernel was built without CONFIG_KPROBES".into()),
        (false, false) => Check::Unknown("/sys is not mounted".into()),
    }
}

/// Inode of the first pid namespace, the same on every kernel (`PROC_PID_INIT_INO`).
fn in_initial_pid_namespace() -> bool {
    const INITIAL: u64 = 0xEFFF_FFFC;
    fs::metadata("/proc/self/ns/pid").is_ok_and(|namespace| namespace.ino() == INITIAL)
}

fn sysctl(name: &str) -> Option<i32> {
    fs::read_to_string(Path::new("/proc/sys/kernel").join(name)).ok()?.trim().parse().ok()
}

/// What the kernel calls its hypervisor; only Xen's guests have the file.
fn hypervisor_type() -> Option<String> {
    let name = fs::read_to_string("/sys/hypervisor/type").ok()?;
    Some(name.trim().to_owned()).filter(|name| !name.is_empty())
}

fn spinlocks(
    machine: &str,
    leaves: &crate::kernel::spinlocks::HypervisorLeaves,
    config: Option<&KernelConfig>,
) -> SpinlockFinding {
    let cmdline = fs::read_to_string("/proc/cmdline").unwrap_or_default();
    let kernel_log = if leaves.name.is_some() { kernel_log() } else { String::new() };
    conclude(&SpinlockFacts {
        x86: machine == "x86_64",
        hypervisor: leaves.name.as_deref(),
        kvm_unhalt: leaves.kvm_unhalt,
        kvm_realtime: leaves.kvm_realtime,
        paravirt_spinlocks: config.map(|config| config.is_on("CONFIG_PARAVIRT_SPINLOCKS")),
        cmdline: &cmdline,
        kernel_log: &kernel_log,
    })
}

/// What is left of the kernel's log; empty where it may not be read.
fn kernel_log() -> String {
    let opened = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open("/dev/kmsg");
    let Ok(mut file) = opened else { return String::new() };
    let mut log = String::new();
    // Each read yields one record, an error when there is none left.
    let mut record = [0; 8192];
    while let Ok(length) = file.read(&mut record) {
        if length == 0 {
            break;
        }
        log.push_str(&String::from_utf8_lossy(&record[..length]));
    }
    log
}

fn tracepoints(
    traced: &Traced,
    btf: Option<&Btf>,
    listing: &Listing,
) -> BTreeMap<String, Tracepoint> {
    let mut found = BTreeMap::new();
    for name in TRACEPOINTS {
        let Some((category, event)) = name.split_once(':') else { continue };
        let id = traced.ids.get(name).copied();
        // The per-call system-call events are not tracepoints of their own.
        let own = category != "syscalls";
        let btf = own && btf.is_some_and(|btf| btf.has_typedef(&format!("btf_trace_{event}")));
        let symbol = own && listing.found.contains_key(&format!("__traceiter_{event}"));
        if id.is_some() || btf || symbol {
            found.insert((*name).to_owned(), Tracepoint { id, btf });
        }
    }
    found
}

fn functions(traced: &Traced, btf: Option<&Btf>, listing: &Listing) -> BTreeMap<String, Function> {
    let traceable: Option<BTreeSet<&str>> =
        traced.functions.as_ref().map(|names| names.iter().copied().collect());
    let mut found = BTreeMap::new();
    for name in FUNCTIONS {
        let function = Function {
            symbol: listing.found.contains_key(*name),
            btf: btf.is_some_and(|btf| btf.has_function(name)),
            traceable: traceable.as_ref().map(|names| names.contains(name)),
        };
        if function.symbol || function.btf {
            found.insert((*name).to_owned(), function);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_bracketed_word() {
        assert_eq!(chosen("none [integrity] confidentiality\n"), Some("integrity"));
        assert_eq!(chosen("none integrity"), None);
    }

    #[test]
    fn every_wanted_hook_has_a_symbol_to_look_for() {
        let wanted = wanted_symbols();
        assert!(wanted.contains(&"__traceiter_contention_begin".to_owned()));
        assert_eq!(wanted.len(), TRACEPOINTS.len() + FUNCTIONS.len() + 1);
    }
}
