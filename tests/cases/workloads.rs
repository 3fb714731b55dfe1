//! Every workload runs on the throw-away server, and the list tells what each is.

use lockscope_tests::command::{finish, lockscope};
use lockscope_tests::traced::{Run, Turn};
use serde_json::Value;

const NAMES: [&str; 11] = [
    "select-prepared",
    "select-simple",
    "select-extended",
    "tpcb-like",
    "simple-update",
    "buffered-write",
    "plpgsql",
    "oltp_point_select",
    "oltp_read_only",
    "oltp_read_write",
    "oltp_update_index",
];

/// Small tables: what is tested is that the load runs, not what it measures.
fn words(name: &str) -> Vec<&str> {
    let mut words = vec!["--json", "-q", "-c", "3", "-T", "1", "--warmup", "0", "--workload", name];
    if name == "buffered-write" {
        words.extend(["-s", "2"]);
    }
    words
}

fn ran(name: &str, run: &Value) {
    assert_eq!(run["workload"]["name"], name);
    assert!(run["throughput"]["transactions_count"].as_u64() > Some(0), "{name}: {run}");
}

#[test]
fn the_list_is_complete() {
    let list = finish(&mut lockscope(&["workloads"])).expect("it ends");
    assert_eq!(list.code, Some(0), "{}", list.stderr);
    let names: Vec<&str> = list.stdout.lines().filter(|line| !line.starts_with(' ')).collect();
    let names: Vec<&str> = names.into_iter().filter(|line| !line.is_empty()).collect();
    assert_eq!(names, NAMES);
    let one = finish(&mut lockscope(&["workloads", "plpgsql"])).expect("it ends");
    assert!(list.stdout.contains(&one.stdout), "{}", one.stdout);
    let unknown = finish(&mut lockscope(&["workloads", "tpcc"])).expect("it ends");
    assert_eq!(unknown.code, Some(2), "{}", unknown.stderr);
    assert!(NAMES.iter().all(|name| unknown.stderr.contains(name)), "{}", unknown.stderr);
}

#[test]
fn every_workload_runs_untraced() {
    for name in NAMES {
        let run = [&["run", "--no-trace"], &words(name)[..]].concat();
        let done = finish(&mut lockscope(&run)).expect("it ends");
        assert_eq!(done.code, Some(0), "{name}: {}", done.stderr);
        ran(name, &serde_json::from_str(&done.stdout).expect("JSON"));
    }
}

#[test]
fn every_workload_runs_traced() {
    let Some(turn) = Turn::take("every_workload_runs_traced") else { return };
    for name in NAMES {
        let done = turn.run(&words(name));
        assert_eq!(done.code, Some(0), "{name}: {}", done.stderr);
        ran(name, &Run::of(&done).expect("JSON").0);
    }
}

#[test]
fn other_protocols_tables_and_distributions_run() {
    for more in [
        &["--workload", "oltp_read_write", "-M", "simple"][..],
        &["--workload", "oltp_read_write", "-M", "extended", "--tables", "5", "--table-size", "20"],
        &["--workload", "oltp_read_only", "--rand-type", "uniform", "--range-size", "1"],
        &["--workload", "oltp_point_select", "--rand-type", "zipfian", "--rand-zipfian-exp", "1"],
        &["--workload", "oltp_point_select", "--table-size", "1"],
        &["--workload", "plpgsql", "-M", "simple"],
    ] {
        let run = ["run", "--no-trace", "-q", "-c", "4", "-t", "20"];
        let done = finish(&mut lockscope(&[&run[..], more].concat())).expect("it ends");
        assert_eq!(done.code, Some(0), "{more:?}: {}", done.stderr);
        assert!(done.stdout.contains("actually processed: "), "{more:?}: {}", done.stdout);
    }
}

#[test]
fn options_that_make_no_sense_are_refused_by_name() {
    for (arguments, expected) in [
        ("run --workload oltp_read_only --tables 0", "--tables"),
        ("run --workload oltp_read_only --table-size 0", "--table-size"),
        ("run --workload oltp_read_only --range-size 0", "at least 1"),
        ("run --workload oltp_read_only --rand-type pareto", "zipfian"),
        ("run --workload oltp_read_only --rand-zipfian-exp 0", "more than 0"),
        ("run --workload tpcb-like --tables 2", "--tables is for the workloads oltp_*"),
        ("load -S --rand-type uniform", "--rand-type is for the workloads oltp_*"),
        ("init --table-size 5", "--table-size is for the workloads oltp_*"),
        ("init --workload oltp_read_only -s 2", "-s is for pgbench's tables"),
    ] {
        let words: Vec<&str> = arguments.split_whitespace().collect();
        let done = finish(&mut lockscope(&words)).expect("it ends");
        assert_eq!(done.code, Some(2), "{arguments}: {}", done.stderr);
        assert!(done.stderr.contains(expected), "{arguments}: {}", done.stderr);
    }
}
