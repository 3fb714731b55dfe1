//! Findings of small runs with known answers.

use super::*;
use crate::model::Latency;

fn run() -> Run {
    let mut run = Run::new();
    run.throughput.transactions_count = 1000;
    run.throughput.traced_transactions_count = 1000;
    run.latency_ns = Some(Latency { mean: 100_000, ..Latency::default() });
    run
}

fn side(spin: &[(&str, f64)], sleep: &[(&str, f64)]) -> SideLedger {
    let mut side = SideLedger::default();
    for (classes, into) in [
        (spin, &mut side.per_transaction_ns.spin),
        (sleep, &mut side.per_transaction_ns.lock_sleep),
    ] {
        into.extend(classes.iter().map(|(class, ns)| ((*class).to_owned(), *ns)));
    }
    side.per_transaction_ns.not_split = Some(100_000.0 - side.per_transaction_ns.lock_ns());
    side
}

fn lock(side: &str, class: &str, caller: &str, total_ns: u64) -> Lock {
    Lock {
        side: side.to_owned(),
        class: class.to_owned(),
        name: format!("({caller})"),
        found_by: "caller".to_owned(),
        caller: Some(caller.to_owned()),
        total_ns,
        samples_count: 100,
        ..Lock::default()
    }
}

fn topic(run: &Run, topic: &str) -> String {
    findings(run).into_iter().find(|f| f.topic == topic).unwrap().text
}

#[test]
fn the_leader_is_named_with_lock_caller_and_nanoseconds() {
    let mut run = run();
    run.ledger.server = Some(side(&[("qspinlock", 20_000.0)], &[("mutex", 5_000.0)]));
    run.locks = vec![
        lock("server", "qspinlock", "futex_wake", 15_000_000),
        lock("client", "qspinlock", "ep_poll", 90_000_000),
    ];
    let text = topic(&run, "server");
    assert!(text.contains("25.0 us of the mean latency of 100 us, 25.0 %"), "{text}");
    assert!(
        text.contains("Most of that is qspinlock: 20.0 us a transaction (80.0 % of it)"),
        "{text}"
    );
    assert!(text.contains("75.0 % of that on a lock taken in futex_wake"), "{text}");
    assert!(text.contains("then mutex: 5.00 us"), "{text}");
    assert!(topic(&run, "not split").starts_with("75.0 us a transaction, 75.0 %"));
    assert!(topic(&run, "next").starts_with("Look at futex_wake on the server side"));
}

#[test]
fn the_client_leads_when_it_waits_longer() {
    let mut run = run();
    run.ledger.server = Some(side(&[("qspinlock", 1_000.0)], &[]));
    run.ledger.client = Some(side(&[("rq", 30_000.0)], &[]));
    run.locks = vec![lock("client", "rq", "try_to_wake_up", 30_000_000)];
    assert!(topic(&run, "client").contains("30.0 us a transaction, more than the server"));
    assert!(topic(&run, "next").starts_with("Look at try_to_wake_up on the client side"));
}

#[test]
fn little_lock_time_is_said_and_the_rest_is_named_not_split() {
    let mut run = run();
    run.ledger.server = Some(side(&[("qspinlock", 12.0)], &[]));
    assert!(
        topic(&run, "not split").contains("100.0 us")
            || topic(&run, "not split").contains("100 us")
    );
    assert!(topic(&run, "next").contains("explain little"));
    run.ledger.server = Some(side(&[], &[]));
    let text = topic(&run, "server");
    assert!(text.contains("no contended kernel lock: 0 ns of the mean latency"), "{text}");
    assert!(topic(&run, "not split").contains("Depth locks does not split the rest"));
}

#[test]
fn one_code_path_is_added_up_over_its_classes() {
    let mut run = run();
    run.ledger.server = Some(side(&[("osq", 10_000.0)], &[("rwsem", 30_000.0)]));
    run.locks = vec![
        lock("server", "rwsem", "ext4_write", 30_000_000),
        lock("server", "osq", "ext4_write", 10_000_000),
    ];
    let text = topic(&run, "server");
    assert!(
        text.contains("ext4_write adds up to about 40.0 us (100.0 %) over its osq and rwsem"),
        "{text}"
    );
}

#[test]
fn background_processes_are_told_apart() {
    let mut run = run();
    run.ledger.server = Some(side(&[("qspinlock", 10_000.0)], &[]));
    run.ledger.background = Some(side(&[("qspinlock", 2_500.0)], &[]));
    let text = topic(&run, "server");
    assert!(text.contains("background processes waited 2.50 us more"), "{text}");
    assert!(text.contains("Kernel locks take 10.0 us"), "not part of the server's own: {text}");
}

#[test]
fn without_trace_or_transactions_nothing_is_claimed() {
    let mut run = run();
    assert!(topic(&run, "locks").contains("not traced"));
    run.ledger.server = Some(SideLedger::default());
    run.throughput.traced_transactions_count = 0;
    assert!(topic(&run, "locks").contains("No contended lock was seen either"));
    run.locks = vec![lock("server", "mutex", "do_it", 5_000)];
    assert!(topic(&run, "locks").contains("most on a lock taken in do_it: 5.00 us in 0 waits"));
}
