//! The time ledger: every task's states add up to its wall time, and agree with the kernel's own
//! count of the time on a CPU and of waiting for one.

use std::process::Command;

use lockscope_tests::command::{Running, binary};
use lockscope_tests::stress::allowed_cpus;
use lockscope_tests::traced::{Run, Turn, account_sum};
use serde_json::Value;

/// Slices with the programs off in between, tasks that sleep through all of it, and busy ones.
#[test]
fn states_add_up_to_the_wall_time_of_every_task() {
    let Some(turn) = Turn::take("states_add_up_to_the_wall_time_of_every_task") else { return };
    let words = ["--workload", "tpcb-like", "-c", "4", "-T", "3.3", "--warmup", "0.3", "--json"];
    let run = traced(&turn, &words);
    assert_eq!(run.0["depth"], "ledger");
    for task in run.list("backends") {
        let (states, wall) = (states_sum(task), task["wall_ns"].as_u64().expect("a wall time"));
        assert!(states.abs_diff(wall) * 100 <= wall, "{states} of {wall}: {task}");
    }
    for side in ["server", "background", "client"] {
        let balance = run.0["ledger"][side]["balance"].as_f64();
        assert!(balance.is_some_and(|balance| (balance - 1.0).abs() < 0.01), "{side} {balance:?}");
    }
    let client = &run.0["ledger"]["client"]["states_ns"];
    assert!(client["cpu"].as_u64() > Some(0) && client["wait.none"].as_u64() > Some(0), "{client}");
    // Sleeping processes that no event told of were looked at.
    let walwriter = run.list("backends").into_iter().find(|task| task["role"] == "checkpointer");
    let states = &walwriter.expect("a checkpointer")["states_ns"];
    assert!(states["wait.Activity"].as_u64() > Some(0), "{states}");
}

/// More threads that compute than CPUs, so that each has a CPU for some of the time and waits for one
/// for the rest. (Of tasks that sleep and wake often the kernel's own count is coarser: it takes a
/// task to run from the moment that it is queued on a CPU that reschedules at once.)
#[test]
fn time_on_a_cpu_and_waiting_for_one_agree_with_the_kernel() {
    let case = "time_on_a_cpu_and_waiting_for_one_agree_with_the_kernel";
    let Some(turn) = Turn::take(case) else { return };
    let mut hog = Command::new(binary("", "stress-cpu"));
    let threads = (allowed_cpus().expect("CPUs").len() + 1).to_string();
    let hog = hog.args(["--seconds", "300", "--threads", &threads, "--path", "/dev/shm"]);
    let hog = Running::start(hog).expect("started");
    let words = ["--workload", "select-prepared", "-T", "3", "--no-control", "--json"];
    let run = traced(&turn, &[&words[..], &["--also-pid", &hog.pid().to_string()]].concat());
    let mut compared = 0;
    for task in run.list("backends").into_iter().filter(|task| task["pid"] == hog.pid()) {
        let (Some(cpu), Some(runq)) =
            (task["schedstat_cpu_ns"].as_u64(), task["schedstat_runq_ns"].as_u64())
        else {
            continue;
        };
        let wall = task["wall_ns"].as_u64().expect("a wall time");
        if cpu < wall / 10 {
            continue; // The thread that waits for the others.
        }
        let on_cpu = state(task, |name| matches!(name, "cpu" | "irq") || name.starts_with("spin."));
        let waiting = state(task, |name| name.starts_with("runq."));
        // A running task's count is up to a tick old, and is read a little before and after the
        // gate moves.
        let slack = wall / 20 + 20_000_000;
        assert!(on_cpu.abs_diff(cpu) <= slack, "on a CPU {on_cpu}, by the kernel {cpu}: {task}");
        assert!(waiting.abs_diff(runq) <= slack, "waiting {waiting}, by the kernel {runq}: {task}");
        compared += 1;
    }
    assert!(compared >= 2, "{compared} tasks compared");
}

