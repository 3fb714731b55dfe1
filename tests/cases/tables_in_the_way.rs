//! Tables that cannot be made are left alone, and what to do about them is said.

use std::process::Command;

use lockscope_tests::command::{Finished, Running, finish, lockscope};
use lockscope_tests::postgres::Postgres;

fn load(server: &Postgres, options: &[&str]) -> Finished {
    finish(&mut command(server, options)).expect("it ends")
}

fn command(server: &Postgres, options: &[&str]) -> Command {
    let dsn = server.dsn();
    lockscope(&[&["load", "-q", "-t", "1", "--dsn", &dsn], options].concat())
}

fn query(server: &Postgres, sql: &str) -> String {
    let mut psql = server.client("psql");
    let done = finish(psql.args(["-X", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-c", sql]));
    let done = done.expect("it ends");
    assert_eq!(done.code, Some(0), "{sql}: {}", done.stderr);
    done.stdout
}

fn refused(done: &Finished, expected: &[&str]) {
    assert_eq!(done.code, Some(2), "{}", done.stderr);
    for text in expected {
        assert!(done.stderr.contains(text), "no `{text}`: {}", done.stderr);
    }
}

#[test]
fn what_is_no_table_is_named_with_what_to_do() {
    let server = Postgres::start(&[]).expect("a server");
    query(&server, "create view pgbench_accounts as select 1 as aid");
    query(&server, "create view sbtest1 as select 1 as id");
    for options in [&["-S"][..], &["-S", "--force-init"]] {
        let said = ["pgbench_accounts is a view", "drop view pgbench_accounts"];
        refused(&load(&server, options), &said);
    }
    let oltp = load(&server, &["--workload", "oltp_point_select", "--force-init"]);
    refused(&oltp, &["sbtest1 is a view", "drop view sbtest1"]);
    let init = finish(&mut lockscope(&["init", "-q", "--dsn", &server.dsn()])).expect("it ends");
    refused(&init, &["\"pgbench_accounts\" is not a table", "DROP VIEW"]);
    assert_eq!(query(&server, "select aid from pgbench_accounts").trim(), "1");
}

#[test]
fn a_table_that_others_depend_on_stays_and_they_are_named() {
    let server = Postgres::start(&[]).expect("a server");
    assert_eq!(load(&server, &["-S"]).code, Some(0));
    query(&server, "create view mine as select aid from pgbench_accounts");
    let words = ["other objects depend on them", "view mine depends on", "CASCADE"];
    refused(&load(&server, &["-S", "-s", "2"]), &words);
    assert_eq!(query(&server, "select count(*) from mine").trim(), "100000");
}

#[test]
fn runs_that_make_tables_at_once_take_turns() {
    let server = Postgres::start(&[]).expect("a server");
    for options in [&["-S", "-s", "3"][..], &["--workload", "oltp_read_only", "--tables", "3"]] {
        let start = |_| Running::start(&mut command(&server, options)).expect("started");
        let runs: Vec<Running> = (0..3).map(start).collect();
        for run in runs {
            let done = run.wait().expect("it ends");
            assert_eq!(done.code, Some(0), "{options:?}: {}", done.stderr);
        }
    }
    assert_eq!(query(&server, "select count(*) from pgbench_branches").trim(), "3");
    assert_eq!(
        query(&server, "select count(*) from pg_locks where locktype = 'advisory'").trim(),
        "0"
    );
}
