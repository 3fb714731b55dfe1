//! The measurement itself.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{
    Backend, ClientReport, Counters, Environment, Ledger, Load, Lock, OffCpu, OwnCost,
    PerTransaction, Plug, PostgresView, Probe, Profile, Removal, RunVerdict, TracedServer,
    WaitBalance, Warning,
};

/// One measurement: what was run, where, and where the time went.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// See [`super::SCHEMA_VERSION`].
    pub schema_version: u32,
    /// lockscope's own version.
    #[serde(default)]
    pub lockscope_version: String,
    /// When the measured part began, RFC 3339.
    #[serde(default)]
    pub started_at: String,
    /// The command line, passwords removed.
    #[serde(default)]
    pub command: Vec<String>,
    /// `locks` or `ledger`.
    #[serde(default)]
    pub depth: String,
    /// True when the run ended before its time; `warnings` say why.
    #[serde(default)]
    pub interrupted: bool,
    /// Machine, kernel, server.
    pub environment: Environment,
    /// What was run.
    pub workload: Workload,
    /// Transactions over the measured time.
    pub throughput: Throughput,
    /// Client-side latency of successful transactions; absent when none ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency_ns: Option<Latency>,
    /// How the load was run and what it met, beyond throughput and latency.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load: Option<Load>,
    /// What the time was lost to; absent when nothing was traced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verdict: Option<RunVerdict>,
    /// What throughput would gain without the lock that costs most; absent when nothing was traced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub removal: Option<Removal>,
    /// Where the time went, by side.
    pub ledger: Ledger,
    /// The contended locks, largest total first.
    pub locks: Vec<Lock>,
    /// One row a traced task.
    pub backends: Vec<Backend>,
    /// Block plugs; absent when no plug probe attached.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plug: Option<Plug>,
    /// Where tasks slept; absent when it was not watched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub off_cpu: Option<OffCpu>,
    /// Counters of the processor and the kernel; absent when nothing was counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counters: Option<Counters>,
    /// Who was on a CPU and where in its code; absent when it was not sampled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<Profile>,
    /// The same over time.
    pub intervals: Vec<Interval>,
    /// How each state moves with the latency from interval to interval, strongest first; empty
    /// with too few intervals to tell.
    #[serde(default)]
    pub correlations: Vec<Correlation>,
    /// The filters of the command line that narrow the trace or the lock table, in words.
    #[serde(default)]
    pub filters: Vec<String>,
    /// Losses by kind; a kind that did not occur is 0.
    pub losses: BTreeMap<String, u64>,
    /// What became of every wait; absent when nothing was traced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait_balance: Option<WaitBalance>,
    /// What lockscope itself cost; absent fields were not measured.
    pub own_cost: OwnCost,
    /// How each capability was attached, or why not.
    pub probes: Vec<Probe>,
    /// What the reader must know before believing a number.
    pub warnings: Vec<Warning>,
    /// The servers of an attached trace.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub servers: Vec<TracedServer>,
    /// What the attached benchmark says of itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_report: Option<ClientReport>,
    /// What Postgres says of its sessions and statements meanwhile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub postgres_view: Option<PostgresView>,
}

impl Run {
    /// Mean latency of the traced transactions, which the server's account adds up to; the mean of
    /// all where there is no such account.
    pub fn traced_latency_ns(&self) -> Option<f64> {
        let account = self.ledger.server.as_ref().map(|server| &server.per_transaction_ns);
        let traced =
            account.and_then(|account| account.rest_ns().map(|rest| account.total_ns() + rest));
        // Where the clients are somebody else's, the latency is the server's part of it.
        let told = self.ledger.server.as_ref().and_then(|server| server.latency_ns);
        let all = self.latency_ns.as_ref().map(|latency| latency.mean as f64);
        traced.or(all).or(told).filter(|mean| *mean > 0.0)
    }

    /// An empty run, written by this version.
    pub fn new() -> Run {
        Run {
            schema_version: super::SCHEMA_VERSION,
            lockscope_version: env!("CARGO_PKG_VERSION").to_owned(),
            ..Run::default()
        }
    }
}

/// What was run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Workload {
    /// `select-prepared`, `tpcb-like`, …
    pub name: String,
    /// `simple`, `extended`, `prepared`.
    pub protocol: String,
    /// Concurrent connections.
    pub clients: u32,
    /// Worker threads of the load generator.
    pub jobs: u32,
    /// Scale factor of the tables.
    pub scale: u32,
    /// Measured time, without warm-up.
    pub duration_ns: u64,
    /// Warm-up before it.
    pub warmup_ns: u64,
    /// CPU list the server was pinned to on request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pin_server: Option<String>,
    /// CPU list the load generator was pinned to on request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pin_client: Option<String>,
}

/// Transactions over the measured time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Throughput {
    /// Successful transactions per second.
    pub tps: f64,
    /// Successful transactions.
    pub transactions_count: u64,
    /// Failed transactions.
    pub failed_count: u64,
    /// Clients that gave up before the end.
    #[serde(default)]
    pub aborted_clients_count: u64,
    /// Those of `transactions_count` that ended while the programs were on: the divisor of every
    /// "per transaction" number.
    #[serde(default)]
    pub traced_transactions_count: u64,
}

/// Latency of a transaction: from an HDR histogram with 3 significant digits, or, where only the server
/// told it, from buckets that are at most a quarter wide.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    /// Arithmetic mean.
    pub mean: u64,
    /// Standard deviation.
    pub stddev: u64,
    /// Median.
    pub p50: u64,
    /// 90th percentile.
    pub p90: u64,
    /// 95th percentile.
    pub p95: u64,
    /// 99th percentile.
    pub p99: u64,
    /// 99.9th percentile.
    pub p999: u64,
    /// 99.99th percentile; absent in runs of older versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p9999: Option<u64>,
    /// Longest.
    pub max: u64,
}

/// Spearman's rank correlation of a state's nanoseconds per transaction with the mean latency,
/// across intervals. It tells what moves together, not what causes what.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Correlation {
    /// `spin.osq`, `lock_sleep.rwsem`, …
    pub state: String,
    /// -1 … 1.
    pub spearman: f64,
    /// Two-sided, as if intervals were independent.
    pub p_value: f64,
    /// Intervals behind it.
    pub intervals_count: u64,
}

/// Something that went on in an interval and may explain it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Mark {
    /// `checkpoint`, `autovacuum`.
    pub kind: String,
    /// How long it was at work in the interval, asleep excepted.
    pub busy_ns: u64,
}

/// One interval of the time series.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// Since the measured part began.
    pub start_ns: u64,
    /// Its length.
    pub duration_ns: u64,
    /// Successful transactions per second.
    pub tps: f64,
    /// Mean latency; absent when no transaction ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency_ns: Option<u64>,
    /// 99th percentile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency_p99_ns: Option<u64>,
    /// Server side, per traced transaction; absent when untraced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub per_transaction_ns: Option<PerTransaction>,
    /// Checkpoints and autovacuum at work.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub marks: Vec<Mark>,
}
