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

/// `LOCKSCOPE_TEST_BACKENDS=1000` for more.
#[test]
fn many_backends_have_an_account_each_while_others_come_and_go() {
    let case = "many_backends_have_an_account_each_while_others_come_and_go";
    let Some(turn) = Turn::take(case) else { return };
    let backends = std::env::var("LOCKSCOPE_TEST_BACKENDS").unwrap_or("200".to_owned());
    let count: u64 = backends.parse().expect("LOCKSCOPE_TEST_BACKENDS is a number");
    let room = (count + 50).to_string();
    let server = Postgres::start(&[("max_connections", &room), ("shared_buffers", "64MB")]);
    let server = server.expect("a server");
    let dsn = server.dsn();
    server.make_tables().expect("tables");
    let words = ["-S", "-c", &backends, "-T", "100", "--warmup", "0", "--json", "--dsn", &dsn];
    let run = turn.start(&[&words[..], &["--no-control", "--no-init", "--no-vacuum"]].concat());
    let run = run.expect("traced");
    let mut pgbench = server.client("pgbench");
    pgbench.args(["-n", "-S", "-C", "-c", "2", "-t", "20"]);
    let churn = finish(&mut pgbench).expect("pgbench");
    assert_eq!(churn.code, Some(0), "{}", churn.stderr);
    let json = interrupted(run);

    for kind in ["tasks_full", "tid_reused", "nested_too_deep"] {
        assert_eq!(json.loss(kind), 0, "{kind}");
    }
    assert_eq!(json.count("/ledger/server/tasks_count"), count);
    let tasks = json.list("backends");
    let clients: Vec<_> = tasks.iter().filter(|task| task["role"] == "client backend").collect();
    assert!(clients.len() as u64 >= count, "{} of {count}", clients.len());
    for task in clients {
        assert!(task["wall_ns"].as_u64() > Some(0), "{task}");
    }
    let balance = &json.0["wait_balance"];
    let of = |name: &str| balance[name].as_u64().unwrap_or_else(|| panic!("{name}: {balance}"));
    assert_eq!(of("begin_count"), of("end_count") + of("open_count") + of("dropped_count"));
}

fn interrupted(run: Running) -> Run {
    run.signal(nix::sys::signal::Signal::SIGINT).expect("sent");
    let done = run.wait().expect("it ends");
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    Run::of(&done).expect("JSON")
}
