//! Saved runs render as they always did, fit their width, and obey the schema.

use std::fs;
use std::path::{Path, PathBuf};

use lockscope::model::{self, Run};
use lockscope::report::json;
use lockscope::report::text::{TextOptions, render};
use serde_json::Value;

const FIXTURES: [&str; 3] = ["vm-6.1-contended", "host-6.18-tracepoints", "interrupted-untraced"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).to_owned()
}

fn fixture(name: &str) -> Run {
    model::load(&root().join(format!("tests/fixtures/{name}.lockscope"))).unwrap()
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

#[test]
fn every_line_fits_and_is_ascii() {
    for name in FIXTURES {
        let run = fixture(name);
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

fn schema() -> jsonschema::Validator {
    let text = fs::read_to_string(root().join("../docs/run.schema.json")).unwrap();
    let schema = serde_json::from_str(&text).unwrap();
    jsonschema::draft202012::meta::validate(&schema).expect("the schema itself is valid");
    jsonschema::draft202012::new(&schema).unwrap()
}

fn errors(value: &Value) -> Vec<String> {
    let errors =
        schema().iter_errors(value).map(|e| format!("{}: {e}", e.instance_path())).collect();
    errors
}

/// A run in which every optional value is there.
fn full() -> Run {
    let mut run = fixture("vm-6.1-contended");
    run.workload.pin_server = Some("0-1".to_owned());
    run.workload.pin_client = Some("2,3".to_owned());
    run.environment.cpu.governor = Some("performance".to_owned());
    run.environment.cpu.c_states = Some(vec![]);
    run.environment.memory.cgroup_limit_bytes = Some(1 << 30);
    run.environment.memory.cgroup_cpu_limit_millis = Some(1500);
    run
}

#[test]
fn runs_obey_the_schema() {
    let mut not_finite = full();
    not_finite.own_cost.tps_ratio = Some(f64::NAN);
    not_finite.own_cost.bpf_ns_per_event = Some(f64::INFINITY);
    let runs = FIXTURES.map(fixture).into_iter().chain([Run::new(), full(), not_finite]);
    for run in runs {
        assert_eq!(errors(&model::to_json(&run)), [""; 0]);
        let printed: Value = serde_json::from_str(&json::render(&run)).unwrap();
        assert_eq!(printed, model::to_json(&run));
    }
}

/// Without this the schema could forget a name and nobody would notice: unknown ones are allowed.
#[test]
fn the_schema_knows_every_name_that_a_run_writes() {
    let text = fs::read_to_string(root().join("../docs/run.schema.json")).unwrap();
    let mut schema: Value = serde_json::from_str(&text).unwrap();
    forbid_other_names(&mut schema);
    let strict = jsonschema::draft202012::new(&schema).unwrap();
    let runs = FIXTURES.map(fixture).into_iter().chain([full()]);
    for run in runs {
        let value = model::to_json(&run);
        let unknown: Vec<String> = strict.iter_errors(&value).map(|e| e.to_string()).collect();
        assert_eq!(unknown, [""; 0]);
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
    let broken: [(&str, fn(&mut Value)); 8] = [
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
        assert_eq!(errors(&value).len(), 1, "{what}");
    }
}
