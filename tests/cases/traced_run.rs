//! A traced run against the throw-away server obeys the schema, adds up, and reads the same when it
//! is shown again.

use lockscope_tests::command::{finish, lockscope};
use lockscope_tests::traced::{Run, Turn};
use serde_json::Value;
use std::path::Path;

const CLIENTS: u64 = 4;

/// Long enough for slices with the programs off.
fn load(more: &[&'static str]) -> Vec<&'static str> {
    let words = ["--workload", "select-prepared", "-c", "4", "-T", "2.2", "--warmup", "0.2"];
    [&words[..], more].concat()
}

#[test]
fn its_json_is_valid_and_adds_up() {
    let Some(turn) = Turn::take("its_json_is_valid_and_adds_up") else { return };
    let done = turn.run(&load(&["--json", "--probe", "requests=on"]));
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    let run = Run::of(&done).expect("JSON");
    assert_eq!(schema_errors(&run.0), [""; 0]);
    both_counts_of_transactions_agree(&run);
    waits_are_conserved(&run);
    locks_hold_all_waits(&run);
    let (server, client) = (&run.0["ledger"]["server"], &run.0["ledger"]["client"]);
    assert_eq!(server["tasks_count"], CLIENTS);
    assert_eq!(client["tasks_count"], run.0["workload"]["jobs"]);
    assert!(server["per_transaction_ns"]["client_and_transport"].is_f64(), "{server}");
    assert!(run.count("/own_cost/slice_pairs_count") >= 1, "{}", run.0["own_cost"]);
    assert!(run.0["own_cost"]["bpf_ns_per_event"].as_f64() > Some(0.0), "{}", run.0["own_cost"]);
}

fn schema_errors(value: &Value) -> Vec<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/run.schema.json");
    let schema = std::fs::read_to_string(path).expect("the schema");
    let schema = serde_json::from_str(&schema).expect("the schema is JSON");
    let validator = jsonschema::draft202012::new(&schema).expect("the schema is valid");
    validator
        .iter_errors(value)
        .map(|error| format!("{}: {error}", error.instance_path()))
        .collect()
}

/// At both ends of a slice each client has at most one transaction under way, which one side may
/// have counted and the other not.
fn both_counts_of_transactions_agree(run: &Run) {
    let load = run.count("/throughput/traced_transactions_count");
    let slices = run.count("/own_cost/slice_pairs_count") + 1;
    assert!(load > 0 && load <= run.count("/throughput/transactions_count"), "{load}");
    let difference = load.abs_diff(run.backends_transactions());
    assert!(difference <= 2 * CLIENTS * slices, "{load} and {}", run.backends_transactions());
    assert!(!run.warnings().contains(&"requests-differ"), "{:?}", run.warnings());
}

fn waits_are_conserved(run: &Run) {
    for kind in ["inferred_end", "nested_too_deep", "locks_full", "tasks_full", "other_full"] {
        assert_eq!(run.loss(kind), 0, "{kind}");
    }
    // Some task of the machine may sleep in a lock when the programs are turned on.
    let openings = run.count("/own_cost/slice_pairs_count") + 2;
    assert!(run.loss("unmatched_end") <= 4 * openings, "{}", run.0["losses"]);
}

/// Each ended wait is in an account and in the table of locks; those of interrupts only in the
/// table. The table may have been read an event later.
fn locks_hold_all_waits(run: &Run) {
    let locks = run.list("locks");
    if locks.len() >= 200 {
        return; // The run keeps no more than these.
    }
    let sides =
        [("server", &["server", "background"][..]), ("client", &["client"]), ("other", &["other"])];
    for (side, accounts) in sides {
        let counts = &run.0["ledger"][accounts[0]]["wait_counts"];
        for class in counts.as_object().expect("counts").keys() {
            let in_accounts: u64 = accounts
                .iter()
                .map(|account| run.count(&format!("/ledger/{account}/wait_counts/{class}")))
                .sum();
            let of_class =
                locks.iter().filter(|lock| lock["class"] == **class && lock["side"] == side);
            let in_table: u64 = of_class.filter_map(|lock| lock["count"].as_u64()).sum();
            assert!(in_table >= in_accounts, "{side} {class}: {in_table} < {in_accounts}");
        }
    }
}

#[test]
fn its_text_is_plain_and_shown_again_as_it_was() {
    let Some(turn) = Turn::take("its_text_is_plain_and_shown_again_as_it_was") else { return };
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("run.lockscope");
    let file = file.to_str().expect("a plain path");
    let done = turn.run(&[&load(&[])[..], &["-o", file]].concat());
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    for line in done.stdout.lines() {
        assert!(line.len() <= 100 && line.is_ascii(), "{line}");
    }
    for part in ["tps = ", "Findings", "Nanoseconds per transaction", "Traced tasks", "Measurement"]
    {
        assert!(done.stdout.contains(part), "{part}:\n{}", done.stdout);
    }
    let again = finish(&mut lockscope(&["report", file])).expect("it ends");
    assert_eq!(again.stdout, done.stdout);
}
