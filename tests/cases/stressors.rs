//! Every stressor does its work on this machine and says in JSON who did how much.

use lockscope_tests::command::{binary, finish, skip};
use serde_json::Value;
use std::process::Command;

const THREADS: usize = 2;

fn run(name: &str, path: &str) -> Value {
    let program = binary("", &format!("stress-{name}"));
    let arguments = ["--seconds", "0.2", "--threads", &THREADS.to_string(), "--path", path];
    let done = finish(Command::new(program).args(arguments)).expect("the stressor ends");
    assert_eq!(done.code, Some(0), "{name}: {}", done.stderr);
    serde_json::from_str(&done.stdout).expect("one line of JSON")
}

fn works(name: &str, path: &str) {
    let line = run(name, path);
    assert_eq!(line["stressor"], name);
    assert!(line["elapsed_ns"].as_u64() >= Some(200_000_000), "{line}");
    let tids = line["tids"].as_array().expect("tids");
    assert_eq!(tids.len(), THREADS, "{line}");
    let operations: Vec<u64> = line["operations"]
        .as_array()
        .expect("operations")
        .iter()
        .filter_map(Value::as_u64)
        .collect();
    assert_eq!(operations.len(), THREADS, "{line}");
    assert!(operations.iter().all(|&count| count > 0), "{line}");
    assert_eq!(line["operations_count"], operations.iter().sum::<u64>());
}

#[test]
fn those_that_need_nothing_work() {
    let names = ["mutex", "rwsem", "mmap", "qspinlock", "yield", "wake", "cpu", "rwlock"];
    for name in names.into_iter().chain(["futex", "cache", "sleep"]) {
        works(name, "/dev/shm");
    }
}

#[test]
fn the_run_queue_stressor_works_as_root() {
    if nix::unistd::geteuid().is_root() {
        works("rq", "/dev/shm");
    } else {
        skip("the_run_queue_stressor_works_as_root", "lowering nice values needs root");
    }
}

#[test]
fn every_waiter_of_a_held_lock_waits_once_a_round() {
    let case = "every_waiter_of_a_held_lock_waits_once_a_round";
    if !nix::unistd::geteuid().is_root() {
        return skip(case, "userfaultfd needs root");
    }
    let line = run("hold", "/dev/shm");
    assert_eq!(line["stressor"], "hold-rwsem");
    let rounds = line["rounds_count"].as_u64().expect("rounds");
    assert!(rounds > 0, "{line}");
    assert_eq!(line["operations_count"], rounds * THREADS as u64);
    // Each round is held for 50 ms at least.
    assert!(line["held_ns"].as_u64() >= Some(rounds * 50_000_000), "{line}");
}

#[test]
fn a_directory_is_listed_slowly_and_one_that_is_none_is_named() {
    let case = "a_directory_is_listed_slowly_and_one_that_is_none_is_named";
    if !nix::unistd::geteuid().is_root() {
        return skip(case, "userfaultfd needs root");
    }
    let list = |path: &str| {
        let words = ["--seconds", "0.2", "--hold-ms", "5", "--pause-ms", "0", "--path", path];
        finish(Command::new(binary("", "stress-list")).args(words)).expect("it ends")
    };
    let done = list("/dev/shm");
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    let line: Value = serde_json::from_str(&done.stdout).expect("one line of JSON");
    // Each is held for 5 ms at least, so there cannot be more.
    let count = line["operations_count"].as_u64().expect("a count");
    assert!((1..=41).contains(&count), "{line}");
    let done = list("/dev/null");
    assert_eq!(done.code, Some(1), "{}", done.stdout);
    assert!(done.stderr.contains("/dev/null"), "{}", done.stderr);
}

#[test]
fn the_plug_stressor_works_on_a_file_of_a_disk() {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
    let file = dir.path().join("file");
    works("plug", file.to_str().expect("a plain path"));
}

#[test]
fn an_error_is_named() {
    let program = binary("", "stress-rwsem");
    let done = finish(Command::new(program).args(["--path", "/no/such/place"])).expect("it ends");
    assert_eq!(done.code, Some(1));
    assert!(done.stderr.contains("/no/such/place"), "{}", done.stderr);
}
