//! The time series: intervals of any length, with marks for what else was at work.

use lockscope_tests::postgres::Postgres;
use lockscope_tests::traced::{Run, Turn};
use serde_json::Value;

#[test]
fn a_checkpoint_is_marked_in_its_interval() {
    let Some(turn) = Turn::take("a_checkpoint_is_marked_in_its_interval") else { return };
    let server = Postgres::start(&[]).expect("a server");
    server.make_tables().expect("tables");
    let dsn = server.dsn();
    let words = ["--dsn", &dsn, "--workload", "tpcb-like", "-n", "-c", "2", "--no-control"];
    let more = ["-T", "5", "--warmup", "0", "--interval", "0.5", "--json"];
    let running = turn.start(&[&words[..], &more].concat()).expect("it measures");
    for _ in 0..3 {
        let done = server.client("psql").args(["-X", "-c", "CHECKPOINT"]).output().expect("psql");
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        std::thread::sleep(std::time::Duration::from_millis(700));
    }
    let done = running.wait().expect("it ends");
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    let run = Run::of(&done).expect("JSON");
    let intervals = run.list("intervals");
    assert_eq!(intervals.len(), 10, "{intervals:?}");
    let marks = |interval: &&Value| {
        interval["marks"].as_array().is_some_and(|marks| {
            marks
                .iter()
                .any(|mark| mark["kind"] == "checkpoint" && mark["busy_ns"].as_u64() > Some(0))
        })
    };
    let marked = intervals.iter().filter(|interval| marks(interval)).count();
    assert!((1..10).contains(&marked), "{marked} of 10: {intervals:?}");
    let split = intervals.iter().filter(|interval| interval["per_transaction_ns"].is_object());
    assert_eq!(split.count(), 10, "every interval has its account");
    // Ten intervals are enough to look for what moves with the latency.
    assert!(!run.list("correlations").is_empty());
    let counts = run.list("correlations").into_iter().map(|found| &found["intervals_count"]);
    assert!(counts.clone().all(|count| count == 10), "{:?}", counts.collect::<Vec<_>>());
}
