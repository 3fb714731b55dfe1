//! Backends that come and go while the run is traced get accounts of their own, and none is lost.

use lockscope_tests::command::{Running, finish};
use lockscope_tests::postgres::Postgres;
use lockscope_tests::traced::{Run, Turn};

#[test]
fn every_child_of_the_server_has_an_account() {
    let Some(turn) = Turn::take("every_child_of_the_server_has_an_account") else { return };
    let server = Postgres::start(&[]).expect("a server");
    let dsn = server.dsn();
    server.make_tables().expect("tables");

    let words = ["-S", "-c", "1", "-T", "100", "--warmup", "0", "--json", "--dsn", &dsn];
    let run = turn.start(&[&words[..], &["--no-control", "--no-init"]].concat()).expect("traced");
    // A connection a transaction.
    const CONNECTIONS: usize = 100;
    let mut pgbench = server.client("pgbench");
    pgbench.args(["-n", "-S", "-C", "-c", "2", "-t", &(CONNECTIONS / 2).to_string()]);
    let churn = finish(&mut pgbench).expect("pgbench");
    assert_eq!(churn.code, Some(0), "{}", churn.stderr);
    let json = interrupted(run);

    for kind in ["tasks_full", "tid_reused", "nested_too_deep"] {
        assert_eq!(json.loss(kind), 0, "{kind}");
    }
    let tasks = json.list("backends");
    let children: Vec<_> = tasks.iter().filter(|task| task["side"] == "server").collect();
    if json.method("tasks") == "none" {
        return;
    }
    assert!(children.len() > CONNECTIONS, "{} tasks", children.len());
    for task in children {
        assert!(task["role"].as_str().is_some_and(|role| !role.is_empty()), "{task}");
        assert!(task["wall_ns"].as_u64() > Some(0), "{task}");
    }
    // Only the run's own client is in the transactions' account.
    assert_eq!(json.count("/ledger/server/tasks_count"), 1);
    assert!(json.count("/ledger/background/tasks_count") > CONNECTIONS as u64);
}

fn interrupted(run: Running) -> Run {
    run.signal(nix::sys::signal::Signal::SIGINT).expect("sent");
    let done = run.wait().expect("it ends");
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    Run::of(&done).expect("JSON")
}
