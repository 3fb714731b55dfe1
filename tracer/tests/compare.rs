//! Runs that are made up, with a truth that is known: what a comparison says of them, how it looks, and that
//! its JSON obeys the schema.

use std::fs;
use std::path::Path;

use lockscope::analyse::compare::{Options, Side, compare};
use lockscope::model::{Comparison, Run, Verdict, to_json};
use lockscope::report::text::{TextOptions, render_comparison};

use runs::{compared, run, side, verdict};

mod runs;

/// Osq grows by 138 us, the run queue's wait is the same; another governor; osq by another probe.
fn regression() -> Comparison {
    let mut new = run(2, 60, 139_000.0);
    new.environment.kernel.release = "6.13.0".to_owned();
    new.environment.cpu.governor = Some("powersave".to_owned());
    new.probes[0].method = "kprobe".to_owned();
    compared(vec![run(1, 60, 1_000.0)], vec![new], &["tps < -5%", "latency.p99 > 5s"])
}

#[test]
fn golden_comparisons() {
    let comparison = regression();
    insta::assert_snapshot!(
        "regression-100",
        render_comparison(&comparison, &TextOptions::default())
    );
    let narrow = TextOptions { width: 80, ..TextOptions::default() };
    insta::assert_snapshot!("regression-80", render_comparison(&comparison, &narrow));
    let rounds = |first: u64, osq| (first..first + 5).map(|seed| run(seed, 20, osq)).collect();
    let comparison = compared(rounds(10, 1_000.0), rounds(20, 8_000.0), &[]);
    insta::assert_snapshot!("rounds-100", render_comparison(&comparison, &TextOptions::default()));
}

#[test]
fn every_line_fits_and_is_ascii() {
    let comparison = regression();
    for width in [72, 80, 100, 132, 200] {
        let text = render_comparison(&comparison, &TextOptions { width, ..TextOptions::default() });
        for line in text.lines() {
            assert!(line.len() <= width, "at {width}: {line}");
            assert!(line.is_ascii() && line == line.trim_end(), "{line}");
        }
    }
}

#[test]
fn the_lock_that_took_the_time_is_named_with_its_share() {
    let comparison = regression();
    let decomposition = &comparison.decompositions[0];
    assert_eq!(decomposition.parts[0].state, "server.spin.osq");
    assert!((decomposition.parts[0].share.unwrap() - 1.0).abs() < 0.1);
    let lock = decomposition.parts[0].lock.as_ref().unwrap();
    assert_eq!((lock.name.as_str(), lock.caller.as_deref()), ("pipe.mutex", Some("pipe_write")));
    for decomposition in &comparison.decompositions {
        assert!((decomposition.closure.unwrap() - 1.0).abs() < 1e-9, "{decomposition:?}");
    }
    assert_eq!(verdict(&comparison, "tps"), Some(Verdict::Slower));
    assert_eq!(verdict(&comparison, "server.spin.osq"), Some(Verdict::More));
    assert_eq!(verdict(&comparison, "server.runq.queued"), Some(Verdict::NoDifferenceFound));
    let text = &comparison.findings.iter().find(|finding| finding.about == "where").unwrap().text;
    assert!(text.contains("server spin osq, most on pipe.mutex under pipe_write"), "{text}");
}

#[test]
fn equal_runs_have_no_difference() {
    let comparison = compared(vec![run(1, 60, 1_000.0)], vec![run(2, 60, 1_000.0)], &["tps < -5%"]);
    assert_eq!(verdict(&comparison, "tps"), Some(Verdict::NoDifferenceFound));
    assert_eq!(verdict(&comparison, "latency.mean"), Some(Verdict::NoDifferenceFound));
    assert_eq!(comparison.conditions[0].holds, Some(false));
    assert_eq!(comparison.environment, []);
}

