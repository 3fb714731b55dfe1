//! Explanations of runs that are made up: every signature finds its own regression and nothing that only
//! looks like it, and what users see of it.

mod cases;
#[path = "../made/mod.rs"]
mod made;
mod shape;

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use cases::{CASES, Case};
use lockscope::analyse::compare::Options;
use lockscope::analyse::explain::{Signature, catalogue, explain_change, explain_run};
use lockscope::model::{self, Confidence, Explanation, Outcome, PlugOwner, Run, save, to_json};
use lockscope::report::text::{TextOptions, render_explanation};
use made::side;
use shape::Shape;

fn change(base: &Shape, new: &Shape) -> Explanation {
    let signatures = catalogue(None).expect("they are valid");
    let (base, new) = (side("base", vec![base.run(1)]), side("new", vec![new.run(2)]));
    explain_change(&base, &new, &signatures, &Options::default()).expect("explained")
}

fn alone(run: Run) -> Explanation {
    explain_run(&side("run", vec![run]), &catalogue(None).expect("they are valid"))
        .expect("explained")
}

fn confidence(explanation: &Explanation, id: &str) -> Option<Confidence> {
    let found = explanation.signatures.iter().find(|signature| signature.id == id);
    found.expect("every signature is told").confidence
}

fn base(case: &Case) -> Shape {
    Shape::healthy().with(case.base)
}

fn new(case: &Case) -> Shape {
    base(case).with(case.new)
}

fn case(id: &str) -> &'static Case {
    CASES.iter().find(|case| case.id == id).expect("a case")
}

#[test]
fn every_signature_has_a_case_and_near_misses() {
    let ids: BTreeSet<String> = catalogue(None).unwrap().into_iter().map(|s| s.id).collect();
    let cases: BTreeSet<String> = CASES.iter().map(|case| case.id.to_owned()).collect();
    assert_eq!(ids, cases);
    assert!(ids.len() >= 14 && CASES.iter().all(|case| case.near_misses.len() >= 2));
}

#[test]
fn every_signature_matches_its_case_and_no_near_miss() {
    for case in CASES {
        let (base, new) = (base(case), new(case));
        let found = change(&base, &new);
        let told = found.signatures.iter().find(|signature| signature.id == case.id);
        assert_eq!(confidence(&found, case.id), Some(case.confidence), "{:#?}", told.unwrap());
        assert!(confidence(&alone(new.run(2)), case.id).is_some(), "{} by one run", case.id);
        assert_eq!(confidence(&change(&base, &base), case.id), None, "{}: no change", case.id);
        for (what, changed, expected) in case.near_misses {
            let near = new.with(changed);
            let found = confidence(&change(&base, &near), case.id);
            assert_eq!(found, *expected, "{}: {what}", case.id);
            let found = confidence(&alone(near.run(2)), case.id);
            assert!(found.is_none() || found == *expected, "{}, one run: {what}", case.id);
        }
    }
}

#[test]
fn no_signature_is_sure_of_another_s_case() {
    for case in CASES {
        for found in [change(&base(case), &new(case)), alone(new(case).run(2))] {
            let sure = found.matches().filter(|s| s.confidence == Some(Confidence::High));
            let others: Vec<&str> =
                sure.map(|s| s.id.as_str()).filter(|id| *id != case.id).collect();
            assert_eq!(others, Vec::<&str>::new(), "case {}", case.id);
        }
    }
}

#[test]
fn the_way_back_is_told_as_such() {
    for case in CASES {
        let found = change(&new(case), &base(case));
        assert_eq!(confidence(&found, case.id), None, "{}", case.id);
        let mut gone = found.account.iter().filter(|statement| statement.about == "gone");
        let told = gone.any(|statement| statement.text.contains(case.id));
        assert_eq!(told, case.confidence > Confidence::Low, "{}", case.id);
    }
}

#[test]
fn a_healthy_run_matches_nothing_and_says_what_to_measure() {
    let found = alone(Shape::healthy().run(1));
    assert_eq!(found.matches().count(), 0);
    assert!(found.next.iter().any(|next| next.command.is_some()), "{:?}", found.next);
}

