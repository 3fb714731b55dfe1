//! A process that replaces its program goes on being traced, also when another than its first thread does
//! it and is given the first one's tid.

use std::process::{Command, Stdio};
use std::time::Instant;

use lockscope_tests::command::binary;
use lockscope_tests::traced::{Run, Turn};
use nix::sys::signal::Signal;

#[test]
fn a_program_that_a_thread_has_started_is_still_its_process() {
    let case = "a_program_that_a_thread_has_started_is_still_its_process";
    let Some(turn) = Turn::take(case) else { return };
    // Four programs one after the other, and then children that are killed.
    let words = ["--by-thread", "--lives", "3", "--threads", "2", "--seconds", "2", "--wait"];
    let mut stressor = Command::new(binary("", "stress-mortal"));
    let mut stressor = stressor
        .args(words)
        .args(["--path", "/dev/shm"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .expect("started");
    let pid = stressor.id();
    let words = ["--workload", "select-prepared", "-c", "1", "-T", "100", "--warmup", "0"];
    let also = ["--no-control", "--json", "--also-pid", &pid.to_string()];
    let run = turn.start(&[&words[..], &also].concat()).expect("traced");
    let began = Instant::now();
    drop(stressor.stdin.take());
    let status = stressor.wait().expect("it ends");
    let lived_ns = u64::try_from(began.elapsed().as_nanos()).expect("a short life");
    run.signal(Signal::SIGINT).expect("sent");
    let done = run.wait().expect("it ends");
    assert!(status.success() && done.code == Some(0), "{status} {}", done.stderr);

    let run = Run::of(&done).expect("JSON");
    let tasks = run.list("backends");
    let first = |task: &&&serde_json::Value| task["tid"] == pid && task["pid"] == pid;
    let traced_ns: u64 =
        tasks.iter().filter(first).filter_map(|task| task["wall_ns"].as_u64()).sum();
    // The first program is a seventh of it.
    assert!(traced_ns > lived_ns / 2, "{traced_ns} of {lived_ns} ns were traced: {tasks:?}");
    assert_eq!(run.loss("tid_reused"), 0);
}
