//! Runs that are made up, with a truth that is known, and their comparison.

#[path = "../made/mod.rs"]
mod made;

use lockscope::analyse::compare::{Options, compare};
use lockscope::model::{
    Comparison, Interval, Latency, Load, Lock, PerTransaction, Plug, Probe, Run, SideLedger,
    Verdict,
};
use made::noise;
pub(crate) use made::side;

/// A run of 8 clients whose transactions take 300 us and spend `osq_ns` of it in osq on the pipe's mutex.
pub(crate) fn run(seed: u64, intervals: u64, osq_ns: f64) -> Run {
    let mut noise = noise(seed);
    let mut run = Run::new();
    run.depth = "ledger".to_owned();
    run.started_at = "2026-11-30T10:00:00Z".to_owned();
    run.workload.name = "select-prepared".to_owned();
    run.workload.protocol = "prepared".to_owned();
    (run.workload.clients, run.workload.jobs, run.workload.scale) = (8, 2, 10);
    run.workload.duration_ns = intervals * 1_000_000_000;
    run.environment.kernel.release = "6.12.1".to_owned();
    run.environment.cpu.count = 8;
    run.environment.cpu.governor = Some("performance".to_owned());
    run.load = Some(Load { io: "epoll".to_owned(), ..Load::default() });
    let mut sums = [0.0; 4];
    for index in 0..intervals {
        let account = [
            180_000.0 * (1.0 + 0.02 * noise()),
            osq_ns * (1.0 + 0.1 * noise()),
            20_000.0 * (1.0 + 0.1 * noise()),
            100_000.0 * (1.0 + 0.02 * noise()),
        ];
        let latency: f64 = account.iter().sum();
        sums.iter_mut().zip(account).for_each(|(sum, ns)| *sum += ns / intervals as f64);
        run.intervals.push(Interval {
            start_ns: index * 1_000_000_000,
            duration_ns: 1_000_000_000,
            tps: 8e9 / (latency + 5_000.0),
            latency_ns: Some(latency as u64),
            latency_p99_ns: Some((3.0 * latency * (1.0 + 0.05 * noise())) as u64),
            per_transaction_ns: Some(per_transaction(account)),
            ..Interval::default()
        });
    }
    let latency: f64 = sums.iter().sum();
    run.throughput.tps = 8e9 / (latency + 5_000.0);
    run.throughput.transactions_count = (run.throughput.tps * intervals as f64) as u64;
    run.throughput.traced_transactions_count = run.throughput.transactions_count;
    let of = |share: f64| (latency * share) as u64;
    run.latency_ns = Some(Latency {
        mean: of(1.0),
        stddev: of(0.4),
        p50: of(0.9),
        p90: of(1.4),
        p95: of(1.8),
        p99: of(3.0),
        p999: of(6.0),
        p9999: None,
        max: of(20.0),
    });
    run.ledger.server = Some(SideLedger {
        per_transaction_ns: per_transaction(sums),
        tasks_count: 8,
        ..SideLedger::default()
    });
    let traced = run.throughput.traced_transactions_count as f64;
    run.locks = vec![Lock {
        class: "osq".to_owned(),
        name: "pipe.mutex".to_owned(),
        side: "server".to_owned(),
        caller: Some("pipe_write".to_owned()),
        total_ns: (sums[1] * traced) as u64,
        count: traced as u64,
        ..Lock::default()
    }];
    run.plug = Some(Plug { flushes_per_transaction: Some(0.01), ..Plug::default() });
    run.probes = vec![Probe {
        capability: "osq".to_owned(),
        method: "fentry".to_owned(),
        ..Probe::default()
    }];
    run
}

fn per_transaction([cpu, osq, runq, rest]: [f64; 4]) -> PerTransaction {
    PerTransaction {
        cpu: Some(cpu),
        runq: Some(runq),
        runq_by_cause: [("queued".to_owned(), runq)].into(),
        io: Some(0.0),
        spin: [("osq".to_owned(), osq), ("rq".to_owned(), 0.0)].into(),
        client_and_transport: Some(rest),
        ..PerTransaction::default()
    }
}

pub(crate) fn compared(base: Vec<Run>, new: Vec<Run>, conditions: &[&str]) -> Comparison {
    let conditions = conditions.iter().map(|text| text.parse().expect("a condition")).collect();
    let options = Options { conditions, ..Options::default() };
    compare(&side("base", base), &side("new", new), &options).expect("compared")
}

pub(crate) fn verdict(comparison: &Comparison, metric: &str) -> Option<Verdict> {
    let mut rows = comparison.groups.iter().flat_map(|group| &group.rows);
    rows.find(|row| row.metric == metric).and_then(|row| row.verdict)
}
