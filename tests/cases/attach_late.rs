//! `lockscope attach` to a benchmark that runs already: its numbers are those of the benchmark itself
//! over the same time.

use std::fs;
use std::process::Command;
use std::time::Duration;

use lockscope_tests::command::{Running, lockscope, wait_until};
use lockscope_tests::postgres::Postgres;
use lockscope_tests::traced::{Run, Turn};
use nix::sys::signal::Signal;
use tempfile::TempDir;

fn attach(turn: &Turn, words: &[&str]) -> Run {
    let done = turn.finish(|| lockscope(&[&["attach", "--json", "--quiet"], words].concat()));
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    Run::of(&done).expect("JSON")
}

/// pgbench with its own log of every transaction, and its progress in a file.
fn pgbench(server: &Postgres, directory: &TempDir) -> Running {
    let shell = "exec \"$0\" -n -S -c 4 -j 2 -T 600 -P 1 -l --log-prefix=log 2> progress";
    let client = server.client("pgbench");
    let mut command = Command::new("/bin/sh");
    command.args(["-c", shell]).arg(client.get_program()).current_dir(directory.path());
    for (name, value) in client.get_envs() {
        command.env(name, value.expect("set"));
    }
    Running::start(&mut command).expect("pgbench")
}

/// Ends of transactions by pgbench's logs, microseconds since 1970: fields 5 and 6 of a line.
fn ends(directory: &TempDir) -> Vec<u64> {
    let files = fs::read_dir(directory.path()).expect("a directory").flatten();
    let logs = files.filter(|file| file.file_name().to_string_lossy().starts_with("log"));
    let end = |line: &str| {
        let fields: Vec<u64> = line.split(' ').filter_map(|field| field.parse().ok()).collect();
        (fields.len() >= 6).then(|| fields[4] * 1_000_000 + fields[5])
    };
    let text = |file: fs::DirEntry| fs::read_to_string(file.path()).unwrap_or_default();
    logs.flat_map(|file| text(file).lines().filter_map(end).collect::<Vec<_>>()).collect()
}

#[test]
fn a_late_attach_counts_what_the_benchmark_logs() {
    let Some(turn) = Turn::take("a_late_attach_counts_what_the_benchmark_logs") else { return };
    let server = Postgres::start(&[]).expect("a server");
    server.make_tables().expect("tables");
    let directory = TempDir::new().expect("a directory");
    let benchmark = pgbench(&server, &directory);
    let progress = directory.path().join("progress");
    let said = || fs::read_to_string(&progress).unwrap_or_default();
    wait_until(Duration::from_secs(60), || said().contains("progress: ")).expect("it runs");
    let postmaster = server.postmaster_pid().expect("a pid").to_string();
    let file = progress.display().to_string();
    let run = attach(&turn, &["--postgres", &postmaster, "--progress-from", &file, "-T", "4"]);
    // Its logs are written in blocks: until nothing of the time is missing.
    let started: jiff::Timestamp =
        run.0["started_at"].as_str().expect("a time").parse().expect("a time");
    let from = u64::try_from(started.as_microsecond()).expect("after 1970");
    let to = from + run.count("/workload/duration_ns") / 1000;
    let wanted = || ends(&directory).into_iter().any(|end| end > to + 1_000_000);
    wait_until(Duration::from_secs(60), wanted).expect("the logs go on");
    drop(benchmark);
    let logged = ends(&directory).into_iter().filter(|end| (from..to).contains(end)).count() as f64;
    let told = run.count("/throughput/transactions_count") as f64;
    assert!((told / logged - 1.0).abs() < 0.01, "told {told}, logged {logged}");
    let lines = run.0["client_report"]["intervals"].as_array().expect("progress lines");
    assert!(lines.len() >= 2, "{lines:?}");
    assert!(lines.iter().all(|line| line["told_tps"].as_f64() > Some(0.0)), "{lines:?}");
}

