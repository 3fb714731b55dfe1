//! `lockscope attach`: what runs already is traced, and nothing of it changes.

use std::fs;
use std::process::Command;
use std::time::Duration;

use lockscope_tests::command::{Finished, Running, finish, lockscope, wait_until};
use lockscope_tests::postgres::Postgres;
use lockscope_tests::traced::{Run, Turn};
use nix::sys::stat::Mode;
use nix::unistd::mkfifo;
use serde_json::Value;
use tempfile::TempDir;

fn attach(words: &[&str]) -> Command {
    lockscope(&[&["attach"], words].concat())
}

fn traced(turn: &Turn, words: &[&str]) -> Run {
    let done = turn.finish(|| attach(&[words, &["-T", "2", "--json", "--quiet"]].concat()));
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    Run::of(&done).expect("JSON")
}

fn refused(turn: &Turn, words: &[&str]) -> Finished {
    let done = turn.finish(|| attach(words));
    assert_eq!(done.code, Some(2), "{words:?}: {}", done.stderr);
    assert_eq!(done.stdout, "", "{words:?}");
    done
}

/// A server, and pgbench with two threads and four clients at it.
fn benchmark() -> (Postgres, Running) {
    let server = Postgres::start(&[]).expect("a server");
    server.make_tables().expect("tables");
    let mut pgbench = server.client("pgbench");
    pgbench.args(["-n", "-S", "-M", "prepared", "-c", "4", "-j", "2", "-T", "600"]);
    let running = Running::start(&mut pgbench).expect("pgbench");
    let postmaster = server.postmaster_pid().expect("a pid");
    // Before them it has a session of its own for its set-up.
    wait_until(Duration::from_secs(60), || selecting(postmaster) >= 4).expect("its load");
    (server, running)
}

/// Children of a server that are sessions at a statement or between two.
fn selecting(postmaster: u32) -> usize {
    let children = format!("/proc/{postmaster}/task/{postmaster}/children");
    let children = fs::read_to_string(children).unwrap_or_default();
    let title = |pid: &&str| fs::read_to_string(format!("/proc/{pid}/cmdline"));
    let is_at_work = |pid: &&str| {
        title(pid)
            .is_ok_and(|title| title.contains("[local] SELECT") || title.contains("[local] idle"))
    };
    children.split_whitespace().filter(is_at_work).count()
}

fn sides<'a>(run: &'a Run, side: &str) -> Vec<&'a Value> {
    run.list("backends").into_iter().filter(|task| task["side"] == side).collect()
}

#[test]
fn a_server_and_its_clients_are_told_apart() {
    let Some(turn) = Turn::take("a_server_and_its_clients_are_told_apart") else { return };
    let (server, pgbench) = benchmark();
    let postmaster = server.postmaster_pid().expect("a pid").to_string();
    let run = traced(&turn, &["--postgres", &postmaster]);
    let backends =
        sides(&run, "server").into_iter().filter(|task| task["role"] == "client backend");
    assert_eq!(backends.count(), 4, "{}", run.0["backends"]);
    let clients = sides(&run, "client");
    assert!(clients.len() >= 2, "pgbench's threads: {clients:?}");
    assert!(clients.iter().all(|task| task["pid"].as_u64() == Some(u64::from(pgbench.pid()))));
    for side in ["server", "client"] {
        let balance = run.0["ledger"][side]["balance"].as_f64().expect("clocks are kept");
        assert!((balance - 1.0).abs() < 0.01, "{side}: {balance}: {}", run.0["backends"]);
        assert!(run.0["ledger"][side]["states_ns"]["cpu"].as_u64() > Some(0), "{side}");
    }
}

#[test]
fn sessions_shorter_than_an_interval_are_the_server_s_too() {
    let case = "sessions_shorter_than_an_interval_are_the_server_s_too";
    let Some(_turn) = Turn::take(case) else { return };
    let server = Postgres::start(&[]).expect("a server");
    server.make_tables().expect("tables");
    let postmaster = server.postmaster_pid().expect("a pid").to_string();
    let words = ["--postgres", &postmaster, "-T", "4", "--interval", "2", "--json"];
    let trace = Running::start(&mut attach(&words)).expect("it starts");
    wait_until(Duration::from_secs(60), || trace.said().contains("attached: 2"))
        .expect("it traces");
    let mut pgbench = server.client("pgbench");
    let done = finish(pgbench.args(["-n", "-S", "-c", "2", "-t", "200"])).expect("pgbench");
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    let done = trace.wait().expect("it ends");
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    let run = Run::of(&done).expect("JSON");
    // pgbench's own connection for the scale, too.
    let told = run.count("/throughput/transactions_count");
    assert!((400..410).contains(&told), "{told}");
    assert!(run.count("/ledger/server/tasks_count") >= 2, "{}", run.0["ledger"]);
    assert_eq!(run.count("/ledger/server/transactions_count"), told);
}