/// Transactions from their begin to their reply, on the server's side: as many as the load's, their
/// states adding up to their latency, the slowest apart.
#[test]
fn transactions_are_told_and_the_slowest_have_a_ledger_of_their_own() {
    let case = "transactions_are_told_and_the_slowest_have_a_ledger_of_their_own";
    let Some(turn) = Turn::take(case) else { return };
    let words = ["--workload", "tpcb-like", "-c", "4", "-T", "4", "--no-control", "--json"];
    let run = traced(&turn, &words);
    let server = &run.0["ledger"]["server"];
    let told = server["transactions_count"].as_u64().expect("transactions");
    let load = run.count("/throughput/traced_transactions_count");
    assert!(load >= 100 && load.abs_diff(told) <= 8, "{load} and {told}");
    let latency = server["latency_ns"].as_f64().expect("a latency");
    let account = &server["per_transaction_ns"];
    let rest = account["client_and_transport"].as_f64().expect("a rest");
    near(account_sum(account) - rest, latency, "the mean");
    let clients = run.count("/latency_ns/mean") as f64;
    assert!(latency < clients, "{latency} of {clients}");
    assert!(account["idle_in_transaction"].as_f64() > Some(0.0), "seven requests: {account}");
    let bands = server["by_latency"].as_array().expect("bands");
    let slowest = bands.last().expect("the slowest");
    assert_eq!((&bands[0]["name"], &slowest["name"]), (&"p50".into(), &"slowest".into()));
    assert_eq!(slowest["percentile_to"], 100.0);
    for band in bands {
        near(account_sum(&band["per_transaction_ns"]), number(band, "latency_ns"), "a band");
        let (from, to) = (number(band, "latency_from_ns"), number(band, "latency_to_ns"));
        let mean = number(band, "latency_ns");
        assert!(from <= mean && mean < to, "{band}");
    }
    assert!(number(slowest, "latency_ns") > number(&bands[0], "latency_ns"));
    let between = &server["states_ns"];
    assert!(between["idle"].is_u64() && between["between_cpu"].is_u64(), "{between}");
}

/// Means are rounded to a millionth or so when they are divided.
fn near(left: f64, right: f64, what: &str) {
    assert!((left - right).abs() <= 1e-6 * right + 1.0, "{what}: {left} and {right}");
}

fn number(value: &Value, name: &str) -> f64 {
    value[name].as_f64().unwrap_or_else(|| panic!("{name}: {value}"))
}

#[test]
fn depth_locks_splits_lock_time_only() {
    let Some(turn) = Turn::take("depth_locks_splits_lock_time_only") else { return };
    let words = ["--workload", "select-prepared", "-T", "1", "--no-control", "--depth", "locks"];
    let run = traced(&turn, &[&words[..], &["--json"]].concat());
    assert_eq!(run.0["depth"], "locks");
    assert_eq!(run.method("scheduling"), "none");
    let server = &run.0["ledger"]["server"];
    assert!(server["per_transaction_ns"]["not_split"].as_f64() > Some(0.0), "{server}");
    assert!(server.get("balance").is_none() && server.get("states_ns").is_none(), "{server}");
    let text = turn.run(&words);
    assert!(text.stdout.contains("not yet split"), "{}", text.stdout);
}

/// Whatever way the hooks are attached, the sums hold.
#[test]
fn every_method_keeps_the_balance() {
    let Some(turn) = Turn::take("every_method_keeps_the_balance") else { return };
    for method in ["tp_btf", "raw_tracepoint", "tracepoint"] {
        let choice = format!("scheduling={method}");
        let words = ["--workload", "select-prepared", "-c", "2", "-T", "1", "--warmup", "0"];
        let run = traced(&turn, &[&words[..], &["--probe", &choice, "--json"]].concat());
        assert_eq!(run.method("scheduling"), method);
        let balance = run.0["ledger"]["server"]["balance"].as_f64();
        assert!(
            balance.is_some_and(|balance| (balance - 1.0).abs() < 0.01),
            "{method} {balance:?}"
        );
        let states = &run.0["ledger"]["server"]["states_ns"];
        assert!(states["cpu"].as_u64() > Some(0), "{method}: {states}");
    }
}

fn traced(turn: &Turn, words: &[&str]) -> Run {
    let done = turn.run(words);
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    Run::of(&done).expect("JSON")
}

fn states_sum(task: &Value) -> u64 {
    state(task, |_| true)
}

/// The time in the states that are wanted.
fn state(task: &Value, wanted: impl Fn(&str) -> bool) -> u64 {
    let states = task["states_ns"].as_object().into_iter().flatten();
    states.filter(|(name, _)| wanted(name)).filter_map(|(_, ns)| ns.as_u64()).sum()
}
