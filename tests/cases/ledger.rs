//! The time ledger: every task's states add up to its wall time, and agree with the kernel's own
//! count of the time on a CPU and of waiting for one.

use lockscope_tests::traced::{Run, Turn};
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

#[test]
fn time_on_a_cpu_and_waiting_for_one_agree_with_the_kernel() {
    let case = "time_on_a_cpu_and_waiting_for_one_agree_with_the_kernel";
    let Some(turn) = Turn::take(case) else { return };
    let words = ["--workload", "select-prepared", "-c", "4", "-T", "3", "--no-control", "--json"];
    let run = traced(&turn, &words);
    let mut compared = 0;
    for task in run.list("backends") {
        let Some(cpu) = task["schedstat_cpu_ns"].as_u64() else { continue };
        let runq = task["schedstat_runq_ns"].as_u64().expect("both");
        let wall = task["wall_ns"].as_u64().expect("a wall time");
        let on_cpu = state(task, |name| {
            matches!(name, "cpu" | "between_cpu" | "irq") || name.starts_with("spin.")
        });
        // A running task's count is up to a tick old, and is read before or after the gate moves.
        let slack = wall / 50 + 10_000_000;
        assert!(on_cpu.abs_diff(cpu) <= slack, "on a CPU {on_cpu}, by the kernel {cpu}: {task}");
        let waiting = state(task, |name| name.starts_with("runq."));
        assert!(waiting.abs_diff(runq) <= slack, "waiting {waiting}, by the kernel {runq}: {task}");
        compared += 1;
    }
    assert!(compared >= 6, "{compared} of {} tasks", run.list("backends").len());
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
