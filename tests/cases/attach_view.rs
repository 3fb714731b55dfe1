//! `lockscope attach --dsn`: Postgres's own view beside the trace, from a session that only reads and
//! is in no number.

use std::fs;
use std::path::Path;
use std::process::Command;

use lockscope_tests::command::{finish, lockscope};
use lockscope_tests::postgres::Postgres;
use lockscope_tests::traced::{Run, Turn};
use serde_json::Value;
use tempfile::TempDir;

fn psql(server: &Postgres, sql: &str) -> String {
    let done = finish(server.client("psql").args(["-X", "-A", "-t", "-c", sql])).expect("psql");
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    done.stdout.trim().to_owned()
}

/// pgbench as the command, and Postgres's view of it.
fn viewed(turn: &Turn, server: &Postgres) -> Run {
    let directory = TempDir::new().expect("a directory");
    let file = directory.path().join("run").display().to_string();
    let postmaster = server.postmaster_pid().expect("a pid").to_string();
    let dsn = server.dsn();
    let client = server.client("pgbench");
    let program = client.get_program().to_str().expect("plain").to_owned();
    let options = ["attach", "--quiet", "--postgres", &postmaster, "-o", &file, "--dsn", &dsn];
    let load =
        ["--view-interval", "0.1", "--", &program, "-n", "-S", "-c", "4", "-j", "2", "-T", "2"];
    let done = turn.finish(|| {
        let mut command: Command = lockscope(&[&options[..], &load].concat());
        for (name, value) in client.get_envs() {
            command.env(name, value.expect("set"));
        }
        command
    });
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    assert!(!done.stderr.contains(Postgres::PASSWORD), "{}", done.stderr);
    assert!(done.stderr.contains("Postgres's view"), "{}", done.stderr);
    let saved = fs::read_to_string(&file).expect("the run is saved");
    assert!(!saved.contains(Postgres::PASSWORD));
    let run: Value = serde_json::from_str(&saved).expect("JSON");
    assert_eq!(schema_errors(&run), [""; 0]);
    Run(run)
}

fn schema_errors(run: &Value) -> Vec<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/run.schema.json");
    let schema = fs::read_to_string(path).expect("the schema");
    let schema = serde_json::from_str(&schema).expect("the schema is JSON");
    let validator = jsonschema::draft202012::new(&schema).expect("the schema is valid");
    validator.iter_errors(run).map(|error| error.to_string()).collect()
}

#[test]
fn sessions_and_statements_are_seen_and_lockscope_s_own_are_not() {
    let case = "sessions_and_statements_are_seen_and_lockscope_s_own_are_not";
    let Some(turn) = Turn::take(case) else { return };
    let preloaded = ("shared_preload_libraries", "pg_stat_statements");
    let server = Postgres::start(&[preloaded]).expect("a server");
    server.make_tables().expect("tables");
    let run = viewed(&turn, &server);
    let why = run.0["postgres_view"]["no_statements"].as_str();
    assert!(why.is_some_and(|why| why.contains("not in this database")), "{why:?}");
    psql(&server, "create extension pg_stat_statements");
    let run = viewed(&turn, &server);
    let view = &run.0["postgres_view"];
    assert!(view["looks_count"].as_u64() > Some(3), "{view}");
    assert!(view["activity"].as_array().is_some_and(|list| !list.is_empty()), "{view}");
    let statements = view["statements"].as_array().expect("statements");
    let select = statements
        .iter()
        .find(|statement| {
            let text = statement["query"].as_str().unwrap_or_default();
            text.starts_with("SELECT abalance FROM pgbench_accounts")
        })
        .unwrap_or_else(|| panic!("{view}"));
    // All of pgbench's transactions, and none of the session that looks.
    let counted = run.count("/client_report/transactions_count");
    assert_eq!(select["calls_count"].as_u64(), Some(counted));
    assert_eq!(run.count("/throughput/transactions_count"), counted);
    assert_eq!(run.backends_transactions(), counted);
    assert!(run.0["environment"]["postgres"]["version"].is_string());
}

#[test]
fn a_dsn_that_does_not_work_is_refused_before_the_command_runs() {
    let case = "a_dsn_that_does_not_work_is_refused_before_the_command_runs";
    let Some(turn) = Turn::take(case) else { return };
    let server = Postgres::start(&[]).expect("a server");
    let dsn = server.dsn_with_password("not it");
    let done = turn
        .finish(|| lockscope(&["attach", "--all", "--dsn", &dsn, "--", "/bin/echo", "it runs"]));
    assert_eq!(done.code, Some(125), "{}", done.stderr);
    assert_eq!(done.stdout, "");
    assert!(done.stderr.contains("password") && !done.stderr.contains("not it"), "{}", done.stderr);
}
