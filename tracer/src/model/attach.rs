//! An attached trace: the servers, and what their client says of itself.

use serde::{Deserialize, Serialize};

use super::{Interval, Latency, SideLedger, Throughput};

/// A server of the trace. Where there are several, each has an account of its own; `ledger` of the
/// run is their sum.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TracedServer {
    /// Its postmaster's pid, as this machine has it.
    pub postmaster: u32,
    /// The pid that the postmaster itself has, where it runs in a pid namespace of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inner_pid: Option<u32>,
    /// The port that it listens on; absent when that cannot be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    /// As it names it itself.
    pub data_directory: String,
    /// Transactions that its replies told; absent with one server, whose they all are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub throughput: Option<Throughput>,
    /// Their latency, from the waking of the backend to its reply, as far as the buckets tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency_ns: Option<Latency>,
    /// Its client backends; absent with one server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ledger: Option<SideLedger>,
    /// Its throughput over time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub intervals: Vec<Interval>,
}

/// What a benchmark says of itself, beside what the server's replies told.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ClientReport {
    /// `pgbench 15.8`; absent when it did not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<String>,
    /// Successful transactions, by its own count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transactions_count: Option<u64>,
    /// Failed ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed_count: Option<u64>,
    /// How often transactions were tried again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retries_count: Option<u64>,
    /// Its transactions per second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tps: Option<f64>,
    /// Its mean latency.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency_ns: Option<u64>,
    /// Time that it took to connect, and left out of its rate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connecting_ns: Option<u64>,
    /// Transactions that the server's replies told in all.
    pub told_count: u64,
    /// Its progress lines that lie in the trace, beside what the replies told meanwhile.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub intervals: Vec<ClientInterval>,
    /// Why the two differ, as far as that is known; absent where they agree.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub explanation: Option<String>,
}

/// A progress line.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ClientInterval {
    /// When the line came, since the trace began.
    pub at_ns: u64,
    /// The time that it tells of, by the client's clock.
    pub duration_ns: u64,
    /// Transactions per second, as it says.
    pub tps: f64,
    /// The same by the server's replies.
    pub told_tps: f64,
    /// Its latency: pgbench's mean, sysbench's percentile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency_ns: Option<u64>,
}
