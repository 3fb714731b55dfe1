//! `lockscope sweep`: a step a value, each with its ledger, and what each step adds.

use lockscope_tests::command::{Finished, lockscope};
use lockscope_tests::postgres::Postgres;
use lockscope_tests::traced::Turn;
use serde_json::Value;

const BRIEF: [&str; 8] =
    ["-T", "1", "--warmup", "0", "--no-control", "--quiet", "--interval", "0.2"];

fn swept(turn: &Turn, words: &[&str]) -> Finished {
    turn.finish(|| lockscope(&[&["sweep"], &BRIEF[..], words].concat()))
}

fn steps(curve: &Value) -> &Vec<Value> {
    curve["steps"].as_array().expect("steps")
}

#[test]
fn each_client_count_is_a_step_with_its_ledger_and_what_it_adds() {
    let Some(turn) = Turn::take("each_client_count_is_a_step_with_its_ledger_and_what_it_adds")
    else {
        return;
    };
    let server = Postgres::start(&[]).expect("a server");
    server.make_tables().expect("tables");
    let directory = tempfile::tempdir().expect("a directory");
    let place = |name: &str| directory.path().join(name).display().to_string();
    let (dsn, out, csv) = (server.dsn(), place("runs"), place("a.csv"));
    let (svg, png) = (place("a.svg"), place("a.png"));
    let done = swept(
        &turn,
        &[
            "--clients",
            "1,2,4,8",
            "-S",
            "-M",
            "prepared",
            "--dsn",
            &dsn,
            "--no-vacuum",
            "-o",
            &out,
            "--csv",
            &csv,
            "--plot",
            &svg,
            "--plot",
            &png,
            "--json",
        ],
    );
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    let sweep: Value = serde_json::from_str(&done.stdout).expect("JSON");
    let saved: Value =
        serde_json::from_slice(&std::fs::read(place("runs/sweep.json")).expect("saved"))
            .expect("JSON");
    assert_eq!(sweep, saved);
    let curve = &sweep["curves"][0];
    assert_eq!(steps(curve).len(), 4);
    for (step, clients) in steps(curve).iter().zip([1, 2, 4, 8]) {
        assert_eq!(step["clients"], clients);
        assert!(step["tps"]["value"].as_f64() > Some(0.0), "{step}");
        assert!(step["tps"]["low"].as_f64() <= step["tps"]["high"].as_f64(), "{step}");
        let run =
            lockscope(&["report", step["file"].as_str().expect("a file")]).output().expect("ran");
        assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
        let Some(added_ns) = step["added_latency_ns"].as_f64() else {
            assert_eq!(clients, 1, "only the first has nothing before it");
            continue;
        };
        let parts = step["added"].as_array().expect("parts").iter();
        let sum: f64 = parts.filter_map(|part| part["difference_ns"].as_f64()).sum();
        assert!((sum - added_ns).abs() <= added_ns.abs() * 1e-6 + 1.0, "{sum} of {added_ns}");
    }
    assert!(curve["scalability"]["lambda_tps"]["value"].as_f64() > Some(0.0), "{curve}");
    let rows = std::fs::read_to_string(csv).expect("rows");
    assert_eq!(rows.lines().count(), 5, "{rows}");
    assert!(std::fs::read_to_string(svg).expect("a picture").starts_with("<svg"));
    assert!(std::fs::read(png).expect("a picture").starts_with(b"\x89PNG"));
}

#[test]
fn a_step_that_fails_is_said_and_costs_only_itself() {
    let Some(turn) = Turn::take("a_step_that_fails_is_said_and_costs_only_itself") else { return };
    let server = Postgres::start(&[("max_connections", "20")]).expect("a server");
    server.make_tables().expect("tables");
    let dsn = server.dsn();
    let words = ["--vary", "protocol=simple,prepared", "--clients", "1,400", "-S"];
    let done = swept(&turn, &[&words[..], &["--dsn", &dsn, "--no-vacuum"]].concat());
    assert_eq!(done.code, Some(2), "{}", done.stdout);
    assert!(
        done.stdout.contains("FAILED") && done.stdout.contains("protocol prepared"),
        "{}",
        done.stdout
    );
    assert!(done.stderr.contains("step 4 of 4: protocol=prepared client=400"), "{}", done.stderr);
}

#[test]
fn what_cannot_be_varied_is_refused_before_anything_is_done() {
    for (words, reason) in [
        (&["--vary", "scal=1,2"][..], "did you mean scale"),
        (&["--clients", "1,2", "-c", "3"], "cannot be used with"),
        (&["--vary", "scale=1,2", "-s", "3"], "given and varied"),
        (&["--vary", "client=1,x"], "client=x"),
        (&["--plot", "a.jpg"], "an .svg or a .png"),
    ] {
        let done = lockscope(&[&["sweep"], words].concat()).output().expect("ran");
        let said = String::from_utf8_lossy(&done.stderr);
        assert_eq!(done.status.code(), Some(2), "{words:?}: {said}");
        assert!(said.contains(reason), "{words:?}: {said}");
    }
}
