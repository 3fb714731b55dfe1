//! Rounds measure both sides in turns, keep every run, and compare what there is when they end.

use std::path::Path;
use std::time::{Duration, Instant};

use lockscope_tests::command::{Running, finish, lockscope};
use nix::sys::signal::Signal;

fn saved(directory: &Path) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(directory) else { return Vec::new() };
    let mut names: Vec<String> = entries
        .flatten()
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .filter(|name| !name.starts_with('.'))
        .collect();
    names.sort();
    names
}

#[test]
fn both_sides_are_measured_in_turns_and_compared() {
    let directory = tempfile::tempdir().expect("a directory");
    let runs = directory.path().join("runs");
    let done = finish(&mut lockscope(&[
        "ab",
        "--a",
        "client=1",
        "--b",
        "client=2",
        "--rounds",
        "2",
        "--control-rounds",
        "1",
        "--cool-down",
        "0",
        "--seed",
        "1",
        "--setup-b",
        "echo set up",
        "-o",
        runs.to_str().expect("a plain path"),
        "--json",
        "--",
        "-S",
        "-T",
        "1",
        "--warmup",
        "0",
        "--interval",
        "0.2",
        "--no-trace",
        "--quiet",
    ]))
    .expect("it ends");
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    let expected = ["a1", "a2", "b1", "b2", "control-a1", "control-b1"];
    assert_eq!(saved(&runs), expected.map(|name| format!("{name}.lockscope")));
    assert_eq!(done.stderr.matches("set up").count(), 3, "{}", done.stderr);
    let comparison: serde_json::Value = serde_json::from_str(&done.stdout).expect("JSON");
    assert_eq!(comparison["unit"], "pair");
    assert_eq!(comparison["base"]["runs_count"], 2);
    let differs = |name: &str| {
        let differences = comparison["environment"].as_array().expect("an array");
        differences.iter().any(|difference| difference["name"] == name)
    };
    assert!(differs("workload.clients"), "{}", comparison["environment"]);
    let findings = comparison["findings"].to_string();
    assert!(findings.contains("seed 1") && findings.contains("Without tracing"), "{findings}");
}

#[test]
fn an_interrupt_keeps_and_compares_the_finished_rounds() {
    let directory = tempfile::tempdir().expect("a directory");
    let runs = directory.path().join("runs");
    let running = Running::start(&mut lockscope(&[
        "ab",
        "--b",
        "client=2",
        "--rounds",
        "50",
        "--control-rounds",
        "0",
        "--cool-down",
        "0",
        "-o",
        runs.to_str().expect("a plain path"),
        "--",
        "-S",
        "-T",
        "1",
        "--warmup",
        "0",
        "--interval",
        "0.2",
        "--no-trace",
        "--quiet",
    ]))
    .expect("it starts");
    let until = Instant::now() + Duration::from_secs(100);
    while saved(&runs).len() < 2 {
        assert!(Instant::now() < until, "only {:?}", saved(&runs));
        std::thread::sleep(Duration::from_millis(50));
    }
    running.signal(Signal::SIGINT).expect("it is there");
    let done = running.wait().expect("it ends");
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    assert!(done.stdout.contains("base and new compared"), "{}", done.stdout);
    assert!(done.stdout.contains("a1.lockscope") && done.stdout.contains("b1.lockscope"));
}
