//! A server that refuses, is too small or dies is reported as what it is.

use lockscope_tests::command::{Finished, Running, finish, lockscope};
use lockscope_tests::postgres::Postgres;
use std::thread;
use std::time::Duration;

fn run(dsn: &str, arguments: &[&str]) -> Finished {
    let words = [&["run", "--no-trace", "--quiet", "--dsn", dsn], arguments].concat();
    finish(&mut lockscope(&words)).expect("it ends")
}

fn says(done: &Finished, expected: &[&str]) {
    for text in expected {
        assert!(done.stderr.contains(text), "it does not say `{text}`:\n{}", done.stderr);
    }
    assert!(!done.stderr.contains("panicked"), "{}", done.stderr);
}

#[test]
fn a_wrong_password_is_refused_and_never_shown() {
    let server = Postgres::start(&[]).expect("a server");
    let done = run(&server.dsn_with_password("sesame, please"), &["-T", "1"]);
    assert_eq!(done.code, Some(2), "{}", done.stderr);
    says(&done, &["password authentication failed", Postgres::USER]);
    assert!(!done.stderr.contains("sesame"), "{}", done.stderr);
}

#[test]
fn missing_tables_are_named() {
    let server = Postgres::start(&[]).expect("a server");
    let done = run(&server.dsn(), &["-T", "1", "--no-init"]);
    assert_eq!(done.code, Some(2), "{}", done.stderr);
    says(&done, &["pgbench_accounts", "--no-init"]);
}

#[test]
fn too_few_connections_are_counted() {
    let server = Postgres::start(&[("max_connections", "12")]).expect("a server");
    let done = run(&server.dsn(), &["-T", "1", "-c", "30"]);
    assert_eq!(done.code, Some(2), "{}", done.stderr);
    says(&done, &["12", "30", "max_connections"]);
}

#[test]
fn a_server_that_dies_mid_run_ends_the_run_with_a_message() {
    let server = Postgres::start(&[]).expect("a server");
    let dsn = server.dsn();
    let made = run(&dsn, &["-t", "1", "-c", "1"]);
    assert_eq!(made.code, Some(0), "{}", made.stderr);
    let words = ["run", "--no-trace", "--dsn", &dsn, "-c", "2", "-T", "3600", "--warmup", "0"];
    let running = Running::start(&mut lockscope(&words)).expect("started");
    // Whatever it is doing by then, it must notice.
    thread::sleep(Duration::from_secs(2));
    server.stop().expect("stopped");
    let done = running.wait().expect("it does not go on alone");
    assert!(matches!(done.code, Some(2 | 3)), "{:?}: {}", done.code, done.stderr);
    says(&done, &["connection"]);
}
