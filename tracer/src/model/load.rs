//! The load: how it was run, and what it met beyond throughput and latency.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::Latency;

/// pgbench's report, as far as it is not throughput and latency, and what pgbench does not tell.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Load {
    /// Measured time that was asked for; absent where a number of transactions was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked_duration_ns: Option<u64>,
    /// Transactions a client runs; absent where a time was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transactions_per_client: Option<u64>,
    /// Transactions a second that were due (`-R`); absent in a closed loop, where each client begins
    /// one when its last has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<f64>,
    /// `-L`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency_limit_ns: Option<u64>,
    /// Pause of a client between two transactions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub think_ns: Option<u64>,
    /// Time over which the clients began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ramp_ns: Option<u64>,
    /// How often a failed transaction is tried, 0 without limit.
    #[serde(default)]
    pub max_tries: u32,
    /// A connection a transaction (`-C`).
    #[serde(default)]
    pub reconnect: bool,
    /// Whether the text tells failures by kind (`--failures-detailed`).
    #[serde(default)]
    pub failures_detailed: bool,
    /// The driver of the sockets: `epoll` or `uring`.
    #[serde(default)]
    pub io: String,
    /// Why it is not the one that was asked for, or the default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub io_reason: Option<String>,
    /// Seed of all random values.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub random_seed: Option<u64>,
    /// How the accounts are partitioned; absent where they are not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partitions: Option<Partitions>,
    /// All of the load.
    #[serde(default)]
    pub total: LoadCounts,
    /// The same by script.
    #[serde(default)]
    pub scripts: Vec<LoadScript>,
    /// From the first connection's begin to the last one's; absent with `reconnect`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub initial_connection_ns: Option<u64>,
    /// Mean time of connecting; only with `reconnect`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connection_mean_ns: Option<u64>,
    /// How the latencies of successful transactions are spread.
    #[serde(default)]
    pub histogram: Vec<Bucket>,
    /// The worker threads.
    #[serde(default)]
    pub workers: Vec<LoadWorker>,
}

/// How a table is partitioned.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Partitions {
    /// `range` or `hash`.
    pub method: String,
    /// How many.
    pub count: u32,
}

/// Transactions of the measured part by how they ended.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LoadCounts {
    /// Successful ones.
    pub transactions_count: u64,
    /// Failed ones by SQLSTATE.
    #[serde(default)]
    pub failures: BTreeMap<String, u64>,
    /// Never begun, for they were later than the latency limit already.
    #[serde(default)]
    pub skipped_count: u64,
    /// Successful, and longer than the latency limit.
    #[serde(default)]
    pub late_count: u64,
    /// Tried more than once, however they ended.
    #[serde(default)]
    pub retried_count: u64,
    /// Tries after each first one.
    #[serde(default)]
    pub retries_count: u64,
    /// Mean latency of the successful ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency_mean_ns: Option<f64>,
    /// Its standard deviation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency_stddev_ns: Option<f64>,
    /// How much later than due they began, on average; only under a rate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lag_mean_ns: Option<f64>,
    /// The same at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lag_max_ns: Option<f64>,
}

impl LoadCounts {
    /// Failed transactions.
    pub fn failed_count(&self) -> u64 {
        self.failures.values().sum()
    }

    /// Failed ones with this SQLSTATE.
    pub fn failed_with(&self, sqlstate: &str) -> u64 {
        self.failures.get(sqlstate).copied().unwrap_or_default()
    }

    /// All, skipped ones included.
    pub fn all_count(&self) -> u64 {
        self.transactions_count + self.failed_count() + self.skipped_count
    }
}

/// One script of the load.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LoadScript {
    /// Its file, or pgbench's words for a built-in: `<builtin: select only>`.
    pub name: String,
    /// Its weight.
    pub weight: u32,
    /// Its transactions.
    pub counts: LoadCounts,
    /// Its commands, where they were measured (`-r`).
    #[serde(default)]
    pub commands: Vec<LoadCommand>,
}

/// One command of a script.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LoadCommand {
    /// A statement's first line, or a meta-command.
    pub text: String,
    /// How often it was executed.
    pub count: u64,
    /// Mean time of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mean_ns: Option<f64>,
    /// Failures of it after which the transaction was not tried again.
    pub failed_count: u64,
    /// Failures of it after which it was.
    #[serde(default)]
    pub retries_count: u64,
}

/// A step of a histogram.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bucket {
    /// Values of at least this.
    pub from_ns: u64,
    /// Values below this.
    pub to_ns: u64,
    /// How many.
    pub count: u64,
}

/// A thread of the load generator in the measured part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LoadWorker {
    /// On a CPU.
    pub cpu_ns: u64,
    /// Ready to run, and waiting for a CPU; absent where the kernel does not tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_queue_ns: Option<u64>,
    /// The time in which these were counted: the measured part, as exactly as its ends were read.
    pub wall_ns: u64,
}

impl LoadWorker {
    /// Share of the time on a CPU.
    pub fn cpu_share(&self) -> f64 {
        self.cpu_ns as f64 / self.counted_ns() as f64
    }

    /// Share of the time waiting for one.
    pub fn run_queue_share(&self) -> f64 {
        self.run_queue_ns.unwrap_or_default() as f64 / self.counted_ns() as f64
    }

    /// The time that the counts are of. The kernel counts a wait when it ends, also what of it lay before
    /// the measured part: then it is more than that, and all of it was spent so.
    fn counted_ns(&self) -> u64 {
        let spent_ns = self.cpu_ns.saturating_add(self.run_queue_ns.unwrap_or_default());
        self.wall_ns.max(spent_ns).max(1)
    }
}

/// Percentiles by name, smallest first.
pub fn percentiles(latency: &Latency) -> Vec<(&'static str, u64)> {
    let mut named = vec![
        ("p50", latency.p50),
        ("p90", latency.p90),
        ("p95", latency.p95),
        ("p99", latency.p99),
        ("p99.9", latency.p999),
    ];
    named.extend(latency.p9999.map(|ns| ("p99.99", ns)));
    named.push(("max", latency.max));
    named
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_s_shares_are_of_the_time_that_was_counted() {
        let shares = |cpu_ns, run_queue_ns| {
            let worker = LoadWorker { cpu_ns, run_queue_ns, wall_ns: 200 };
            (worker.cpu_share(), worker.run_queue_share())
        };
        assert_eq!(shares(50, Some(100)), (0.25, 0.5));
        assert_eq!(shares(50, None), (0.25, 0.0));
        // The wait began before the measured part: together they are all of the time, not more.
        assert_eq!(shares(50, Some(350)), (0.125, 0.875));
        assert_eq!(LoadWorker::default().cpu_share(), 0.0);
    }
}
