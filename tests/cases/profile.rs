//! The profile, the counters, the sleeps and the verdict: what a task is known to do is found.

use std::io::Write as _;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use lockscope_tests::command::{binary, finish, lockscope};
use lockscope_tests::traced::{BRIEF, Run, Turn};
use serde_json::Value;

fn attached(turn: &Turn, child: &Child, words: &[&str]) -> Run {
    let pid = child.id().to_string();
    let common = ["attach", "--pid", &pid, "--json", "--quiet"];
    let done = turn.finish(|| lockscope(&[&common, words].concat()));
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    Run::of(&done).expect("JSON")
}

fn end(mut child: Child) {
    child.kill().expect("killed");
    child.wait().expect("waited for");
}

/// Symbols of a stack, innermost first.
fn symbols<'a>(part: &'a Value, stack: &Value) -> Vec<&'a str> {
    let numbers = stack["frames"].as_array().expect("frames").iter();
    let numbers = numbers.map(|number| number.as_u64().expect("a number") as usize);
    numbers.map(|number| part["frames"][number]["symbol"].as_str().expect("a name")).collect()
}

/// Samples of some sides in whose stacks a function of an object file occurs, and all of the sides.
/// Programs that keep no frame pointers have no more than their innermost function there.
fn samples(run: &Run, sides: &[&str], object: &str) -> (u64, u64) {
    let profile = &run.0["profile"];
    let stacks = profile["stacks"].as_array().expect("a profile").iter();
    let (mut with, mut all) = (0, 0);
    for stack in stacks.filter(|stack| sides.iter().any(|side| stack["side"] == **side)) {
        let count = stack["samples_count"].as_u64().expect("a count");
        all += count;
        let frames = stack["frames"].as_array().expect("frames").iter();
        let frame = |n: &Value| &profile["frames"][n.as_u64().expect("a number") as usize];
        if frames.into_iter().any(|n| frame(n)["object"] == object) {
            with += count;
        }
    }
    (with, all)
}

/// A hog is on a CPU nearly always, in its own code; its CPU time is what the kernel charges it.
#[test]
fn a_hog_is_named_with_its_function_and_its_cpu_time() {
    let Some(turn) = Turn::take("a_hog_is_named_with_its_function_and_its_cpu_time") else {
        return;
    };
    let mut hog = Command::new(binary("", "stress-cpu"));
    let hog = hog.args(["--seconds", "600", "--threads", "1"]).stdout(Stdio::null());
    let hog = hog.spawn().expect("it starts");
    let run = attached(&turn, &hog, &["-T", "3"]);
    end(hog);
    let (in_hog, all) = samples(&run, &["other"], "stress-cpu");
    assert!(all > 50 && in_hog * 10 > all * 9, "{in_hog} of {all}: {}", run.0["profile"]);
    let frames = run.0["profile"]["frames"].as_array().expect("frames").iter();
    let mut names = frames.filter_map(|frame| frame["symbol"].as_str());
    assert!(names.any(|name| name.contains("stress_cpu::main")), "{}", run.0["profile"]);
    let counters = &run.0["counters"]["sides"]["other"];
    let clock_ns = counters["task_clock_ns"].as_u64().expect("a clock");
    let tasks = run.list("backends").into_iter();
    let charged_ns: u64 = tasks.filter_map(|task| task["schedstat_cpu_ns"].as_u64()).sum();
    let off = clock_ns.abs_diff(charged_ns) as f64 / charged_ns as f64;
    assert!(off < 0.05, "task-clock {clock_ns} ns, schedstat {charged_ns} ns");
    // What is not offered says why; nothing is left out in silence.
    let counted = counters["events"].as_object().map_or(0, serde_json::Map::len);
    let missing = run.0["counters"]["missing"].as_array().expect("a list");
    assert_eq!(counted + missing.len(), 10, "{}", run.0["counters"]);
    assert!(
        missing.iter().all(|event| event["reason"].as_str().is_some_and(|why| !why.is_empty()))
    );
    let verdict = run.0["verdict"]["kind"].as_str().expect("a verdict");
    assert!(["cpu", "preemption"].contains(&verdict), "{}", run.0["verdict"]);
}

