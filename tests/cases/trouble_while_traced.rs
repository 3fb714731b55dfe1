//! Whatever goes wrong while a run is traced, what was measured is reported, the exit code tells,
//! and nothing of the tracing stays in the kernel.

use lockscope_tests::command::{Running, skip, wait_until};
use lockscope_tests::postgres::Postgres;
use lockscope_tests::traced::{BRIEF, Run, Turn};
use lockscope_tests::traces::{bpf_programs, no_program_left};
use nix::sys::signal::Signal;
use std::process::Command;
use std::time::Duration;

/// A long traced run against a server with tables in it.
fn long_run(turn: &Turn, server: &Postgres, more: &[&str]) -> Running {
    server.make_tables().expect("tables");
    let dsn = server.dsn();
    let words = ["-S", "-c", "2", "-T", "100", "--warmup", "0", "--json", "--dsn", &dsn];
    turn.start(&[&words[..], more].concat()).expect("it traces")
}

/// Until the load has certainly ended a transaction.
fn measure_a_while() {
    std::thread::sleep(Duration::from_secs(1));
}

#[test]
fn a_server_that_dies() {
    let Some(turn) = Turn::take("a_server_that_dies") else { return };
    let before = bpf_programs().expect("bpftool");
    let server = Postgres::start(&[]).expect("a server");
    let running = long_run(&turn, &server, &[]);
    measure_a_while();
    server.stop().expect("stopped");
    let done = running.wait().expect("it does not go on alone");
    assert_eq!(done.code, Some(3), "{}", done.stderr);
    let run = Run::of(&done).expect("JSON");
    assert!(run.count("/throughput/transactions_count") > 0, "{}", run.0["throughput"]);
    assert_eq!(run.0["throughput"]["aborted_clients_count"], 2);
    assert!(run.warnings().contains(&"clients-aborted"), "{:?}", run.warnings());
    // The backends were gone before they were looked at a last time; their accounts are not.
    let roles: Vec<_> = run.list("backends").iter().map(|task| task["role"].clone()).collect();
    assert_eq!(roles.iter().filter(|role| *role == "client backend").count(), 2, "{roles:?}");
    assert_eq!(run.count("/ledger/server/tasks_count"), 2);
    no_program_left(&before).expect("clean");
}

#[test]
fn a_ctrl_c() {
    let Some(turn) = Turn::take("a_ctrl_c") else { return };
    let before = bpf_programs().expect("bpftool");
    let server = Postgres::start(&[]).expect("a server");
    let running = long_run(&turn, &server, &[]);
    measure_a_while();
    running.signal(Signal::SIGINT).expect("sent");
    let done = running.wait().expect("it ends");
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    let run = Run::of(&done).expect("JSON");
    assert_eq!(run.0["interrupted"], true);
    assert_eq!(run.count("/ledger/server/tasks_count"), 2);
    assert!(run.count("/throughput/traced_transactions_count") > 0, "{}", run.0["throughput"]);
    no_program_left(&before).expect("clean");
}

#[test]
fn a_kill_leaves_no_program() {
    let Some(turn) = Turn::take("a_kill_leaves_no_program") else { return };
    let before = bpf_programs().expect("bpftool");
    let server = Postgres::start(&[]).expect("a server");
    let running = long_run(&turn, &server, &[]);
    let during = bpf_programs().expect("bpftool");
    assert!(during.difference(&before).count() >= 2, "{before:?} {during:?}");
    running.signal(Signal::SIGKILL).expect("sent");
    running.wait().expect("it ends");
    no_program_left(&before).expect("clean");
}

#[test]
fn a_full_disk() {
    let Some(turn) = Turn::take("a_full_disk") else { return };
    let before = bpf_programs().expect("bpftool");
    let place = tempfile::tempdir().expect("a directory");
    let disk = place.path();
    let mounted =
        Command::new("mount").args(["-t", "tmpfs", "-o", "size=4k", "none"]).arg(disk).status();
    assert!(mounted.expect("mount").success());
    let file = disk.join("run").display().to_string();
    let done = turn.run(&[&BRIEF[..], &["-o", &file]].concat());
    let unmounted = Command::new("umount").arg(disk).status();
    assert!(unmounted.expect("umount").success());
    assert_eq!(done.code, Some(2), "{}", done.stderr);
    assert!(done.stdout.contains("Nanoseconds per transaction"), "{}", done.stdout);
    for text in [file.as_str(), "No space left"] {
        assert!(done.stderr.contains(text), "{text}: {}", done.stderr);
    }
    no_program_left(&before).expect("clean");
}

#[test]
fn a_process_to_trace_that_is_gone() {
    let Some(turn) = Turn::take("a_process_to_trace_that_is_gone") else { return };
    // No server answers there: the order shows that the process is looked for first.
    let words = ["--dsn", "host=/no/such/place", "--also-pid", "4194304"];
    let done = turn.run(&words);
    assert_eq!(done.code, Some(2), "{}", done.stderr);
    assert!(done.stderr.contains("--also-pid 4194304"), "{}", done.stderr);
}

/// A traced neighbour may end before the run does.
#[test]
fn a_traced_neighbour_that_ends() {
    let case = "a_traced_neighbour_that_ends";
    let Some(turn) = Turn::take(case) else { return };
    let server = Postgres::start(&[]).expect("a server");
    let mut sleeper = Command::new("sleep");
    let neighbour = Running::start(sleeper.arg("100")).expect("started");
    let pid = neighbour.pid();
    let running = long_run(&turn, &server, &["--also-pid", &pid.to_string()]);
    measure_a_while();
    drop(neighbour);
    wait_until(Duration::from_secs(10), || !std::path::Path::new(&format!("/proc/{pid}")).exists())
        .expect("gone");
    running.signal(Signal::SIGINT).expect("sent");
    let done = running.wait().expect("it ends");
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    let run = Run::of(&done).expect("JSON");
    if run.method("tasks") == "none" {
        return skip(case, "ends of tasks cannot be seen here");
    }
    let row = run.list("backends").into_iter().find(|task| task["pid"] == pid);
    assert_eq!(row.map(|row| &row["side"]), Some(&"other".into()), "{}", run.0["backends"]);
}
