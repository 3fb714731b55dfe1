//! Each verdict: a run that gets it, and a near miss that does not.

use std::collections::BTreeMap;

use super::*;
use crate::model::{
    Counters, EventCount, Lock, PerTransaction, Profile, ProfileFrame, ProfileStack, SideCounters,
    SideLedger,
};

/// A run whose transactions take 1000 ns, by state; the rest is the client's.
fn run(states: &[(&str, f64)]) -> Run {
    let mut account = PerTransaction { cpu: Some(0.0), ..PerTransaction::default() };
    let mut sum = 0.0;
    for (state, ns) in states {
        sum += ns;
        match state.split_once('.') {
            None if *state == "cpu" => account.cpu = Some(*ns),
            None if *state == "io" => account.io = Some(*ns),
            Some(("runq", cause)) => drop(account.runq_by_cause.insert(cause.into(), *ns)),
            Some(("wait", class)) => drop(account.wait.insert(class.into(), *ns)),
            Some(("spin", class)) => drop(account.spin.insert(class.into(), *ns)),
            Some(("lock_sleep", class)) => drop(account.lock_sleep.insert(class.into(), *ns)),
            other => panic!("{other:?}"),
        }
    }
    account.client_and_transport = Some(1000.0 - sum);
    let mut run = Run::new();
    run.ledger.server =
        Some(SideLedger { per_transaction_ns: account, tasks_count: 4, ..SideLedger::default() });
    run.throughput.traced_transactions_count = 100;
    run
}

fn with_client(mut run: Run, busy: u64) -> Run {
    run.ledger.client = Some(SideLedger {
        wall_ns: Some(1000),
        states_ns: BTreeMap::from([("cpu".into(), busy), ("wait.none".into(), 1000 - busy)]),
        ..SideLedger::default()
    });
    run
}

/// Its threads are hardly ever asleep, and hardly ever run.
fn with_starved_client(run: Run) -> Run {
    let mut run = with_client(run, 10);
    let client = run.ledger.client.as_mut().unwrap();
    client.states_ns.insert("wait.none".into(), 60);
    client.states_ns.insert("runq.queued".into(), 930);
    run
}

/// A profile of the server: own shares in percent.
fn with_profile(mut run: Run, symbols: &[(&str, &str, u64)]) -> Run {
    let frame = |(symbol, object, _): &(&str, &str, u64)| ProfileFrame {
        symbol: (*symbol).into(),
        object: (*object).into(),
        unknown: None,
    };
    let stack = |(number, (_, _, weight)): (usize, &(&str, &str, u64))| ProfileStack {
        side: "server".into(),
        command: "postgres".into(),
        samples_count: *weight,
        weight: *weight,
        frames: vec![number as u32],
    };
    run.profile = Some(Profile {
        frames: symbols.iter().map(frame).collect(),
        stacks: symbols.iter().enumerate().map(stack).collect(),
        ..Profile::default()
    });
    run
}

fn with_events(mut run: Run, events: &[(&str, u64)]) -> Run {
    let count = |count| EventCount { count, per_cpu_ns: 1.0, running_share: 1.0 };
    let events = events.iter().map(|(name, n)| ((*name).to_owned(), count(*n))).collect();
    let side = SideCounters { events, ..SideCounters::default() };
    run.counters =
        Some(Counters { sides: BTreeMap::from([("server".into(), side)]), ..Counters::default() });
    run
}

fn kind(run: &Run) -> String {
    let verdict = verdict(run).unwrap();
    assert!(!verdict.evidence.is_empty(), "{verdict:?}");
    assert_eq!(
        verdict.kind == "kernel_lock",
        !verdict.text.contains("not a kernel lock") && verdict.kind != "unknown"
    );
    verdict.kind
}