#[test]
fn clients_that_come_after_the_begin_are_warned_of() {
    let Some(_turn) = Turn::take("clients_that_come_after_the_begin_are_warned_of") else { return };
    let server = Postgres::start(&[]).expect("a server");
    server.make_tables().expect("tables");
    let postmaster = server.postmaster_pid().expect("a pid").to_string();
    let words = ["attach", "--json", "--interval", "0.5", "--postgres", &postmaster, "-T", "600"];
    let attached = Running::start(&mut lockscope(&words)).expect("it attaches");
    let intervals = || attached.said().matches("attached: ").count();
    wait_until(Duration::from_secs(60), || intervals() > 0).expect("it is under way");
    let directory = TempDir::new().expect("a directory");
    let benchmark = pgbench(&server, &directory);
    let logged = || !ends(&directory).is_empty();
    wait_until(Duration::from_secs(60), logged).expect("it runs");
    let joined = intervals() + 2;
    wait_until(Duration::from_secs(60), || intervals() >= joined).expect("it goes on");
    attached.signal(Signal::SIGINT).expect("it is there");
    let done = attached.wait().expect("it ends");
    drop(benchmark);
    let run = Run::of(&done).expect("JSON");
    assert!(run.warnings().contains(&"late-clients"), "{:?}", run.warnings());
    assert!(run.count("/throughput/transactions_count") > 0);
}

#[test]
fn two_servers_have_an_account_each() {
    let Some(turn) = Turn::take("two_servers_have_an_account_each") else { return };
    let servers = [("port", "6432"), ("port", "6433")];
    let servers = servers.map(|port| Postgres::start(&[port]).expect("a server"));
    let mut words =
        vec!["-T".to_owned(), "600".to_owned(), "--interval".to_owned(), "0.5".to_owned()];
    for server in &servers {
        words
            .extend(["--postgres".to_owned(), server.postmaster_pid().expect("a pid").to_string()]);
    }
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let file = TempDir::new().expect("a directory");
    let file = file.path().join("run").display().to_string();
    // One command drives both.
    let script = "for n in 1 2 3; do psql -X -q -c 'select 1'; done; \
                  PGHOST=$OTHER PGPORT=6433 psql -X -q -c 'select 1' -c 'select 2'";
    let [first, second] = &servers;
    let other = second.client("psql");
    let host = other.get_envs().find(|(name, _)| *name == "PGHOST").and_then(|(_, host)| host);
    let done = turn.finish(|| {
        let options =
            [&["attach", "--quiet", "-o", &file][..], &words, &["--", "/bin/sh", "-c", script]];
        let mut command = lockscope(&options.concat());
        for (name, value) in first.client("psql").get_envs() {
            command.env(name, value.expect("set"));
        }
        command.env("OTHER", host.expect("set"));
        command
    });
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    let saved = fs::read_to_string(&file).expect("the run is saved");
    let run = Run(serde_json::from_str(&saved).expect("JSON"));
    let told: Vec<u64> = run
        .list("servers")
        .iter()
        .filter_map(|server| server["throughput"]["transactions_count"].as_u64())
        .collect();
    assert_eq!(told, [3, 2], "{}", run.0["servers"]);
    assert_eq!(run.count("/throughput/transactions_count"), 5);
    assert!(run.list("servers").iter().all(|server| server["ledger"].is_object()));
    assert!(done.stderr.contains("The servers") && done.stderr.contains("port 6433"));
}

#[test]
fn a_pid_namespace_is_a_target_and_both_pids_are_told() {
    let case = "a_pid_namespace_is_a_target_and_both_pids_are_told";
    let Some(turn) = Turn::take(case) else { return };
    let mut outside = Command::new("unshare");
    let outside = Running::start(outside.args(["--pid", "--fork", "--kill-child", "sleep", "600"]))
        .expect("unshare");
    let children = format!("/proc/{0}/task/{0}/children", outside.pid());
    let inside = || fs::read_to_string(&children).unwrap_or_default().trim().to_owned();
    wait_until(Duration::from_secs(60), || !inside().is_empty()).expect("it forks");
    let pid: u64 = inside().parse().expect("one child");
    let link = fs::read_link(format!("/proc/{pid}/ns/pid")).expect("a namespace");
    let number = link.display().to_string().replace(|c: char| !c.is_ascii_digit(), "");
    let run = attach(&turn, &["--container", &number, "-T", "1"]);
    let tasks = run.list("backends");
    assert_eq!(tasks.len(), 1, "{tasks:?}");
    assert_eq!((tasks[0]["pid"].as_u64(), tasks[0]["inner_pid"].as_u64()), (Some(pid), Some(1)));
    drop(outside);
}
