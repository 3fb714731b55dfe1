//! The oltp_* workloads do to the server what sysbench does: tables and statements.

use std::process::Command;

use lockscope_tests::command::{finish, lockscope, skip};
use lockscope_tests::postgres::Postgres;

const WORKLOADS: [&str; 4] =
    ["oltp_point_select", "oltp_read_only", "oltp_read_write", "oltp_update_index"];

fn output(command: &mut Command) -> String {
    let done = finish(command).expect("it ends");
    assert_eq!(done.code, Some(0), "{command:?}: {}{}", done.stderr, done.stdout);
    done.stdout
}

fn is_missing(case: &str) -> bool {
    let missing = Command::new("sysbench").arg("--version").output().is_err();
    if missing {
        skip(case, "sysbench is not installed; `cargo xtask setup` installs it");
    }
    missing
}

fn sysbench(server: &Postgres, workload: &str, words: &[&str]) {
    let connection = server.client("psql");
    let variable = |name: &str| {
        let value =
            connection.get_envs().find(|(key, _)| *key == name).and_then(|(_, value)| value);
        value.expect("set").to_str().expect("plain").to_owned()
    };
    let mut command = Command::new("sysbench");
    command.arg(workload).args([
        "--db-driver=pgsql".to_owned(),
        format!("--pgsql-host={}", variable("PGHOST")),
        format!("--pgsql-port={}", variable("PGPORT")),
        format!("--pgsql-user={}", variable("PGUSER")),
        format!("--pgsql-password={}", variable("PGPASSWORD")),
        format!("--pgsql-db={}", variable("PGDATABASE")),
    ]);
    output(command.args(words));
}

fn query(server: &Postgres, sql: &str) -> String {
    output(server.client("psql").args(["-X", "-A", "-t", "-c", sql]))
}

/// Definitions, numbers of rows, and the texts' form and the range of k.
fn tables(server: &Postgres) -> String {
    let dump = output(server.client("pg_dump").args(["--schema-only", "--table=sbtest*"]));
    let lines: Vec<&str> = dump.lines().filter(|line| !line.contains("restrict ")).collect();
    let content = query(
        server,
        "select count(*), min(id), max(id), nextval('sbtest2_id_seq'), min(k) >= 1, max(k) <= 300, \
           bool_and(c ~ '^(\\d{11}-){9}\\d{11} *$'), bool_and(pad ~ '^(\\d{11}-){4}\\d{11} *$') \
         from sbtest2",
    );
    lines.join("\n") + &content
}

/// The statements that the server executed during `action`, in their order, the tables' numbers and
/// the final semicolons aside.
fn executed(server: &Postgres, action: impl FnOnce()) -> Vec<String> {
    let before = server.log().expect("a log").len();
    action();
    let log = server.log().expect("a log").split_off(before);
    let statements = log.lines().filter_map(|line| {
        let (_, rest) = line.split_once("LOG:  execute ")?;
        let (_, sql) = rest.split_once(": ")?;
        Some(sql.trim_end_matches(';').replace("sbtest2", "sbtest1").replace("sbtest3", "sbtest1"))
    });
    statements.collect()
}

#[test]
fn the_tables_are_sysbench_s() {
    if is_missing("the_tables_are_sysbench_s") {
        return;
    }
    let server = Postgres::start(&[]).expect("a server");
    let words = ["--tables=2", "--table-size=300"];
    sysbench(&server, "oltp_read_only", &[&words[..], &["prepare"]].concat());
    let theirs = tables(&server);
    let dsn = server.dsn();
    let init = ["init", "-q", "--workload", "oltp_read_only", "--dsn", &dsn];
    output(&mut lockscope(&[&init[..], &words].concat()));
    assert!(theirs.contains("CREATE INDEX k_2") && theirs.contains("300|1|300|301|t|t|t|t"));
    assert_eq!(theirs, tables(&server));
}

#[test]
fn the_statements_are_sysbench_s() {
    if is_missing("the_statements_are_sysbench_s") {
        return;
    }
    let server = Postgres::start(&[("log_statement", "all")]).expect("a server");
    let words = ["--tables=3", "--table-size=200", "--range-size=20"];
    sysbench(&server, "oltp_read_only", &[&words[..], &["prepare"]].concat());
    let dsn = server.dsn();
    for workload in WORKLOADS {
        let theirs = executed(&server, || {
            sysbench(&server, workload, &[&words[..], &["--events=3", "--time=0", "run"]].concat());
        });
        let run = ["run", "--no-trace", "-q", "-t", "3", "--no-init", "--workload", workload];
        let ours = executed(&server, || {
            output(&mut lockscope(&[&run[..], &words, &["--dsn", &dsn]].concat()));
        });
        let ours: Vec<&String> = ours.iter().filter(|sql| is_of_the_load(sql)).collect();
        let theirs: Vec<&String> = theirs.iter().filter(|sql| is_of_the_load(sql)).collect();
        assert!(theirs.len() >= 3, "{workload}: {theirs:?}");
        assert_eq!(theirs, ours, "{workload}");
    }
}

/// lockscope's control connection uses the extended protocol too.
fn is_of_the_load(sql: &str) -> bool {
    sql.contains("sbtest1 ") || ["BEGIN", "COMMIT"].contains(&sql)
}

#[test]
fn others_tables_are_used_and_never_dropped_unasked() {
    if is_missing("others_tables_are_used_and_never_dropped_unasked") {
        return;
    }
    let server = Postgres::start(&[]).expect("a server");
    sysbench(&server, "oltp_read_only", &["--table-size=100", "prepare"]);
    let dsn = server.dsn();
    let run = |words: &[&str]| {
        let run = ["run", "--no-trace", "-q", "-t", "5", "--workload", "oltp_read_write"];
        finish(&mut lockscope(&[&run[..], words, &["--dsn", &dsn]].concat())).expect("it ends")
    };
    assert_eq!(run(&["--table-size=100"]).code, Some(0));
    for (words, expected) in [
        (&["--table-size=101"][..], "ids up to 100 only"),
        (&["--table-size=100", "--tables=2"], "sbtest2 is missing"),
        (&["--table-size=100", "-s", "2"], "--table-size"),
    ] {
        let done = run(words);
        assert_eq!(done.code, Some(2), "{words:?}: {}", done.stderr);
        assert!(done.stderr.contains(expected), "{words:?}: {}", done.stderr);
    }
    assert_eq!(run(&["--table-size=150", "--force-init"]).code, Some(0));
    // From now on they are lockscope's, which makes them anew as needed.
    assert_eq!(run(&["--table-size=50", "--tables=2"]).code, Some(0));
    assert_eq!(query(&server, "select max(id) from sbtest2").trim(), "50");
}
