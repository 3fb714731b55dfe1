//! Saved runs render as they always did, fit their width, and obey the schema. The fixtures are made up
//! to show every part of a report; they are no measurements.

mod attached;

use std::fs;
use std::path::{Path, PathBuf};

use lockscope::model::{
    self, Backend, Ceiling, NoEstimate, Removal, RemovalBounds, RemovedLock, Run,
};
use lockscope::report::json;
use lockscope::report::text::{TextOptions, render};
use serde_json::Value;

const FIXTURES: [&str; 3] = ["vm-6.1-contended", "host-6.18-tracepoints", "interrupted-untraced"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).to_owned()
}

fn fixture(name: &str) -> Run {
    let path = root().join(format!("tests/fixtures/{name}.lockscope"));
    model::load(&path).expect("fixtures are runs")
}

#[test]
fn golden_reports() {
    for name in FIXTURES {
        let run = fixture(name);
        insta::assert_snapshot!(format!("{name}-100"), render(&run, &TextOptions::default()));
        let narrow = TextOptions { width: 80, ..TextOptions::default() };
        insta::assert_snapshot!(format!("{name}-80"), render(&run, &narrow));
    }
}

/// Nothing but what only an attached trace has.
fn attached() -> Run {
    let mut run = Run { depth: "ledger".to_owned(), ..Run::new() };
    attached::attach(&mut run);
    run.throughput.tps = 2_000.3;
    run
}

#[test]
fn golden_sections_of_an_attached_trace() {
    for width in [80, 100] {
        let text = render(&attached(), &TextOptions { width, ..TextOptions::default() });
        let of = |title: &str| {
            let begin =
                text.find(&format!("\n{title}")).unwrap_or_else(|| panic!("{title}: {text}"));
            let section = &text[begin + 1..];
            section.split("\n\n").next().unwrap_or_default().to_owned()
        };
        let sections = ["In the client's own words", "The servers", "Postgres's view"].map(of);
        insta::assert_snapshot!(format!("attached-{width}"), sections.join("\n\n"));
    }
    let mut without = attached();
    let view = without.postgres_view.as_mut().unwrap();
    (view.activity, view.statements) = (Vec::new(), Vec::new());
    view.no_statements = Some("pg_stat_statements is not there".to_owned());
    let text = render(&without, &TextOptions::default());
    assert!(text.contains("No session was seen active."), "{text}");
    assert!(text.contains("No statements: pg_stat_statements is not there."), "{text}");
}

#[test]
fn every_line_fits_and_is_ascii() {
    let fixtures = FIXTURES.map(|name| (name, fixture(name)));
    for (name, run) in fixtures.into_iter().chain([("attached", attached())]) {
        for width in [72, 80, 90, 100, 132, 200] {
            let text = render(&run, &TextOptions { width, ..TextOptions::default() });
            for line in text.lines() {
                assert!(line.len() <= width, "{name} at {width}: {line}");
                assert!(line.is_ascii(), "{name}: {line}");
                assert_eq!(line, line.trim_end(), "{name}: trailing space");
            }
        }
    }
}

#[test]
fn a_saved_run_loads_and_renders_the_same() {
    let directory = tempfile::tempdir().unwrap();
    for name in FIXTURES {
        let run = fixture(name);
        let path = directory.path().join("again.lockscope");
        model::save(&run, &path).unwrap();
        let again = model::load(&path).unwrap();
        assert_eq!(again, run);
        let options = TextOptions::default();
        assert_eq!(render(&again, &options), render(&run, &options));
    }
}

fn schema() -> Value {
    let text = fs::read_to_string(root().join("../docs/run.schema.json")).expect("the schema");
    serde_json::from_str(&text).expect("the schema is JSON")
}

/// What a schema has against a value.
fn errors(schema: &Value, value: &Value) -> Vec<String> {
    let validator = jsonschema::draft202012::new(schema).expect("the schema is valid");
    validator.iter_errors(value).map(|e| format!("{}: {e}", e.instance_path())).collect()
}

/// A run in which every optional value is there.
fn full() -> Run {
    let mut run = fixture("vm-6.1-contended");
    attached::attach(&mut run);
    run.workload.pin_server = Some("0-1".to_owned());
    run.workload.pin_client = Some("2,3".to_owned());
    run.environment.cpu.governor = Some("performance".to_owned());
    run.environment.cpu.c_states = Some(vec![]);
    run.environment.memory.cgroup_limit_bytes = Some(1 << 30);
    run.environment.memory.cgroup_cpu_limit_millis = Some(1500);
    run.removal = Some(Removal {
        lock: Some(RemovedLock { caller: Some("pipe_write".to_owned()), ..RemovedLock::default() }),
        bounds: Some(RemovalBounds {
            limited_by: "cpus".to_owned(),
            ceilings: vec![Ceiling { resource: "transaction".to_owned(), tps: 1.5 }],
            ..RemovalBounds::default()
        }),
        no_estimate: Some(NoEstimate {
            code: "open_loop".to_owned(),
            text: "as -R says".to_owned(),
        }),
    });
    run
}

