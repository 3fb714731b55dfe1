use super::*;
use crate::kernel::features::{Check, Function, Tracepoint};
use crate::probe::ProbeChoice;

/// Features recorded on real kernels, as `lockscope doctor --json` prints them.
fn recorded(name: &str) -> Features {
    let json = match name {
        "host-6.18" => include_str!("fixtures/host-6.18.json"),
        "debian-5.10" => include_str!("fixtures/debian-5.10.json"),
        "debian-6.1" => include_str!("fixtures/debian-6.1.json"),
        "debian-6.12" => include_str!("fixtures/debian-6.12.json"),
        "debian-7.x" => include_str!("fixtures/debian-7.x.json"),
        "debian-6.12-rt" => include_str!("fixtures/debian-6.12-rt.json"),
        "debian-xen" => include_str!("fixtures/debian-xen.json"),
        other => panic!("no recording {other}"),
    };
    serde_json::from_str(json).unwrap()
}

/// The order of the documented columns.
const RECORDED: [&str; 7] = [
    "debian-5.10",
    "debian-6.1",
    "debian-6.12",
    "debian-7.x",
    "debian-6.12-rt",
    "debian-xen",
    "host-6.18",
];

/// A kernel with everything, to take things away from.
fn complete() -> Features {
    let mut features = recorded("host-6.18");
    features.kprobes = Check::Yes;
    features.fentry = Check::Yes;
    features.kallsyms.data_symbols = true;
    features
}

fn automatic(features: &Features) -> AttachPlan {
    plan(features, &PlanOptions::default()).unwrap()
}

fn with(features: &Features, choice: &str) -> Result<AttachPlan, PlanError> {
    plan(features, &PlanOptions::new([choice.parse().unwrap()], Prefer::default()))
}

fn method(plan: &AttachPlan, capability: Capability) -> Method {
    plan.probe(capability).unwrap().method
}

#[test]
fn every_capability_has_one_entry_with_a_reason_and_a_loss_when_missing() {
    for features in RECORDED.map(recorded) {
        let plan = automatic(&features);
        let planned: Vec<_> = plan.probes.iter().map(|probe| probe.capability).collect();
        assert_eq!(planned, Capability::ALL);
        for probe in &plan.probes {
            assert!(!probe.reason.is_empty(), "{probe:?}");
            assert_eq!(probe.is_attached(), !probe.targets.is_empty(), "{probe:?}");
            assert!(probe.is_attached() || probe.lost.is_some(), "{probe:?}");
        }
    }
}

/// The plan of `--depth locks`.
fn shallow(features: &Features) -> AttachPlan {
    let options = PlanOptions { depth: Depth::Locks, ..PlanOptions::default() };
    plan(features, &options).unwrap()
}

#[test]
fn depth_locks_leaves_scheduling_and_replies_alone_unless_asked() {
    for features in RECORDED.map(recorded) {
        let shallow = shallow(&features);
        for capability in [Capability::Scheduling, Capability::Requests] {
            assert_eq!(method(&shallow, capability), Method::None, "{capability}");
            let remedy = shallow.probe(capability).unwrap().remedy.clone();
            assert_eq!(remedy, Some(format!("--probe {capability}=on")));
            assert_ne!(method(&automatic(&features), capability), Method::None, "{capability}");
        }
        let choice = "requests=on".parse::<ProbeChoice>().unwrap();
        let options = PlanOptions::new([choice], Prefer::default());
        let options = PlanOptions { depth: Depth::Locks, ..options };
        let asked = plan(&features, &options).unwrap();
        assert_ne!(method(&asked, Capability::Requests), Method::None);
    }
}