#[test]
fn few_intervals_give_no_verdict() {
    let comparison = compared(vec![run(1, 5, 1_000.0)], vec![run(2, 5, 139_000.0)], &["tps < -5%"]);
    assert_eq!(verdict(&comparison, "tps"), Some(Verdict::CannotTell));
    assert_eq!(comparison.conditions[0].holds, None);
    assert!(comparison.conditions[0].reason.contains("too few"), "{:?}", comparison.conditions);
}

#[test]
fn rounds_are_the_unit_where_there_are_several() {
    let rounds = |first: u64, osq| -> Vec<Run> {
        (first..first + 5).map(|seed| run(seed, 10, osq)).collect()
    };
    let comparison = compared(rounds(10, 1_000.0), rounds(20, 60_000.0), &[]);
    assert_eq!(comparison.unit, "run");
    assert_eq!(verdict(&comparison, "tps"), Some(Verdict::Slower));
    let lock = "lock.server.osq pipe.mutex <- pipe_write";
    assert_eq!(verdict(&comparison, lock), Some(Verdict::More), "locks have rounds, too");
    let few = compared(rounds(10, 1_000.0)[..2].to_vec(), rounds(20, 60_000.0)[..1].to_vec(), &[]);
    assert_eq!(verdict(&few, "tps"), Some(Verdict::CannotTell));
}

#[test]
fn a_lock_that_is_new_was_nothing_before() {
    let mut base = run(1, 20, 1_000.0);
    base.locks.clear();
    let comparison = compared(vec![base], vec![run(2, 20, 1_000.0)], &[]);
    let locks = comparison.groups.iter().find(|group| group.name == "locks").unwrap();
    assert_eq!(locks.rows[0].base.unwrap().mean, 0.0);
}

#[test]
fn rows_that_were_measured_otherwise_are_flagged() {
    let comparison = regression();
    let rows = || comparison.groups.iter().flat_map(|group| &group.rows);
    let flagged: Vec<&str> = rows()
        .filter(|row| row.flags.contains(&"probe-osq".to_owned()))
        .map(|row| row.metric.as_str())
        .collect();
    assert_eq!(flagged, ["server.spin.osq"]);
    let mut deep = run(1, 20, 1_000.0);
    deep.depth = "locks".to_owned();
    let comparison = compared(vec![deep], vec![run(2, 20, 1_000.0)], &[]);
    assert!(comparison.warnings.iter().any(|warning| warning.code == "depth-differs"));
}

#[test]
fn runs_that_cannot_be_compared_are_refused() {
    let good = || side("new", vec![run(2, 20, 1_000.0)]);
    let refused =
        |base: Side| compare(&base, &good(), &Options::default()).unwrap_err().to_string();
    assert!(refused(Side::default()).contains("base side has no run"));
    let mut short = run(1, 0, 1.0);
    short.throughput.transactions_count = 12;
    let short = refused(side("b", vec![short]));
    assert!(short.contains("b1.lockscope has no interval"), "{short}");
    assert!(
        short.contains("measured 12 transactions in ") && short.contains("--interval 0.1"),
        "{short}"
    );
    let nothing = refused(side("b", vec![run(1, 0, 1.0)]));
    assert!(nothing.contains("b1.lockscope has no transaction"), "{nothing}");
    assert!(refused(side("b", vec![run(1, 1, 1.0)])).contains("single interval"));
    let mut old = run(1, 20, 1.0);
    old.schema_version = 0;
    assert!(refused(side("b", vec![old])).contains("schema version 0"));
    let conditions = vec!["latency.p98 > 5%".parse().unwrap()];
    let options = Options { conditions, ..Options::default() };
    let error = compare(&good(), &good(), &options).unwrap_err().to_string();
    assert!(error.contains("latency.p98") && error.contains("latency.p9"), "{error}");
    let conditions = vec!["tps < 5ms".parse().unwrap()];
    let options = Options { conditions, ..Options::default() };
    let error = compare(&good(), &good(), &options).unwrap_err().to_string();
    assert!(error.contains("`tps < 5ms`: tps is no time"), "{error}");
}

