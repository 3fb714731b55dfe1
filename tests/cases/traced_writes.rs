//! Every transaction of a counted load is traced, and the flushes that it makes are seen.

use lockscope_tests::traced::{Run, Turn, account_sum};

#[test]
fn every_transaction_of_a_counted_run_is_traced() {
    let Some(turn) = Turn::take("every_transaction_of_a_counted_run_is_traced") else { return };
    let words = ["--workload", "tpcb-like", "-c", "4", "-t", "20", "--no-control", "--json"];
    let words = [&words[..], &["--probe", "requests=on"]].concat();
    let done = turn.run(&words);
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    let run = Run::of(&done).expect("JSON");
    assert_eq!(run.0["throughput"]["failed_count"], 0);
    assert_eq!(run.count("/throughput/transactions_count"), 80);
    assert_eq!(run.count("/throughput/traced_transactions_count"), 80);
    assert_eq!(run.backends_transactions(), 80, "{}", run.0["backends"]);
    account_adds_up_to_the_latency(&run);
    if run.method("plug-events") != "none" {
        flushes_are_seen(&run);
    }
}

/// All transactions were traced: the account's mean is the clients'.
fn account_adds_up_to_the_latency(run: &Run) {
    let account = &run.0["ledger"]["server"]["per_transaction_ns"];
    let sum = account_sum(account);
    let mean = run.count("/latency_ns/mean") as f64;
    // The mean comes from a histogram with three digits.
    assert!((sum / mean - 1.0).abs() < 0.002, "{sum} and {mean}");
}

fn flushes_are_seen(run: &Run) {
    let owners = run.0["plug"]["by_owner"].as_object().expect("owners");
    for owner in ["server", "client", "kworker", "other"] {
        assert!(owners.contains_key(owner), "{owners:?}");
    }
    // Writing through a plug is the file system's choice; that something was written is ours.
    let unplugs: u64 = owners.values().filter_map(|owner| owner["unplug_count"].as_u64()).sum();
    assert!(unplugs > 0, "{owners:?}");
    assert!(run.0["plug"]["flushes_per_transaction"].as_f64() > Some(0.0), "{}", run.0["plug"]);
}