#[test]
fn debian_kernels_attach_functions_by_trampolines() {
    for name in &RECORDED[..4] {
        let plan = automatic(&recorded(name));
        for capability in [Capability::Osq, Capability::MutexOwner, Capability::RwsemOwner] {
            assert_eq!(method(&plan, capability), Method::Fentry, "{name} {capability}");
        }
        let requests = plan.probe(Capability::Requests).unwrap();
        let expected = match *name {
            // The helper that finds a system call's arguments came with 5.15.
            "debian-5.10" => (Method::Kprobe, "__x64_sys_sendto"),
            "debian-6.1" => (Method::Fentry, "__x64_sys_sendto"),
            _ => (Method::TpBtf, "sock:sock_send_length"),
        };
        assert_eq!((requests.method, requests.targets[0].as_str()), expected, "{name}");
    }
}

#[test]
fn an_old_kernel_sees_waits_by_the_locks_functions() {
    let features = recorded("debian-5.10");
    let plan = automatic(&features);
    assert_eq!(method(&plan, Capability::LockWaits), Method::None);
    assert_eq!(method(&plan, Capability::Qspinlock), Method::Fentry);
    for capability in [
        Capability::MutexWaits,
        Capability::RwsemWaits,
        Capability::PercpuRwsemWaits,
        Capability::SemaphoreWaits,
        Capability::RwlockWaits,
    ] {
        assert_eq!(method(&plan, capability), Method::Fentry, "{capability}");
    }
    assert_eq!(method(&plan, Capability::HoldEnd), Method::Kprobe);
    assert_ne!(method(&plan, Capability::HolderStack), Method::None);
    let measured = plan.measured_classes(true);
    let missing = LockClass::ALL.into_iter().filter(|class| !measured.contains(class));
    assert_eq!(missing.collect::<Vec<_>>(), [LockClass::RtMutex]);
    assert_eq!(plan.probe(Capability::PlugFlush).unwrap().targets, ["blk_flush_plug_list"]);
    let acquire = plan.probe(Capability::RqAcquire).unwrap();
    assert_eq!(acquire.reason, "this kernel has no function raw_spin_rq_lock_nested");
    assert_eq!(acquire.remedy, None);
    assert!(!features.has_func_ret_helper());
}

#[test]
fn the_documented_table_is_what_is_planned() {
    let table = crate::probe::support_table(&RECORDED.map(recorded)).unwrap();
    let page = include_str!("../../../docs/kernel-support.md");
    assert!(page.contains(&table), "`cargo xtask kernel-support --no-record` writes:\n{table}");
}

#[test]
fn without_function_probes_only_tracepoints_remain() {
    let plan = automatic(&recorded("host-6.18"));
    assert_eq!(method(&plan, Capability::LockWaits), Method::TpBtf);
    assert_eq!(method(&plan, Capability::Requests), Method::TpBtf);
    let osq = plan.probe(Capability::Osq).unwrap();
    assert_eq!(osq.method, Method::None);
    assert!(osq.reason.contains("fentry: the kernel refuses it (EPERM)"), "{}", osq.reason);
    assert!(osq.reason.contains("kprobe: the kernel was built without CONFIG_KPROBES"));
    assert!(osq.lost.as_ref().unwrap().contains("mutex_spin"));
    assert_eq!(osq.remedy.as_deref(), Some("use a kernel with CONFIG_KPROBES=y"));
    // The older kernels' name for the same function is not mentioned.
    assert!(!plan.probe(Capability::PlugFlush).unwrap().reason.contains("blk_flush_plug_list"));
    assert!(plan.sees_locks());
}

#[test]
fn functions_prefer_trampolines_unless_asked_otherwise() {
    assert_eq!(method(&automatic(&complete()), Capability::Osq), Method::Fentry);
    let options = PlanOptions::new([], Prefer::Kprobe);
    let plan = plan(&complete(), &options).unwrap();
    assert_eq!(method(&plan, Capability::Osq), Method::Kprobe);
    assert_eq!(method(&plan, Capability::LockWaits), Method::TpBtf);
}

