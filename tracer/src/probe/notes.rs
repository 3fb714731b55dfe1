//! What a reader must know about tracing on this kernel before believing a number.

use super::capability::Capability;
use super::obstacle::BE_ROOT;
use super::plan::AttachPlan;
use crate::kernel::Features;
use crate::kernel::features::{Check, KernelVersion};
use crate::kernel::spinlocks::Spinlocks;
use crate::model::Warning;

/// Everything that applies, most important first.
pub fn notes(features: &Features, plan: &AttachPlan) -> Vec<Warning> {
    [
        privileges(features),
        pid_namespace(features),
        test_and_set(features),
        lockdown(features),
        no_sleeping_locks(plan),
        spin_not_split(plan),
        preempt_rt(features),
        symbol_addresses(features),
        global_lock_names(features),
        ring_buffer(features),
        memlock(features),
        partial_btf(features),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn note(code: &str, text: impl Into<String>, remedy: Option<&str>) -> Option<Warning> {
    Some(Warning { code: code.into(), text: text.into(), remedy: remedy.map(str::to_owned) })
}

fn privileges(features: &Features) -> Option<Warning> {
    if features.privileges.can_trace() {
        return None;
    }
    let text = "not privileged: nothing can be traced, and some of what is listed here could not \
                be seen";
    note("not-privileged", text, Some(BE_ROOT))
}

fn pid_namespace(features: &Features) -> Option<Warning> {
    if features.initial_pid_namespace {
        return None;
    }
    let text = "lockscope runs in a pid namespace: the kernel reports other pids than those it \
                sees, so waits cannot be given to backends";
    note("pid-namespace", text, Some("run it in the host's pid namespace (docker: --pid=host)"))
}

fn test_and_set(features: &Features) -> Option<Warning> {
    let finding = &features.spinlocks;
    if finding.kind != Spinlocks::TestAndSet {
        return None;
    }
    let sure = if finding.certain { "" } else { "probably " };
    let text = format!(
        "spinlocks are {sure}test-and-set locks here ({}): their contention is invisible to every \
         probe",
        finding.reason
    );
    note(
        "test-and-set-spinlocks",
        text,
        Some("measure on bare metal, or on a host and kernel with paravirtual spinlocks"),
    )
}

fn lockdown(features: &Features) -> Option<Warning> {
    if features.may_read_kernel_memory() {
        return None;
    }
    let text = "lockdown=confidentiality: BPF may not read kernel memory, so run-queue locks are \
                shown as qspinlock and kprobes are forbidden";
    note("lockdown", text, Some("boot without lockdown=confidentiality"))
}

fn no_sleeping_locks(plan: &AttachPlan) -> Option<Warning> {
    if plan.has(Capability::LockWaits) || !plan.sees_locks() {
        return None;
    }
    if plan.has(Capability::MutexWaits) && plan.has(Capability::RwsemWaits) {
        let text = "this kernel does not tell of waits: they are taken from the slow paths of mutexes, \
                    rw_semaphores and semaphores. Waits for rt-mutexes, and mutexes taken by \
                    mutex_lock_io or as ww_mutex, are not seen";
        return note("waits-by-function", text, Some("use Linux 5.19 or newer"));
    }
    let text = "time asleep in mutexes or rw_semaphores is missing from every number";
    note("no-sleeping-locks", text, Some("use Linux 5.19 or newer"))
}

fn spin_not_split(plan: &AttachPlan) -> Option<Warning> {
    let split = plan.has(Capability::Osq) && plan.has(Capability::MutexOwner);
    if split || !plan.has(Capability::LockWaits) {
        return None;
    }
    let text = "osq and mutex_owner cannot be told apart: both are shown as mutex_spin";
    note("spin-not-split", text, Some("use a kernel with CONFIG_KPROBES=y"))
}

fn preempt_rt(features: &Features) -> Option<Warning> {
    features.preempt_rt.then_some(())?;
    let text = "PREEMPT_RT: most spinlocks and rwlocks sleep and are shown as rt_mutex";
    note("preempt-rt", text, None)
}

fn symbol_addresses(features: &Features) -> Option<Warning> {
    if features.kallsyms.addresses {
        return None;
    }
    let text = match features.kallsyms.readable {
        true => {
            let level = features.kptr_restrict.map_or("?".into(), |level| level.to_string());
            format!(
                "kernel addresses are hidden (kernel.kptr_restrict={level}): stacks show bare \
                 addresses and callers are unknown"
            )
        }
        false => "there is no /proc/kallsyms: stacks show bare addresses".to_owned(),
    };
    note("no-kernel-symbols", text, Some("run as root, with sysctl kernel.kptr_restrict=0 or 1"))
}

fn global_lock_names(features: &Features) -> Option<Warning> {
    if features.kallsyms.data_symbols || !features.kallsyms.addresses {
        return None;
    }
    let text = "kallsyms has no variables: global locks cannot be named by their address, only by \
                their caller";
    note("no-global-lock-names", text, Some("use a kernel with CONFIG_KALLSYMS_ALL=y"))
}

fn ring_buffer(features: &Features) -> Option<Warning> {
    matches!(features.ring_buffer, Check::No(_)).then_some(())?;
    let text = "no BPF ring buffer: totals are complete, but there are no stacks";
    note("no-ring-buffer", text, Some("use Linux 5.8 or newer"))
}

/// Since 5.11 BPF memory is charged to the memory cgroup instead.
fn memlock(features: &Features) -> Option<Warning> {
    let old = features.kernel_version() < KernelVersion::new(5, 11);
    if !old || features.privileges.cap_sys_resource {
        return None;
    }
    let text = "without CAP_SYS_RESOURCE the maps may not fit into RLIMIT_MEMLOCK on this kernel";
    note("memlock", text, Some("run with `ulimit -l unlimited`"))
}

fn partial_btf(features: &Features) -> Option<Warning> {
    match &features.btf {
        Check::Unknown(why) => {
            note("partial-btf", format!("BTF is newer than lockscope: {why}"), None)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::{PlanOptions, plan};

    fn host() -> Features {
        serde_json::from_str(include_str!("fixtures/host-6.18.json")).unwrap()
    }

    fn codes(features: &Features) -> Vec<String> {
        let plan = plan(features, &PlanOptions::default()).unwrap();
        notes(features, &plan).into_iter().map(|note| note.code).collect()
    }

    #[test]
    fn a_complete_kernel_needs_no_note() {
        let mut features = host();
        features.kprobes = Check::Yes;
        features.kallsyms.data_symbols = true;
        assert_eq!(codes(&features), Vec::<String>::new());
    }

    #[test]
    fn what_is_missing_is_noted() {
        assert_eq!(codes(&host()), ["spin-not-split", "no-global-lock-names"]);
        let mut features = host();
        features.spinlocks.kind = Spinlocks::TestAndSet;
        features.spinlocks.certain = false;
        features.lockdown = Some("confidentiality".into());
        features.kallsyms.addresses = false;
        features.kptr_restrict = Some(2);
        features.initial_pid_namespace = false;
        features.release = "5.7.0".into();
        features.ring_buffer = Check::No("EINVAL".into());
        let expected = [
            "pid-namespace",
            "test-and-set-spinlocks",
            "lockdown",
            "spin-not-split",
            "no-kernel-symbols",
            "no-ring-buffer",
            "memlock",
        ];
        assert_eq!(codes(&features), expected);
    }

    #[test]
    fn an_uncertain_finding_says_so() {
        let mut features = host();
        features.spinlocks.kind = Spinlocks::TestAndSet;
        features.spinlocks.certain = false;
        let plan = plan(&features, &PlanOptions::default()).unwrap();
        assert!(notes(&features, &plan)[0].text.contains("are probably test-and-set"));
    }

    #[test]
    fn the_unprivileged_are_told_first() {
        let mut features = host();
        features.privileges = Default::default();
        features.bpf = Check::Unknown("not permitted".into());
        assert_eq!(codes(&features)[0], "not-privileged");
    }
}