#[test]
fn runs_obey_the_schema() {
    let mut not_finite = full();
    not_finite.own_cost.tps_ratio = Some(f64::NAN);
    not_finite.own_cost.bpf_ns_per_event = Some(f64::INFINITY);
    let schema = schema();
    jsonschema::draft202012::meta::validate(&schema).unwrap();
    let runs = FIXTURES.map(fixture).into_iter().chain([Run::new(), full(), not_finite]);
    for run in runs {
        assert_eq!(errors(&schema, &model::to_json(&run)), [""; 0]);
        let printed: Value = serde_json::from_str(&json::render(&run)).unwrap();
        assert_eq!(printed, model::to_json(&run));
    }
}

/// Without this the schema could forget a name and nobody would notice: unknown ones are allowed.
#[test]
fn the_schema_knows_every_name_that_a_run_writes() {
    let mut strict = schema();
    forbid_other_names(&mut strict);
    for run in FIXTURES.map(fixture).into_iter().chain([full()]) {
        assert_eq!(errors(&strict, &model::to_json(&run)), [""; 0]);
    }
}

fn forbid_other_names(schema: &mut Value) {
    if let Some(object) = schema.as_object_mut() {
        if object.get("additionalProperties") == Some(&Value::Bool(true)) {
            object.insert("additionalProperties".to_owned(), Value::Bool(false));
        }
        object.values_mut().for_each(forbid_other_names);
    }
}

#[test]
fn the_schema_refuses_what_breaks_its_rules() {
    type Change = fn(&mut Value);
    let broken: [(&str, Change); 8] = [
        ("null", |run| run["own_cost"]["tps_ratio"] = Value::Null),
        ("no tps", |run| drop(run["throughput"].as_object_mut().unwrap().remove("tps"))),
        ("a text", |run| run["throughput"]["transactions_count"] = "12".into()),
        ("a fraction", |run| run["locks"][0]["total_ns"] = 1.5.into()),
        ("negative", |run| run["losses"]["ring_full"] = (-1).into()),
        ("a class", |run| run["locks"][0]["class"] = "spinlock".into()),
        ("a spin", |run| run["ledger"]["server"]["per_transaction_ns"]["spin"]["mutex"] = 1.into()),
        ("a version", |run| run["schema_version"] = 2.into()),
    ];
    for (what, change) in broken {
        let mut value = model::to_json(&full());
        change(&mut value);
        assert_eq!(errors(&schema(), &value).len(), 1, "{what}");
    }
}

#[test]
fn every_backend_is_listed_on_request() {
    let run = fixture("vm-6.1-contended");
    let all = render(&run, &TextOptions { all_backends: true, ..TextOptions::default() });
    let some = render(&run, &TextOptions::default());
    let listed = |text: &str, task: &Backend| {
        let (id, role) = (format!("  {}", task.pid), &*task.role);
        text.lines().any(|line| line.starts_with(&id) && line.contains(role))
    };
    assert!(run.backends.iter().all(|task| listed(&all, task)));
    assert_eq!(run.backends.iter().filter(|task| listed(&some, task)).count(), 10);
    assert!(some.contains("22 more") && !all.contains("more  "), "{some}");
}

#[test]
fn a_terminal_gets_bold_titles_and_micro_signs_and_the_same_text() {
    let run = fixture("host-6.18-tracepoints");
    let rich = TextOptions { utf8: true, color: true, ..TextOptions::default() };
    let text = render(&run, &rich);
    assert!(text.contains("\u{1b}[1mFindings\u{1b}[0m") && text.contains("66.2 \u{b5}s"), "{text}");
    let plain = text.replace("\u{1b}[1m", "").replace("\u{1b}[0m", "").replace('\u{b5}', "u");
    assert_eq!(plain, render(&run, &TextOptions::default()));
}

/// Whatever number is 0 or absent, nothing is divided by it and nothing panics.
#[test]
fn zeros_and_gaps_never_show_as_nan() {
    let value = model::to_json(&full());
    let mut pointers = Vec::new();
    collect_pointers(&value, "", &mut pointers);
    assert!(pointers.len() > 200, "{}", pointers.len());
    for pointer in pointers {
        for change in [zero as fn(&mut Value, &str), remove] {
            let mut value = value.clone();
            change(&mut value, &pointer);
            let Ok(run) = serde_json::from_value::<Run>(value) else { continue };
            let text = render(&run, &TextOptions::default());
            assert!(!text.contains("NaN") && !text.contains("inf "), "{pointer}: {text}");
        }
    }
}

/// Every member and the first element of every list.
fn collect_pointers(value: &Value, at: &str, pointers: &mut Vec<String>) {
    pointers.push(at.to_owned());
    match value {
        Value::Object(members) => {
            for (name, member) in members {
                collect_pointers(member, &format!("{at}/{name}"), pointers);
            }
        }
        Value::Array(elements) => {
            if let Some(first) = elements.first() {
                collect_pointers(first, &format!("{at}/0"), pointers);
            }
        }
        _ => {}
    }
}

fn zero(value: &mut Value, pointer: &str) {
    if let Some(found) = value.pointer_mut(pointer).filter(|found| found.is_number()) {
        *found = 0.into();
    }
}

fn remove(value: &mut Value, pointer: &str) {
    if let Some((parent, name)) = pointer.rsplit_once('/')
        && let Some(Value::Object(members)) = value.pointer_mut(parent)
    {
        members.remove(name);
    }
}