/// A reader of a pipe sleeps there until its writer wakes it.
#[test]
fn a_sleep_in_a_pipe_is_found_with_its_waker() {
    let Some(turn) = Turn::take("a_sleep_in_a_pipe_is_found_with_its_waker") else { return };
    let mut reader = Command::new("cat");
    let reader = reader.stdin(Stdio::piped()).stdout(Stdio::null());
    let mut reader = reader.spawn().expect("cat");
    let mut pipe = reader.stdin.take().expect("a pipe");
    let stop = AtomicBool::new(false);
    let run = thread::scope(|scope| {
        let writer = thread::Builder::new().name("pipe-writer".to_owned());
        let write = || {
            while !stop.load(Ordering::Relaxed) {
                pipe.write_all(b"x").expect("written");
                thread::sleep(Duration::from_millis(5));
            }
        };
        writer.spawn_scoped(scope, write).expect("a thread");
        let run = attached(&turn, &reader, &["-T", "4"]);
        stop.store(true, Ordering::Relaxed);
        run
    });
    end(reader);
    let off_cpu = &run.0["off_cpu"];
    let stacks = off_cpu["sides"]["other"]["stacks"].as_array().expect("sleeps");
    let in_pipe =
        |stack: &&Value| symbols(off_cpu, stack).iter().any(|symbol| symbol.contains("pipe_read"));
    let share: f64 =
        stacks.iter().filter(in_pipe).filter_map(|stack| stack["share"].as_f64()).sum();
    assert!(share > 0.7, "{share}: {stacks:?}");
    // A sleep that was followed from its begin has the reader's own code in its stack, too.
    let whole =
        stacks.iter().filter(in_pipe).find(|stack| stack["sleeps_count"].as_u64() > Some(50));
    let whole = whole.unwrap_or_else(|| panic!("{stacks:?}"));
    let waker = &whole["wakers"][0];
    assert_eq!(waker["command"], "pipe-writer", "{whole}");
    assert!(symbols(off_cpu, waker).iter().any(|symbol| symbol.contains("pipe_write")), "{waker}");
}

/// Server and client are told apart; short-lived backends keep their names.
#[test]
fn both_sides_of_a_load_have_their_functions() {
    let Some(turn) = Turn::take("both_sides_of_a_load_have_their_functions") else { return };
    let directory = tempfile::tempdir().expect("a directory");
    let saved = directory.path().join("a.lockscope");
    let saved = saved.to_str().expect("a path");
    // A new connection, and so a new backend, for each transaction.
    let done = turn.run(
        &[&BRIEF[2..], &["--workload", "select-prepared", "-C", "-c", "2", "--json", "-o", saved]]
            .concat(),
    );
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    let run = Run::of(&done).expect("JSON");
    let sides = ["server", "background"];
    let (in_postgres, all) = samples(&run, &sides, "postgres");
    assert!(in_postgres > 0, "{in_postgres} of {all}");
    let (in_load, all) = samples(&run, &["client"], "lockscope");
    assert!(in_load > 0 && samples(&run, &["client"], "postgres").0 == 0, "{in_load} of {all}");
    let gone = run.0["profile"]["frames"].as_array().expect("frames").iter();
    let gone = gone.filter(|frame| frame["unknown"] == "process_gone").count();
    let postgres = run.0["profile"]["stacks"].as_array().expect("stacks").iter();
    let lost: u64 = postgres
        .filter(|stack| sides.iter().any(|side| stack["side"] == *side) && gone > 0)
        .filter(|stack| {
            let frames = stack["frames"].as_array().expect("frames").iter();
            let frame = |n: &Value| &run.0["profile"]["frames"][n.as_u64().expect("n") as usize];
            frames.into_iter().any(|n| frame(n)["unknown"] == "process_gone")
        })
        .filter_map(|stack| stack["samples_count"].as_u64())
        .sum();
    // Almost all: some may leave, on a busy machine, before anybody has looked at one of them.
    assert!(
        10 * lost <= in_postgres,
        "backends that left keep their names: {lost} of {in_postgres}"
    );

    let folded = finish(&mut lockscope(&["report", "--format", "folded", saved])).expect("it ends");
    let counts = folded.stdout.lines().filter_map(|line| line.rsplit_once(' '));
    let counts: Vec<u64> = counts.map(|(_, count)| count.parse().expect("a count")).collect();
    assert_eq!(counts.iter().sum::<u64>(), run.count("/profile/samples_count"));
    assert!(folded.stdout.contains(";postgres;"), "{}", folded.stdout);
    let graph = finish(&mut lockscope(&["report", "--format", "flamegraph", saved])).expect("ends");
    assert!(graph.stdout.contains("<svg") && graph.stdout.contains("postgres"));
}

/// What was not wanted is absent, not empty.
#[test]
fn without_profile_and_counters_there_are_none() {
    let Some(turn) = Turn::take("without_profile_and_counters_there_are_none") else { return };
    let done =
        turn.run(&[&BRIEF[..], &["-c", "1", "--no-profile", "--no-counters", "--json"]].concat());
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    let run = Run::of(&done).expect("JSON");
    for part in ["profile", "off_cpu", "counters"] {
        assert!(run.0.get(part).is_none(), "{part}");
    }
    assert!(run.0["verdict"]["kind"].is_string(), "the ledger alone has one too");
}
