//! Loads whose answer is known, on this machine's kernel: a lock that is held while others sleep, tasks
//! that die in their waits, and slowness that is no lock's.

use lockscope_tests::command::binary;
use lockscope_tests::known::{Load, Plan, prove};
use lockscope_tests::postgres::Postgres;
use lockscope_tests::traced::Turn;
use std::time::{Duration, Instant};

/// Somebody else on this machine may be tracing.
const PATIENCE: Duration = Duration::from_secs(120);

#[test]
fn every_answer_is_the_known_one() {
    let Some(turn) = Turn::take("every_answer_is_the_known_one") else { return };
    let server = Postgres::start(&[]).expect("a server");
    server.make_tables().expect("tables");
    let results = tempfile::tempdir().expect("a directory");
    let loads = ["hold-rwsem", "hold-mutex", "futex", "cache", "sleep"];
    let stressors = binary("", "stress-hold").parent().expect("a directory").to_path_buf();
    let plan = Plan {
        loads: loads.into_iter().map(|name| Load::find(name).expect("a load")).collect(),
        seconds: 1.0,
        dsn: server.dsn(),
        stressors,
        results: results.path().to_path_buf(),
        reference: false,
        perf: false,
        options: Vec::new(),
    };
    let began = Instant::now();
    loop {
        match prove(&plan) {
            Err(error) if error.to_string().contains("another lockscope") => {
                assert!(began.elapsed() < PATIENCE, "{error:#}");
                std::thread::sleep(Duration::from_millis(500));
            }
            proven => break proven.expect("the known answers"),
        }
    }
    drop(turn);
}
