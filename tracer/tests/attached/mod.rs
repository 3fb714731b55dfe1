//! What only an attached trace has: made up, no measurement.

use lockscope::model::{
    Activity, ClientInterval, ClientReport, Interval, Latency, LatencyBand, LockInView,
    PerTransaction, PostgresView, Run, SideLedger, Statement, Throughput, TracedServer,
};

/// The client's own words, two servers and Postgres's view.
pub(crate) fn attach(run: &mut Run) {
    run.client_report = Some(client());
    run.servers =
        vec![server(5432, 400, Some(1)), TracedServer { port: None, ..server(5433, 1, None) }];
    run.postgres_view = Some(view());
}

fn client() -> ClientReport {
    let interval = |at_s: u64, tps: f64, told_tps: f64| ClientInterval {
        at_ns: at_s * 1_000_000_000,
        duration_ns: 1_000_000_000,
        tps,
        told_tps,
        latency_ns: (tps > 0.0).then(|| (4e9 / tps) as u64),
    };
    ClientReport {
        program: Some("pgbench 17.2".to_owned()),
        transactions_count: Some(3_000),
        failed_count: Some(1),
        retries_count: Some(2),
        tps: Some(1_000.4),
        latency_ns: Some(3_998_000),
        connecting_ns: Some(5_100_000),
        told_count: 6_001,
        // The ninth is left out: it differs least.
        intervals: (1..=9).map(|at| interval(at, 1_000.0, 2_000.0 - at as f64)).collect(),
        explanation: Some(
            "each of its transactions is 2 of the server's: its script ends that many".to_owned(),
        ),
    }
}

fn server(port: u16, transactions_count: u64, inner_pid: Option<u32>) -> TracedServer {
    let account = PerTransaction {
        cpu: Some(60_000.0),
        io: Some(30_000.0),
        runq: Some(0.0),
        spin: [("osq".to_owned(), 10_000.0)].into(),
        ..PerTransaction::default()
    };
    TracedServer {
        postmaster: 10_864,
        inner_pid,
        port: Some(port),
        data_directory: format!("/var/lib/postgresql/{port}/main"),
        throughput: Some(Throughput {
            tps: transactions_count as f64 / 3.0,
            transactions_count,
            traced_transactions_count: transactions_count,
            ..Throughput::default()
        }),
        latency_ns: Some(Latency {
            mean: 100_000,
            p50: 90_000,
            p99: 700_000,
            ..Latency::default()
        }),
        ledger: Some(SideLedger {
            per_transaction_ns: account,
            transactions_count: Some(transactions_count),
            latency_ns: Some(100_000.0),
            by_latency: vec![LatencyBand {
                name: "slowest".to_owned(),
                latency_from_ns: 900_000,
                ..LatencyBand::default()
            }],
            tasks_count: 4,
            wall_ns: Some(12_000_000_000),
            ..SideLedger::default()
        }),
        intervals: vec![Interval {
            duration_ns: 3_000_000_000,
            tps: transactions_count as f64 / 3.0,
            ..Interval::default()
        }],
    }
}

fn view() -> PostgresView {
    let activity = |event: Option<&str>, query: Option<&str>, seen_count| Activity {
        wait_event: event.map(str::to_owned),
        query_id: query.map(str::to_owned),
        seen_count,
    };
    PostgresView {
        period_ns: 1_000_000_000,
        looks_count: 1,
        activity: vec![
            activity(Some("LWLock/WALWrite"), Some("-4611686018427387904"), 1_800),
            activity(None, Some("17"), 1),
            activity(Some("IO/DataFileRead"), None, 1),
        ],
        statements: vec![Statement {
            query_id: "-4611686018427387904".to_owned(),
            query: "UPDATE pgbench_accounts SET abalance = abalance + $1 WHERE aid = $2 AND a \
                    very long condition that no table has room for"
                .to_owned(),
            calls_count: 1,
            total_ns: 1_500_000,
        }],
        no_statements: None,
        locks: vec![LockInView {
            class: "osq".to_owned(),
            name: "pipe.mutex".to_owned(),
            activity: activity(Some("LWLock/WALWrite"), Some("17"), 1),
            seen_count: 1,
        }],
    }
}