#[test]
fn the_slow_path_function_steps_in_where_the_tracepoint_is_missing() {
    let mut features = complete();
    let served = automatic(&features);
    let qspinlock = served.probe(Capability::Qspinlock).unwrap();
    assert_eq!(qspinlock.method, Method::None);
    assert_eq!(qspinlock.remedy.as_deref(), Some("--probe qspinlock=on"));
    features.tracepoints.retain(|name, _| !name.starts_with("lock:"));
    let plan = automatic(&features);
    let qspinlock = plan.probe(Capability::Qspinlock).unwrap();
    assert_eq!(qspinlock.method, Method::Fentry);
    assert_eq!(
        qspinlock.targets,
        ["native_queued_spin_lock_slowpath", "__pv_queued_spin_lock_slowpath"]
    );
    let waits = plan.probe(Capability::LockWaits).unwrap();
    assert!(waits.reason.contains("no tracepoint lock:contention_begin"), "{}", waits.reason);
    assert!(waits.lost.as_ref().unwrap().contains("rt-mutex"));
    assert!(waits.remedy.as_ref().unwrap().contains("5.19"));
}

#[test]
fn requests_fall_back_to_the_system_call_and_say_what_it_costs() {
    let mut features = complete();
    features.tracepoints.remove("sock:sock_send_length");
    let plan = automatic(&features);
    let requests = plan.probe(Capability::Requests).unwrap();
    assert_eq!((requests.method, requests.targets.len()), (Method::Fentry, 1));
    assert!(requests.reason.contains("no tracepoint sock:sock_send_length"));
    features.fentry = Check::No("refused".into());
    features.kprobes = Check::No("none".into());
    let plan = automatic(&features);
    let requests = plan.probe(Capability::Requests).unwrap();
    assert_eq!(requests.method, Method::Tracepoint);
    assert_eq!(requests.targets, ["syscalls:sys_enter_sendto", "syscalls:sys_exit_sendto"]);
    assert!(requests.lost.as_ref().unwrap().contains("every system call"));
}

#[test]
fn without_btf_raw_tracepoints_and_kprobes_remain() {
    let mut features = complete();
    features.btf = Check::No("no such file".into());
    features.tp_btf = Check::No("the kernel has no BTF".into());
    features.fentry = Check::No("the kernel has no BTF".into());
    features.tracepoints.values_mut().for_each(|tracepoint| tracepoint.btf = false);
    features.functions.values_mut().for_each(|function| function.btf = false);
    let plan = automatic(&features);
    assert_eq!(method(&plan, Capability::LockWaits), Method::RawTracepoint);
    assert_eq!(method(&plan, Capability::Osq), Method::Kprobe);
    assert!(plan.probe(Capability::Osq).unwrap().reason.contains("no BTF"));
}

#[test]
fn without_privileges_nothing_is_attached_and_sudo_is_the_remedy() {
    let mut features = complete();
    features.privileges = Default::default();
    features.bpf = Check::Unknown("not permitted".into());
    let plan = automatic(&features);
    assert!(!plan.sees_locks());
    for probe in &plan.probes {
        assert_eq!(probe.method, Method::None);
        assert!(probe.remedy.as_ref().unwrap().contains("sudo"), "{probe:?}");
    }
}

#[test]
fn confidentiality_forbids_kprobes_but_not_typed_tracepoints() {
    let mut features = complete();
    features.lockdown = Some("confidentiality".into());
    features.fentry = Check::No("refused".into());
    features.tracepoints.values_mut().for_each(|tracepoint| tracepoint.id = None);
    let plan = automatic(&features);
    assert_eq!(method(&plan, Capability::LockWaits), Method::TpBtf);
    let osq = plan.probe(Capability::Osq).unwrap();
    assert!(osq.reason.contains("lockdown=confidentiality forbids kprobes"), "{}", osq.reason);
    assert!(osq.remedy.as_ref().unwrap().contains("lockdown"));
    let error = with(&features, "lock-waits=tracepoint").unwrap_err();
    assert!(error.to_string().contains("tracefs is out of reach"), "{error}");
}