#[test]
fn a_base_that_is_affected_as_well_keeps_the_confidence_down() {
    let new = new(case("block-plug-per-bio"));
    let base = base(case("block-plug-per-bio")).with(|s| s.kernel = "6.13.1");
    assert_eq!(confidence(&change(&base, &new), "block-plug-per-bio"), Some(Confidence::Medium));
}

#[test]
fn different_loads_are_said_and_keep_the_confidence_low() {
    let new = new(case("block-plug-per-bio")).with(|s| s.workload = "buffered-write");
    let found = change(&base(case("block-plug-per-bio")), &new);
    assert_eq!(confidence(&found, "block-plug-per-bio"), Some(Confidence::Low));
    let said = found
        .caveats
        .iter()
        .any(|caveat| caveat.contains("workload.name tpcb-like -> buffered-write"));
    assert!(said, "{:?}", found.caveats);
}

#[test]
fn what_was_not_measured_is_not_judged() {
    let case = case("s-lock-preempted");
    let mut run = new(case).run(2);
    run.profile = None;
    let found = alone(run);
    let signature = found.signatures.iter().find(|signature| signature.id == case.id).unwrap();
    assert_eq!(signature.confidence, None);
    assert_eq!(signature.conditions[0].outcome, Outcome::NotJudged);
    assert!(signature.conditions[0].text.contains("--no-profile"), "{signature:?}");
    assert!(found.next.iter().any(|next| next.text.contains("no profile")), "{:?}", found.next);
}

#[test]
fn half_a_symptom_on_another_version_is_no_match() {
    let eevdf = case("eevdf-preemption");
    let without_counters = |mut run: Run| {
        run.counters = None;
        run
    };
    let found = |kernel: &'static str| {
        let run = without_counters(new(eevdf).with(|s| s.kernel = kernel).run(2));
        confidence(&alone(run), eevdf.id)
    };
    assert_eq!((found("6.1.4"), found("6.12.4")), (None, Some(Confidence::Low)));
}

#[test]
fn two_intervals_a_side_prove_no_change() {
    let plug = case("block-plug-per-bio");
    let short = |mut run: Run| {
        run.intervals.truncate(2);
        run
    };
    let (base, new) = (short(base(plug).run(1)), short(new(plug).run(2)));
    let (base, new) = (side("base", vec![base]), side("new", vec![new]));
    let signatures = catalogue(None).unwrap();
    let found = explain_change(&base, &new, &signatures, &Options::default()).unwrap();
    let told = found.signatures.iter().find(|signature| signature.id == plug.id).unwrap();
    let tps = told.conditions.iter().find(|condition| condition.metric == "tps").unwrap();
    assert_eq!(tps.outcome, Outcome::NotJudged, "{tps:#?}");
    assert!(tps.text.contains("too few"), "{}", tps.text);
}

#[test]
fn a_plug_number_that_grew_from_nothing_is_told_and_next_to_nothing_is_not() {
    let plug = case("block-plug-per-bio");
    let with_calls = |mut run: Run, server, kworker| {
        let plug = run.plug.as_mut().unwrap();
        for (owner, flush_count) in [("server", server), ("kworker", kworker)] {
            let counts = PlugOwner { flush_count: Some(flush_count), ..PlugOwner::default() };
            plug.by_owner.insert(owner.to_owned(), counts);
        }
        run
    };
    let (base, new) = (base(plug).run(1), new(plug).run(2));
    let calls = new.throughput.traced_transactions_count * 9;
    let base = side("base", vec![with_calls(base, 0, 1)]);
    let new = side("new", vec![with_calls(new, calls, 2)]);
    let found = explain_change(&base, &new, &catalogue(None).unwrap(), &Options::default());
    let account = found.unwrap().account;
    let texts: Vec<&str> = account.iter().map(|sentence| sentence.text.as_str()).collect();
    assert!(texts.contains(&"plug.server.flush_calls: 0 -> 9.00."), "{texts:#?}");
    assert!(!texts.iter().any(|text| text.contains("plug.kworker.flush_calls")), "{texts:#?}");
}

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/fixtures/{name}.lockscope"))
}

