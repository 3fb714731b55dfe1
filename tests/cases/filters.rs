//! Filters narrow the trace or the lock table, all at once, and a name that is none is refused.

use lockscope_tests::command::{finish, lockscope};
use lockscope_tests::traced::{BRIEF, Run, Turn};

fn refused(words: &[&str], expected: &[&str]) {
    let done = finish(&mut lockscope(&[&["run"], words].concat())).expect("it ends");
    assert_eq!(done.code, Some(2), "{words:?}: {}", done.stderr);
    assert_eq!(done.stdout, "", "{words:?}");
    for text in expected {
        assert!(done.stderr.contains(text), "{words:?}: no `{text}` in: {}", done.stderr);
    }
}

fn traced(turn: &Turn, filters: &[&str]) -> Run {
    let words = [&BRIEF[..], &["-c", "4", "--json"], filters].concat();
    let done = turn.run(&words);
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    Run::of(&done).expect("JSON")
}

#[test]
fn a_name_that_is_none_is_refused_with_near_ones() {
    let Some(_turn) = Turn::take("a_name_that_is_none_is_refused_with_near_ones") else { return };
    // No server is made for it: none answers there.
    let nowhere = ["--dsn", "host=/no/such/place"];
    for (filter, expected) in [
        (["--lock-class", "qspinlok"], &["did you mean qspinlock?", "percpu_rwsem"][..]),
        (["--caller", "vfs_wrte"], &["vfs_write"]),
        (["--lock", "eventpoll_lock"], &["did you mean eventpoll.lock"]),
        (["--pid", "4194304"], &["--pid 4194304", "no such process"]),
        (["--tid", "4194304"], &["--tid 4194304"]),
        (["--cpu", "0,900"], &["--cpu 900"]),
        (["--cgroup", "/no/such/group"], &["--cgroup /no/such/group"]),
    ] {
        refused(&[nowhere, filter].concat(), expected);
    }
    refused(&["-S", "--warmup", "0", "--comm", "postgrez"], &["--comm postgrez", "postgres"]);
}

#[test]
fn a_task_filter_holds_for_everything() {
    let Some(turn) = Turn::take("a_task_filter_holds_for_everything") else { return };
    let run = traced(&turn, &["--comm", "postgres"]);
    assert!(run.0["ledger"]["server"].is_object() && run.0["ledger"]["client"].is_null());
    let tasks = run.list("backends");
    assert!(!tasks.is_empty() && tasks.iter().all(|task| task["side"] == "server"), "{tasks:?}");
    let foreign = run.list("locks").into_iter().find(|lock| lock["side"] != "server");
    assert_eq!(foreign, None, "waits of other tasks are not counted");
    assert_eq!(run.0["filters"][0], "comm postgres");
}

#[test]
fn wait_filters_narrow_the_lock_table_and_leave_the_ledger_whole() {
    let case = "wait_filters_narrow_the_lock_table_and_leave_the_ledger_whole";
    let Some(turn) = Turn::take(case) else { return };
    let run = traced(&turn, &["--lock-class", "rq,mutex", "--min-wait", "2"]);
    for lock in run.list("locks") {
        assert!(lock["class"] == "rq" || lock["class"] == "mutex", "{lock}");
        assert!(lock["mean_ns"].as_u64() >= Some(2000), "{lock}");
    }
    let counts = run.0["ledger"]["server"]["wait_counts"].as_object().expect("counts");
    let locks = run.list("locks").into_iter().filter(|lock| lock["side"] == "server");
    let in_table: u64 = locks.filter_map(|lock| lock["count"].as_u64()).sum();
    let all: u64 = counts.values().filter_map(serde_json::Value::as_u64).sum();
    assert!(all > in_table, "the ledger has {all} waits, the table {in_table}");
}

#[test]
fn a_cpu_without_the_load_has_no_wait() {
    let Some(turn) = Turn::take("a_cpu_without_the_load_has_no_wait") else { return };
    let words = ["--pin-server", "0", "--pin-client", "0", "--comm", "postgres", "--cpu", "1"];
    let run = traced(&turn, &words);
    assert_eq!(run.list("locks").len(), 0, "{}", run.0["locks"]);
}