#[test]
fn an_untraceable_or_inlined_function_is_not_attached() {
    let mut features = complete();
    features.functions.get_mut("osq_lock").unwrap().traceable = Some(false);
    *features.functions.get_mut("rwsem_spin_on_owner").unwrap() =
        Function { symbol: false, btf: true, traceable: None };
    features.fentry = Check::No("refused".into());
    let plan = automatic(&features);
    assert!(plan.probe(Capability::Osq).unwrap().reason.contains("untraceable"));
    assert!(plan.probe(Capability::RwsemOwner).unwrap().reason.contains("inlined or renamed"));
}

#[test]
fn requests_by_the_user_are_met_or_refused_with_the_reason() {
    let features = complete();
    assert_eq!(method(&with(&features, "osq=off").unwrap(), Capability::Osq), Method::None);
    let acquire = with(&features, "rq-acquire=on").unwrap();
    assert_eq!(method(&acquire, Capability::RqAcquire), Method::Fentry);
    let raw = with(&features, "lock-waits=raw-tracepoint").unwrap();
    assert_eq!(method(&raw, Capability::LockWaits), Method::RawTracepoint);
    let both = with(&features, "qspinlock=kprobe").unwrap();
    assert_eq!(method(&both, Capability::Qspinlock), Method::Kprobe);
    assert!(both.has(Capability::LockWaits));

    let error = with(&recorded("host-6.18"), "osq=kprobe").unwrap_err().to_string();
    assert!(error.contains("osq=kprobe cannot work here") && error.contains("CONFIG_KPROBES"));
    let error = with(&features, "osq=tp_btf").unwrap_err().to_string();
    assert!(error.contains("no hook of this kind"), "{error}");
    let error = with(&recorded("host-6.18"), "rq-acquire=on").unwrap_err();
    assert!(matches!(error, PlanError::Impossible { .. }));
}

#[test]
fn bad_requests_are_explained() {
    for (text, expected) in [
        ("osq", "CAPABILITY=METHOD"),
        ("osk=kprobe", "did you mean `osq`?"),
        ("osq=kprob", "did you mean `kprobe`?"),
        ("osq=", "known: on, off, tp_btf"),
    ] {
        let error = text.parse::<ProbeChoice>().unwrap_err().to_string();
        assert!(error.contains(expected), "{text}: {error}");
    }
}

#[test]
fn a_classic_tracepoint_is_used_when_it_is_all_there_is() {
    let mut features = complete();
    let only_id = Tracepoint { id: Some(7), btf: false };
    features.tracepoints.insert("lock:contention_begin".into(), only_id);
    let plan = with(&features, "lock-waits=tracepoint").unwrap();
    assert_eq!(method(&plan, Capability::LockWaits), Method::Tracepoint);
}

/// A kretprobe would forget returns, and so would a trampoline that is freed meanwhile.
#[test]
fn sleeps_are_not_traced_where_the_way_back_is_not_safe() {
    let mut features = recorded("debian-5.10");
    features.functions.remove("__bpf_tramp_exit");
    let plan = automatic(&features);
    let waits = plan.probe(Capability::RwsemWaits).unwrap();
    assert_eq!(waits.method, Method::None);
    assert!(waits.reason.contains("frees trampolines"), "{}", waits.reason);
    assert!(waits.reason.contains("kretprobes forget"), "{}", waits.reason);
    // Nobody sleeps in an rwlock's, and then nobody is known to hold a lock either.
    assert_eq!(method(&plan, Capability::RwlockWaits), Method::Fentry);
    assert_eq!(method(&plan, Capability::HoldEnd), Method::None);
    assert!(!plan.measured_classes(true).contains(&LockClass::Rwsem));
}

/// 5.10 has one of the two functions by which a release is seen.
#[test]
fn a_function_that_is_not_there_has_no_program() {
    let plan = with(&recorded("debian-5.10"), "hold-end=kprobe").unwrap();
    let programs: Vec<_> = plan
        .programs()
        .filter(|(probe, _)| probe.capability == Capability::HoldEnd)
        .map(|(_, spec)| spec.program)
        .collect();
    assert_eq!(programs, ["unlock_slowpath_kprobe"]);
}