/// What a run had within it does not matter where the runs are the samples.
#[test]
fn runs_of_a_single_interval_are_samples_where_there_are_several() {
    let rounds = |first: u64| (first..first + 3).map(|seed| run(seed, 1, 1_000.0)).collect();
    let comparison =
        compare(&side("b", rounds(1)), &side("n", rounds(4)), &Options::default()).unwrap();
    assert_eq!(comparison.unit, "run");
}

#[test]
fn conditions_are_proven_refuted_or_not_judged() {
    let comparison = compared(
        vec![run(1, 60, 1_000.0)],
        vec![run(2, 60, 139_000.0)],
        &[
            "tps < -20%",
            "tps < -60%",
            "tps < 20000",
            "latency.mean > +100us @99",
            "latency.mean > 1s",
            "server.spin.osq > +50us",
            "server.spin.rq > +1us",
            "latency.p50 > 5%",
            "server.spin.rwlock > 5us",
        ],
    );
    let holds: Vec<Option<bool>> = comparison.conditions.iter().map(|c| c.holds).collect();
    let (yes, no) = (Some(true), Some(false));
    assert_eq!(holds, [yes, no, yes, yes, no, yes, no, None, None], "{:#?}", comparison.conditions);
}

/// Rounds of a machine that drifts by 10 % while the change is 2 %.
#[test]
fn the_runs_of_a_round_are_a_pair() {
    let drifting = |first: u64, factor: f64| -> Vec<Run> {
        let round = |(number, seed): (usize, u64)| {
            let mut run = run(seed, 20, 1_000.0);
            run.throughput.tps *= factor * (1.0 + 0.025 * number as f64);
            run
        };
        (first..first + 5).enumerate().map(round).collect()
    };
    let (base, new) = (side("a", drifting(10, 1.0)), side("b", drifting(20, 0.98)));
    let with = |paired| {
        let options = Options { paired, ..Options::default() };
        compare(&base, &new, &options).expect("compared")
    };
    let (pairs, runs) = (with(true), with(false));
    assert_eq!((pairs.unit.as_str(), runs.unit.as_str()), ("pair", "run"));
    assert_eq!(verdict(&pairs, "tps"), Some(Verdict::Slower));
    assert_eq!(verdict(&runs, "tps"), Some(Verdict::CannotTell));
    let halves = side("b", drifting(20, 0.98)[..4].to_vec());
    let options = Options { paired: true, ..Options::default() };
    let error = compare(&base, &halves, &options).unwrap_err().to_string();
    assert!(error.contains("5 runs of the base and 4 new ones"), "{error}");
}

#[test]
fn the_json_obeys_its_schema() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/comparison.schema.json");
    let schema = serde_json::from_str(&fs::read_to_string(path).expect("the schema")).unwrap();
    let validator = jsonschema::draft202012::new(&schema).expect("the schema is valid");
    let check = |comparison: &Comparison| {
        let value = to_json(comparison);
        let errors: Vec<String> =
            validator.iter_errors(&value).map(|e| format!("{}: {e}", e.instance_path())).collect();
        assert_eq!(errors, Vec::<String>::new());
        assert_eq!(serde_json::from_value::<Comparison>(value).unwrap(), *comparison);
    };
    check(&regression());
    let rounds = |first: u64| (first..first + 3).map(|seed| run(seed, 10, 1_000.0)).collect();
    check(&compared(rounds(10), rounds(20), &["server.spin.rwlock > 5us"]));
    let options = Options { paired: true, ..Options::default() };
    check(&compare(&side("a", rounds(10)), &side("b", rounds(20)), &options).expect("compared"));
    let mut value = to_json(&regression());
    value["groups"][0]["rows"][0]["verdict"] = "better".into();
    assert!(!validator.is_valid(&value), "the schema knows the verdicts");
}
