//! A table that is full costs what it says, and nothing else: the loss is counted, warned about with
//! its remedy, and the run is reported.

use lockscope_tests::command::{Running, binary, finish, lockscope};
use lockscope_tests::postgres::Postgres;
use lockscope_tests::traced::{BRIEF, Run, Turn};
use std::process::Command;

/// The loss has a warning that names the option.
fn is_warned(run: &Run, loss: &str, option: &str) {
    assert!(run.loss(loss) > 0, "{loss}: {}", run.0["losses"]);
    let code = loss.replace('_', "-");
    let warnings = run.list("warnings");
    let warning = warnings.iter().find(|warning| warning["code"] == *code);
    let remedy = warning.and_then(|warning| warning["remedy"].as_str()).unwrap_or_default();
    assert!(remedy.contains(option), "{warnings:?}");
    assert!(run.count("/throughput/transactions_count") > 0, "{}", run.0["throughput"]);
}

/// Something that waits all the time, for many locks.
fn contender() -> Running {
    let program = binary("", "stress-wake");
    let words = ["--seconds", "100", "--threads", "4"];
    Running::start(Command::new(program).args(words)).expect("started")
}

fn traced(turn: &Turn, more: &[&str]) -> Run {
    let done = turn.run(&[&BRIEF[..], &["--json", "-c", "4"], more].concat());
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    Run::of(&done).expect("JSON")
}

#[test]
fn locks() {
    let Some(turn) = Turn::take("locks") else { return };
    let _contender = contender();
    let run = traced(&turn, &["--max-locks", "1"]);
    is_warned(&run, "locks_full", "--max-locks");
    assert_eq!(run.list("locks").len(), 1);
    // The totals do not need the table.
    let other = run.0["ledger"]["other"]["wait_counts"].as_object().expect("counts");
    let waits: u64 = other.values().filter_map(serde_json::Value::as_u64).sum();
    assert!(waits > run.count("/locks/0/count"), "{other:?}");
}

#[test]
fn samples() {
    let Some(turn) = Turn::take("samples") else { return };
    let contender = contender();
    let pid = contender.pid().to_string();
    let every = ["--ring-bytes", "4096", "--sample-every", "1", "--also-pid", &pid];
    let run = traced(&turn, &every);
    is_warned(&run, "ring_full", "--ring-bytes");
    let sampled: u64 =
        run.list("locks").iter().filter_map(|lock| lock["samples_count"].as_u64()).sum();
    let counted: u64 = run.list("locks").iter().filter_map(|lock| lock["count"].as_u64()).sum();
    assert!(sampled > 0 && sampled < counted, "{sampled} of {counted}");
}

#[test]
fn tasks_that_join_later() {
    let Some(turn) = Turn::take("tasks_that_join_later") else { return };
    let server = Postgres::start(&[]).expect("a server");
    let dsn = server.dsn();
    server.make_tables().expect("tables");
    let words = ["-S", "-T", "100", "--warmup", "0", "--json", "--dsn", &dsn];
    // Room for what is there: a postmaster with its helpers, a backend, a worker.
    let run = turn.start(&[&words[..], &["--max-tasks", "9"]].concat()).expect("traced");
    let mut pgbench = server.client("pgbench");
    let churn = finish(pgbench.args(["-n", "-S", "-C", "-t", "20"])).expect("pgbench");
    assert_eq!(churn.code, Some(0), "{}", churn.stderr);
    run.signal(nix::sys::signal::Signal::SIGINT).expect("sent");
    let done = run.wait().expect("it ends");
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    let run = Run::of(&done).expect("JSON");
    if run.method("tasks") != "none" {
        is_warned(&run, "tasks_full", "--max-tasks");
    }
}

#[test]
fn tasks_that_are_there_already() {
    let Some(turn) = Turn::take("tasks_that_are_there_already") else { return };
    let done = turn.run(&[&BRIEF[..], &["--max-tasks", "2"]].concat());
    assert_eq!(done.code, Some(2), "{}", done.stderr);
    assert!(done.stderr.contains("--max-tasks"), "{}", done.stderr);
}

#[test]
fn sizes_that_cannot_be_are_refused() {
    for (option, value) in [("--max-tasks", "0"), ("--max-locks", "0"), ("--ring-bytes", "5000")] {
        let done = finish(&mut lockscope(&["run", option, value])).expect("it ends");
        assert_eq!(done.code, Some(2), "{}", done.stderr);
        assert!(done.stderr.contains(option), "{}", done.stderr);
    }
}