/// What `lockscope load` saves.
fn load_only() -> Run {
    let made = Shape::healthy().run(1);
    let mut run = Run { load: made.load, latency_ns: made.latency_ns, ..Run::new() };
    (run.environment, run.workload, run.throughput) =
        (made.environment, made.workload, made.throughput);
    run.throughput.traced_transactions_count = 0;
    run.intervals = made.intervals;
    run.intervals.iter_mut().for_each(|interval| interval.per_transaction_ns = None);
    run
}

/// A single run with a match, a change with one, one with none, and runs that lack what it takes.
fn examples() -> Vec<(&'static str, Explanation)> {
    let plug = case("block-plug-per-bio");
    let recorded = |name: &str| alone(model::load(&fixture(name)).expect("a run"));
    let slower = Shape::healthy().with(|s| {
        s.states.insert("cpu", 500_000.0);
    });
    vec![
        ("one-run", alone(new(case("ext4-dioread-nolock")).run(2))),
        ("change", change(&base(plug), &new(plug))),
        ("unknown", change(&Shape::healthy(), &slower)),
        ("depth-locks", recorded("vm-6.1-contended")),
        ("interrupted", recorded("interrupted-untraced")),
        ("load-only", alone(load_only())),
    ]
}

#[test]
fn golden_explanations() {
    for (name, explanation) in examples() {
        let text = render_explanation(&explanation, false, &TextOptions::default());
        insta::assert_snapshot!(name, text);
    }
    let mut only = change(&Shape::healthy(), &Shape::healthy());
    only.signatures.retain(|signature| signature.id == "eevdf-preemption");
    insta::assert_snapshot!("no-match", render_explanation(&only, true, &TextOptions::default()));
}

#[test]
fn every_line_fits_and_is_ascii() {
    for (name, explanation) in examples() {
        for width in [72, 80, 100, 200] {
            let options = TextOptions { width, ..TextOptions::default() };
            for line in render_explanation(&explanation, true, &options).lines() {
                assert!(line.len() <= width && line.is_ascii(), "{name} at {width}: {line}");
                assert_eq!(line, line.trim_end(), "{name}");
            }
        }
    }
}

#[test]
fn the_json_obeys_its_schema() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/explanation.schema.json");
    let schema = serde_json::from_str(&fs::read_to_string(path).expect("the schema")).unwrap();
    let validator = jsonschema::draft202012::new(&schema).expect("the schema is valid");
    for (name, explanation) in examples() {
        let value = to_json(&explanation);
        let errors: Vec<String> =
            validator.iter_errors(&value).map(|e| format!("{}: {e}", e.instance_path())).collect();
        assert_eq!(errors, Vec::<String>::new(), "{name}");
        assert_eq!(serde_json::from_value::<Explanation>(value).unwrap(), explanation);
    }
    let (_, explanation) = examples().remove(1);
    let mut value = to_json(&explanation);
    value["signatures"][0]["confidence"] = "certain".into();
    assert!(!validator.is_valid(&value), "the schema knows the confidences");
}

fn lockscope(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lockscope"));
    command.arg("explain").args(arguments).output().expect("it runs")
}

fn refused(arguments: &[&str], words: &[&str]) {
    let output = lockscope(arguments);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{arguments:?}: {said}");
    assert!(output.stdout.is_empty(), "{arguments:?}");
    for word in words {
        assert!(said.contains(word), "{arguments:?} does not say `{word}`: {said}");
    }
}

#[test]
fn the_command_explains_one_run_and_two() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).display().to_string();
    let plug = case("block-plug-per-bio");
    save(&base(plug).run(1), Path::new(&path("a"))).unwrap();
    save(&new(plug).run(2), Path::new(&path("b"))).unwrap();
    let (a, b) = (path("a"), path("b"));
    let output = lockscope(&[&b]);
    assert_eq!(output.status.code(), Some(0));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains("block-plug-per-bio") && text.contains("9a42891c35d5"), "{text}");
    let saved = path("explained.json");
    let output = lockscope(&[&a, &b, "--json", "-o", &saved]);
    let explanation: Explanation = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(confidence(&explanation, "block-plug-per-bio"), Some(Confidence::High));
    assert_eq!(fs::read(&saved).unwrap(), output.stdout);
    let output = lockscope(&[&a, "--signature", "mm-cid-lock", "--", &b]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        text.contains("mm-cid-lock") && text.contains("no match") && text.contains("FAILS"),
        "{text}"
    );
}