#[test]
fn each_verdict_and_its_near_miss() {
    let hot = |symbol| [(symbol, "[kernel]", 30), ("ExecProcNode", "postgres", 70)];
    let misses = [
        ("cycles", 100),
        ("instructions", 60),
        ("L1-dcache-loads", 100),
        ("L1-dcache-load-misses", 6),
    ];
    let few = [
        ("cycles", 100),
        ("instructions", 60),
        ("L1-dcache-loads", 100),
        ("L1-dcache-load-misses", 2),
    ];
    let quick = [
        ("cycles", 100),
        ("instructions", 110),
        ("L1-dcache-loads", 100),
        ("L1-dcache-load-misses", 6),
    ];
    let busy = || run(&[("cpu", 600.0)]);
    let spins = [("s_lock", "postgres", 40), ("ExecProcNode", "postgres", 60)];
    for (expected, run) in [
        ("kernel_lock", run(&[("cpu", 300.0), ("spin.osq", 310.0)])),
        ("cpu", run(&[("cpu", 500.0), ("spin.osq", 100.0)])),
        ("kernel_lock", run(&[("cpu", 100.0), ("lock_sleep.rwsem", 200.0), ("wait.IPC", 300.0)])),
        ("unknown", run(&[("cpu", 300.0), ("lock_sleep.rwsem", 100.0), ("wait.IPC", 300.0)])),
        // No probe saw the spins, the profile did.
        ("kernel_lock", with_profile(busy(), &hot("rwsem_spin_on_owner")[..1])),
        (
            "cpu",
            with_profile(busy(), &[("rwsem_spin_on_owner", "[kernel]", 10), ("x", "postgres", 90)]),
        ),
        ("preemption", run(&[("cpu", 100.0), ("runq.queued", 300.0), ("wait.IPC", 200.0)])),
        ("unknown", run(&[("cpu", 100.0), ("runq.queued", 100.0), ("wait.IPC", 400.0)])),
        ("io", run(&[("cpu", 300.0), ("io", 100.0), ("wait.IO", 300.0)])),
        ("unknown", run(&[("cpu", 300.0), ("io", 50.0), ("wait.IO", 80.0), ("wait.IPC", 200.0)])),
        ("postgres_lock", run(&[("cpu", 100.0), ("wait.Lock", 700.0)])),
        ("unknown", run(&[("cpu", 300.0), ("wait.Lock", 140.0), ("wait.IPC", 200.0)])),
        ("user_spin", run(&[("cpu", 300.0), ("wait.LWLock", 400.0)])),
        ("user_spin", with_profile(run(&[("cpu", 390.0), ("wait.IPC", 200.0)]), &spins)),
        ("unknown", with_profile(run(&[("cpu", 300.0), ("wait.IPC", 300.0)]), &spins)),
        ("client_bound", with_client(run(&[("cpu", 200.0)]), 900)),
        ("network", with_client(run(&[("cpu", 200.0)]), 300)),
        ("preemption", with_starved_client(run(&[("cpu", 200.0)]))),
        // Its threads wait for a CPU as the server does: that is no network.
        ("preemption", with_client(run(&[("cpu", 20.0), ("runq.queued", 330.0)]), 650)),
        ("unknown", with_client(run(&[("cpu", 300.0), ("wait.IPC", 300.0)]), 900)),
        ("shared_atomics", with_profile(busy(), &hot("dst_release"))),
        ("cpu", with_profile(busy(), &hot("finish_task_switch.isra.0"))),
        ("cpu", with_profile(busy(), &[("dst_release", "[kernel]", 10), ("x", "postgres", 90)])),
        ("cache_misses", with_events(busy(), &misses)),
        ("cpu", with_events(busy(), &few)),
        ("cpu", with_events(busy(), &quick)),
    ] {
        assert_eq!(kind(&run), expected, "{:?}", verdict(&run));
    }
}

#[test]
fn a_kernel_lock_is_named() {
    let mut run = run(&[("cpu", 300.0), ("lock_sleep.rwsem", 400.0)]);
    let lock = |name: &str, side: &str, total_ns| Lock {
        class: "rwsem".into(),
        name: name.into(),
        side: side.into(),
        caller: Some("do_exc_page_fault".into()),
        total_ns,
        ..Lock::default()
    };
    run.locks =
        vec![lock("other.lock", "client", 9000), lock("mm_struct.mmap_lock", "server", 500)];
    let verdict = verdict(&run).unwrap();
    let expected = "kernel lock: rwsem mm_struct.mmap_lock, taken in do_exc_page_fault; locks take \
                    40.0 % of the mean latency";
    assert_eq!(verdict.text, expected);
    assert_eq!(verdict.evidence[0].value, 0.4);
}

#[test]
fn a_bandwidth_limit_is_told_from_other_tasks() {
    let text = |states: &[(&str, f64)]| verdict(&run(states)).unwrap().text;
    assert!(
        text(&[
            ("runq.throttled", 300.0),
            ("runq.queued", 50.0),
            ("cpu", 500.0),
            ("spin.osq", 0.0)
        ])
        .contains("plain CPU")
    );
    assert!(text(&[("runq.throttled", 300.0), ("cpu", 290.0)]).contains("bandwidth limit"));
    assert!(text(&[("runq.queued", 300.0), ("cpu", 290.0)]).contains("more want to run"));
}

#[test]
fn without_a_trace_there_is_no_verdict_and_depth_locks_says_what_it_lacks() {
    assert_eq!(verdict(&Run::new()), None);
    let mut run = run(&[]);
    let account = &mut run.ledger.server.as_mut().unwrap().per_transaction_ns;
    *account = PerTransaction { not_split: Some(1000.0), ..PerTransaction::default() };
    let found = verdict(&run).unwrap();
    assert!(found.kind == "unknown" && found.text.contains("depth ledger"), "{found:?}");
}

/// `attach --pid` on something that is no server.
#[test]
fn tasks_without_transactions_are_judged_by_their_own_time() {
    let mut run = Run::new();
    run.ledger.other = Some(SideLedger {
        wall_ns: Some(1000),
        states_ns: BTreeMap::from([("cpu".into(), 950), ("runq.queued".into(), 50)]),
        ..SideLedger::default()
    });
    assert_eq!(kind(&run), "cpu");
}
