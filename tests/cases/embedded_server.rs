//! The throw-away server serves the run and is gone afterwards, however the run ends.

use lockscope_tests::command::{Running, finish, lockscope, skip, wait_until};
use lockscope_tests::postgres::processes_in;
use lockscope_tests::traced::Turn;
use lockscope_tests::traces::{bpf_programs, nothing_left};
use nix::sys::signal::Signal;
use serde_json::Value;
use std::path::Path;
use std::time::Duration;
use tempfile::TempDir;

/// A directory that the server's unprivileged user can enter.
fn open_dir() -> TempDir {
    use std::os::unix::fs::PermissionsExt as _;
    let dir = tempfile::tempdir().expect("a directory");
    std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o755)).expect("opened");
    dir
}

fn words<'a>(dir: &'a Path, seconds: &'a str) -> Vec<&'a str> {
    let dir = dir.to_str().expect("a plain path");
    let load = ["--workload", "select-prepared", "-c", "2", "-T", seconds, "--warmup", "0"];
    [&load[..], &["--json", "--data-dir", dir]].concat()
}

/// Starts a long run and waits until it measures.
fn measuring(turn: &Turn, dir: &Path) -> Running {
    let running = turn.start(&words(dir, "100")).expect("started");
    wait_until(Duration::from_secs(60), || has_backends(dir)).expect("clients get connected");
    running
}

/// Both clients' backends are there.
fn has_backends(dir: &Path) -> bool {
    let postmasters = processes_in(dir);
    let children = |pid: &u32| std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
    let children: Vec<String> = postmasters.iter().filter_map(|pid| children(pid).ok()).collect();
    let is_backend = |pid: &&str| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line).contains("[local]")
    };
    children.iter().flat_map(|pids| pids.split_whitespace()).filter(is_backend).count() >= 2
}

#[test]
fn a_finished_run_leaves_nothing() {
    let Some(turn) = Turn::take("a_finished_run_leaves_nothing") else { return };
    let (dir, before) = (open_dir(), bpf_programs().expect("bpftool"));
    let done = turn.run(&words(dir.path(), "2"));
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    let run: Value = serde_json::from_str(&done.stdout).expect("JSON");
    assert!(run["throughput"]["transactions_count"].as_u64() > Some(100), "{}", run["throughput"]);
    nothing_left(dir.path(), &before).expect("clean");
}

#[test]
fn an_interrupted_run_reports_what_it_measured_and_leaves_nothing() {
    let case = "an_interrupted_run_reports_what_it_measured_and_leaves_nothing";
    let Some(turn) = Turn::take(case) else { return };
    for signal in [Signal::SIGINT, Signal::SIGTERM] {
        let (dir, before) = (open_dir(), bpf_programs().expect("bpftool"));
        let running = measuring(&turn, dir.path());
        std::thread::sleep(Duration::from_secs(1));
        running.signal(signal).expect("sent");
        let done = running.wait().expect("it ends");
        let run: Value = serde_json::from_str(&done.stdout)
            .unwrap_or_else(|error| panic!("{signal}: {error}: {}", done.stderr));
        assert_eq!(run["interrupted"], true, "{signal}");
        assert!(
            run["throughput"]["transactions_count"].as_u64() > Some(0),
            "{}",
            run["throughput"]
        );
        nothing_left(dir.path(), &before).expect("clean");
    }
}

#[test]
fn what_a_killed_run_left_is_removed_by_the_next() {
    let Some(turn) = Turn::take("what_a_killed_run_left_is_removed_by_the_next") else { return };
    let (dir, before) = (open_dir(), bpf_programs().expect("bpftool"));
    let running = measuring(&turn, dir.path());
    running.signal(Signal::SIGKILL).expect("sent");
    running.wait().expect("it ends");
    assert!(!processes_in(dir.path()).is_empty(), "the killed run's server should still be there");
    let done = turn.run(&words(dir.path(), "1"));
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    nothing_left(dir.path(), &before).expect("clean");
}

#[test]
fn two_runs_at_the_same_time_do_not_touch_each_other() {
    let (first_dir, second_dir) = (open_dir(), open_dir());
    let before = bpf_programs().expect("bpftool");
    let untraced =
        |dir, seconds| lockscope(&[&["run", "--no-trace"], &words(dir, seconds)[..]].concat());
    let first = Running::start(&mut untraced(first_dir.path(), "4")).expect("started");
    let second = finish(&mut untraced(second_dir.path(), "1")).expect("it ends");
    let first = first.wait().expect("it ends");
    assert_eq!(
        (first.code, second.code),
        (Some(0), Some(0)),
        "{}\n{}",
        first.stderr,
        second.stderr
    );
    for dir in [&first_dir, &second_dir] {
        nothing_left(dir.path(), &before).expect("clean");
    }
}

#[test]
fn a_full_disk_under_the_server_is_called_so() {
    use nix::mount::{MsFlags, mount, umount};
    let dir = open_dir();
    let options = Some("size=70m,mode=0755");
    if mount(Some("tmpfs"), dir.path(), Some("tmpfs"), MsFlags::empty(), options).is_err() {
        return skip("a_full_disk_under_the_server_is_called_so", "a tmpfs cannot be mounted here");
    }
    let path = dir.path().to_str().expect("a plain path");
    let words = ["run", "--no-trace", "-q", "-c", "4", "-T", "100", "--data-dir", path];
    let done = finish(&mut lockscope(&words));
    umount(dir.path()).expect("unmounted");
    let done = done.expect("it ends");
    assert!(matches!(done.code, Some(2 | 3)), "{:?}: {}", done.code, done.stderr);
    assert!(done.stderr.contains("No space left on device"), "{}", done.stderr);
    assert!(done.stderr.contains(path), "{}", done.stderr);
}

#[test]
fn a_directory_that_the_server_s_user_may_not_enter_is_named() {
    if !nix::unistd::geteuid().is_root() {
        let case = "a_directory_that_the_server_s_user_may_not_enter_is_named";
        return skip(case, "only root runs the server as another user");
    }
    use std::os::unix::fs::PermissionsExt as _;
    let dir = tempfile::tempdir().expect("a directory");
    let private = std::fs::Permissions::from_mode(0o700);
    std::fs::set_permissions(dir.path(), private).expect("closed");
    let done = finish(lockscope(&["run", "--no-trace", "-S"]).env("TMPDIR", dir.path()));
    let done = done.expect("it ends");
    assert_eq!(done.code, Some(2), "{}", done.stderr);
    let path = dir.path().to_str().expect("a plain path");
    for text in [path, "may not enter", "mode 700", "--data-dir", "postgres"] {
        assert!(done.stderr.contains(text), "no `{text}`: {}", done.stderr);
    }
}