#[test]
fn wrong_files_and_signatures_are_refused_with_what_is_wrong() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).display().to_string();
    let run = path("run");
    save(&Shape::healthy().run(1), Path::new(&run)).unwrap();
    refused(&["/no/such.lockscope"], &["cannot read /no/such.lockscope"]);
    refused(&[&run, "/no/such.lockscope"], &["cannot read /no/such.lockscope"]);
    refused(&[&run, &run, &run], &["3 runs, and which are new?", "--"]);
    refused(&[&run, "--signature", "mm-cid"], &["mm-cid", "did you mean mm-cid-lock?"]);
    refused(&[&run, "--signatures", "/no/such/place"], &["/no/such/place"]);
    fs::write(path("text"), "no run").unwrap();
    refused(&[&path("text")], &["is not a lockscope run"]);
    let mut old = Shape::healthy().run(1);
    old.schema_version = 0;
    save(&old, Path::new(&path("old"))).unwrap();
    refused(&[&path("old")], &["schema version 0", "measure it again"]);
    let mut short = Shape::healthy().run(1);
    short.intervals.truncate(1);
    save(&short, Path::new(&path("short"))).unwrap();
    refused(&[&run, &path("short")], &["single interval"]);
    let own = directory.path().join("own");
    fs::create_dir(&own).unwrap();
    let bad = "id = \"mine\"\ntitle = \"t\"\nclass = \"kernel_lock\"\nsymptom = \"s\"\n[[conditions]]\nmetric = \"server.cpuu\"\nrun = \"> 5%\"\nbecause = \"b\"\n";
    fs::write(own.join("mine.toml"), format!("{bad}[[next]]\ntext = \"n\"\n")).unwrap();
    let own = own.display().to_string();
    refused(&[&run, "--signatures", &own], &["mine.toml, line 6", "did you mean server.cpu"]);
    refused(
        &[&run, "--signatures", &own, "--signatures", &path("more")],
        &["--signatures is given 2 times", "one directory"],
    );
    refused(
        &[&run, "--signature", "mm-cid-lock", "--signature", "psi-cpu-clock"],
        &["--signature is given 2 times"],
    );
    let before = fs::read(&run).unwrap();
    refused(&[&run, "-o", &run], &["it is one of the runs that are read"]);
    assert_eq!(fs::read(&run).unwrap(), before);
}

#[test]
fn names_in_other_encodings_are_names() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join(OsStr::from_bytes(b"run\xff"));
    let explain = || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_lockscope"));
        command.arg("explain").arg(&path).output().expect("it runs")
    };
    let missing = explain();
    assert_eq!(missing.status.code(), Some(2), "{}", String::from_utf8_lossy(&missing.stderr));
    save(&Shape::healthy().run(1), &path).unwrap();
    assert_eq!(explain().status.code(), Some(0));
}

#[test]
fn a_signature_of_one_s_own_is_tried_with_the_others() {
    let directory = tempfile::tempdir().unwrap();
    let text = "id = \"mine\"\ntitle = \"t\"\nclass = \"accounting\"\nsymptom = \"s\"\n[[conditions]]\nmetric = \"server.cpu\"\nrun = \"> 5%\"\ndecisive = true\nbecause = \"b\"\n[[next]]\ntext = \"n\"\n";
    fs::write(directory.path().join("mine.toml"), text).unwrap();
    let signatures: Vec<Signature> = catalogue(Some(directory.path())).unwrap();
    let runs = side("run", vec![Shape::healthy().run(1)]);
    let found = explain_run(&runs, &signatures).unwrap();
    // Nothing of the surroundings can be checked.
    assert_eq!(confidence(&found, "mine"), Some(Confidence::Medium));
}