#[test]
fn a_target_that_ends_is_told() {
    let Some(_turn) = Turn::take("a_target_that_ends_is_told") else { return };
    let mut target = Command::new("sleep").arg("3").spawn().expect("a target");
    let words = ["--pid", &target.id().to_string(), "-T", "60", "--json", "--interval", "0.5"];
    let trace = Running::start(&mut attach(&words)).expect("it starts");
    target.wait().expect("it ends");
    let done = trace.wait().expect("it ends");
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    let run = Run::of(&done).expect("JSON");
    assert!(run.warnings().contains(&"target-ended"), "{:?}", run.warnings());
    assert!(run.count("/workload/duration_ns") < 30_000_000_000);
}

#[test]
fn the_whole_machine_needs_no_load() {
    let Some(turn) = Turn::take("the_whole_machine_needs_no_load") else { return };
    let run = traced(&turn, &["--all"]);
    assert!(run.0["ledger"]["other"].is_object(), "{}", run.0["ledger"]);
    assert_eq!(run.list("intervals").len(), 2, "{}", run.0["intervals"]);
    assert!(run.0["ledger"]["server"].is_null() && run.0["latency_ns"].is_null());
}

#[test]
fn filters_choose_the_tasks() {
    let Some(turn) = Turn::take("filters_choose_the_tasks") else { return };
    let (_server, pgbench) = benchmark();
    let pid = pgbench.pid().to_string();
    let run = traced(&turn, &["--pid", &pid]);
    let tasks = run.list("backends");
    assert!(tasks.len() >= 2 && tasks.iter().all(|task| task["pid"] == pgbench.pid()), "{tasks:?}");
    assert!(
        refused(&turn, &["--pid", &pid, "--comm", "postgres"]).stderr.contains("no task passes")
    );
}

#[test]
fn without_a_target_the_benchmarks_are_listed() {
    let Some(turn) = Turn::take("without_a_target_the_benchmarks_are_listed") else { return };
    let directory = TempDir::new().expect("a directory");
    let path = |name: &str| directory.path().join(name);
    // HammerDB as the list sees it: a shell under its names, which waits at a pipe.
    mkfifo(&path("pipe"), Mode::S_IRWXU).expect("a pipe");
    let start = |program: &str, script: &str| {
        fs::copy("/bin/bash", path(program)).expect("a program");
        fs::write(path(script), "exec 3<> pipe; read -r line <&3").expect("a script");
        let mut command = Command::new(path(program));
        command.arg(path(script)).current_dir(directory.path());
        Running::start(&mut command).expect("it starts")
    };
    let hammers = [start("tclsh8.6", "hammerdbcli"), start("hammerdbws", "run.tcl")];
    let other = start("tclsh8.7", "other.tcl");
    // Not before it has become that program.
    let is_itself = |running: &Running| {
        let comm = fs::read_to_string(format!("/proc/{}/comm", running.pid()));
        comm.is_ok_and(|comm| comm.starts_with("tclsh") || comm.starts_with("hammer"))
    };
    let all = || hammers.iter().chain([&other]).all(is_itself);
    wait_until(Duration::from_secs(60), all).expect("they run");
    let done = refused(&turn, &[]);
    assert!(done.stderr.contains("benchmarks that run:"), "{}", done.stderr);
    for hammer in &hammers {
        let line = format!("HammerDB (pid {}: ", hammer.pid());
        assert!(done.stderr.contains(&line), "no `{line}`: {}", done.stderr);
    }
    assert!(!done.stderr.contains(&format!("pid {}", other.pid())), "{}", done.stderr);
}

#[test]
fn without_a_target_the_servers_are_listed() {
    let Some(turn) = Turn::take("without_a_target_the_servers_are_listed") else { return };
    let server = Postgres::start(&[]).expect("a server");
    let pid = server.postmaster_pid().expect("a pid");
    let done = refused(&turn, &[]);
    for text in ["attach to what?", "--postgres PORT", "--all", &format!("pid {pid}, port ")] {
        assert!(done.stderr.contains(text), "no `{text}`: {}", done.stderr);
    }
    assert!(refused(&turn, &["--postgres", "/no/such/place"]).stderr.contains("/no/such/place"));
    let both = finish(&mut attach(&["--all", "--postgres", "5432"])).expect("it ends");
    assert_eq!(both.code, Some(2));
}
