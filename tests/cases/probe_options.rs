//! `--probe` decides how a capability is attached; what cannot be is refused with the reason, and
//! whatever way is taken, the same things are counted.

use lockscope_tests::command::{Finished, finish, lockscope, skip};
use lockscope_tests::traced::{Run, Turn};
use serde_json::Value;

/// What doctor would say of these options.
fn doctor(probes: &[&str]) -> Finished {
    let options = probes.iter().flat_map(|probe| ["--probe", probe]);
    let words: Vec<&str> = ["doctor", "--json"].into_iter().chain(options).collect();
    finish(&mut lockscope(&words)).expect("it ends")
}

fn refused(words: &[&str], expected: &[&str]) {
    let done = finish(&mut lockscope(words)).expect("it ends");
    assert_eq!(done.code, Some(2), "{words:?}: {}", done.stderr);
    assert_eq!(done.stdout, "", "{words:?}");
    for text in expected {
        assert!(done.stderr.contains(text), "{words:?}: no `{text}` in: {}", done.stderr);
    }
}

#[test]
fn unknown_names_are_answered_with_the_nearest() {
    refused(&["run", "--probe", "nonsense=on"], &["nonsense", "lock-waits", "plug-events"]);
    refused(&["run", "--probe", "osk=on"], &["osk", "osq"]);
    refused(&["run", "--probe", "osq=kprobes"], &["kprobes", "kprobe"]);
    refused(&["run", "--probe", "osq"], &["CAPABILITY=METHOD"]);
}

#[test]
fn an_impossible_way_is_refused_with_the_reason() {
    let case = "an_impossible_way_is_refused_with_the_reason";
    let Some(_turn) = Turn::take(case) else { return };
    let choices = ["osq=fentry", "osq=kprobe"];
    let impossible = choices.into_iter().filter(|choice| doctor(&[choice]).code != Some(0));
    let impossible: Vec<&str> = impossible.collect();
    if impossible.is_empty() {
        return skip(case, "every way works here");
    }
    for choice in impossible {
        // No server is made for it: none answers there.
        let words = ["run", "--dsn", "host=/no/such/place", "--probe", choice];
        refused(&words, &[choice, "cannot work here: "]);
    }
}

#[test]
fn nothing_to_see_is_refused() {
    let case = "nothing_to_see_is_refused";
    let Some(_turn) = Turn::take(case) else { return };
    let words = ["run", "--dsn", "host=/no/such/place", "--probe", "lock-waits=off"];
    let plan = doctor(&["lock-waits=off"]);
    if plan.code == Some(0) {
        return skip(case, "functions show locks here too");
    }
    refused(&words, &["cannot trace", "lock-waits=off", "--no-trace"]);
}

/// Every way to the same tracepoints counts the same.
#[test]
fn every_kind_of_tracepoint_counts() {
    let case = "every_kind_of_tracepoint_counts";
    let Some(turn) = Turn::take(case) else { return };
    let mut judged = 0;
    for method in ["tp_btf", "raw_tracepoint", "tracepoint"] {
        let works = |name: &&str| doctor(&[&format!("{name}={method}")]).code == Some(0);
        let names: Vec<&str> =
            ["lock-waits", "plug-events", "tasks", "requests"].into_iter().filter(works).collect();
        if !names.contains(&"lock-waits") {
            continue;
        }
        judged += 1;
        let run = traced(&turn, &names, method);
        for name in &names {
            assert_eq!(run.method(name), method, "{name}");
        }
        everything_counts(&run, &names, method);
    }
    if judged == 0 {
        skip(case, "this kernel has no contention tracepoints");
    }
}

fn traced(turn: &Turn, names: &[&str], method: &str) -> Run {
    let choices: Vec<String> = names.iter().map(|name| format!("{name}={method}")).collect();
    let options = choices.iter().flat_map(|choice| ["--probe", choice]);
    let words = ["-c", "2", "-t", "100", "--no-control", "--quiet", "--json"];
    let done = turn.run(&words.into_iter().chain(options).collect::<Vec<_>>());
    assert_eq!(done.code, Some(0), "{method}: {}", done.stderr);
    Run::of(&done).expect("JSON")
}

fn everything_counts(run: &Run, names: &[&str], method: &str) {
    let sides = run.0["ledger"].as_object().expect("sides");
    let counts = sides.values().filter_map(|side| side["wait_counts"].as_object());
    let waits: u64 = counts.flat_map(|counts| counts.values()).filter_map(Value::as_u64).sum();
    assert!(waits > 0, "{method}: {}", run.0["ledger"]);
    if names.contains(&"requests") {
        assert_eq!(run.backends_transactions(), 200, "{method}");
    }
    if names.contains(&"plug-events") {
        let owners = run.0["plug"]["by_owner"].as_object().expect("owners");
        let unplugs: u64 = owners.values().filter_map(|owner| owner["unplug_count"].as_u64()).sum();
        assert!(unplugs > 0, "{method}: {owners:?}");
    }
}
