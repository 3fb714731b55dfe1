//! The measurement itself.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::Environment;

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
    /// Where the time went, by side.
    pub ledger: Ledger,
    /// The contended locks, largest total first.
    pub locks: Vec<Lock>,
    /// One row a traced task.
    pub backends: Vec<Backend>,
    /// Block plugs; absent when no plug probe attached.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plug: Option<Plug>,
    /// The same over time.
    pub intervals: Vec<Interval>,
    /// Losses by kind; a kind that did not occur is 0.
    pub losses: BTreeMap<String, u64>,
    /// What lockscope itself cost; absent fields were not measured.
    pub own_cost: OwnCost,
    /// How each capability was attached, or why not.
    pub probes: Vec<Probe>,
    /// What the reader must know before believing a number.
    pub warnings: Vec<Warning>,
}

impl Run {
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

/// Latency of a transaction, from an HDR histogram with 3 significant digits.
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
    /// Longest.
    pub max: u64,
}

/// Where the time went, by side. A side that was not traced is absent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Ledger {
    /// The server's client backends and their parallel workers: their time is the transactions'.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<SideLedger>,
    /// The server's other processes (postmaster, checkpointer, walwriter, …), which no
    /// transaction's latency contains (no remainder).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub background: Option<SideLedger>,
    /// The load generator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client: Option<SideLedger>,
    /// Every other task of the machine, as one sum (no wall time, no remainder).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub other: Option<SideLedger>,
}

/// One side's account.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SideLedger {
    /// Means over the traced transactions.
    pub per_transaction_ns: PerTransaction,
    /// Tasks summed.
    #[serde(default)]
    pub tasks_count: u64,
    /// Task wall time: the sum over tasks of the time each was traced with the programs on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wall_ns: Option<u64>,
    /// Ended waits by class.
    #[serde(default)]
    pub wait_counts: BTreeMap<String, u64>,
}

/// Nanoseconds per transaction, by state.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PerTransaction {
    /// Spun in interrupt context while one of the side's tasks was current.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub irq: Option<f64>,
    /// `spin{class}`: on a CPU, spinning on a kernel lock.
    #[serde(default)]
    pub spin: BTreeMap<String, f64>,
    /// `lock_sleep{class}`: in the slow path of a lock that sleeps.
    #[serde(default)]
    pub lock_sleep: BTreeMap<String, f64>,
    /// The rest of the mean latency, which this depth does not split. Server side only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_split: Option<f64>,
}

impl PerTransaction {
    /// All lock time: spins, sleeps and interrupt spins.
    pub fn lock_ns(&self) -> f64 {
        self.spin.values().sum::<f64>()
            + self.lock_sleep.values().sum::<f64>()
            + self.irq.unwrap_or(0.0)
    }

    /// All spin time.
    pub fn spin_ns(&self) -> f64 {
        self.spin.values().sum()
    }
}

/// One contended lock (class, address, side) with the stack that waited longest for it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Lock {
    /// Lock class.
    pub class: String,
    /// Best name: a symbol, `rq[3].lock`, or the caller's function in parentheses.
    pub name: String,
    /// How the name was found: `symbol`, `rq`, `caller`, `address`.
    #[serde(default)]
    pub name_source: String,
    /// Kernel address, `0x…`; absent when the hook does not tell it or it was withheld.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// `server`, `client`, `other`.
    pub side: String,
    /// Ended waits (exact).
    pub count: u64,
    /// Their nanoseconds (exact).
    pub total_ns: u64,
    /// Mean.
    pub mean_ns: u64,
    /// Upper bound of the log2 bucket that holds the 99th percentile.
    pub p99_ns: u64,
    /// Longest.
    pub max_ns: u64,
    /// Who waited, from samples: tids, most waiting time first, at most 8.
    #[serde(default)]
    pub tids: Vec<u32>,
    /// Distinct waiting tids among the samples.
    #[serde(default)]
    pub tids_count: u64,
    /// The heaviest sampled stack, innermost first, `function+0xoffset`.
    #[serde(default)]
    pub stack: Vec<String>,
    /// The first function above the lock's own code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub caller: Option<String>,
    /// Share of the sampled waiting time that `stack` holds, 0..1: an estimate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stack_share: Option<f64>,
    /// Samples behind the stack and tids.
    #[serde(default)]
    pub samples_count: u64,
}

/// One traced task.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Backend {
    /// Process id, in the initial pid namespace.
    pub pid: u32,
    /// Thread id.
    pub tid: u32,
    /// `server` or `client`.
    pub side: String,
    /// `client backend`, `checkpointer`, `walwriter`, `load worker`, …
    pub role: String,
    /// Transactions it ended (ReadyForQuery with status `I`) while traced; absent when the request
    /// probe is not attached or does not apply.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transactions_count: Option<u64>,
    /// Traced wall time.
    pub wall_ns: u64,
    /// Spin time.
    pub spin_ns: u64,
    /// Lock sleep time.
    pub lock_sleep_ns: u64,
    /// Interrupt spins while it was current.
    pub irq_ns: u64,
    /// Time by state and class, `spin.osq` and so on.
    #[serde(default)]
    pub states_ns: BTreeMap<String, u64>,
}

/// Block plugs over the traced time, machine-wide.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Plug {
    /// Flush calls (or unplug events) per transaction.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flushes_per_transaction: Option<f64>,
    /// Requests handed over per non-empty flush.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requests_per_flush: Option<f64>,
    /// Time in flush calls per transaction; needs a function probe.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flush_ns_per_transaction: Option<f64>,
    /// The counters by owner: `server`, `client`, `kworker`, `other`.
    pub by_owner: BTreeMap<String, PlugOwner>,
}

/// Plug counters of one owner. Absent = its probe is not attached.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PlugOwner {
    /// `blk_start_plug` calls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_count: Option<u64>,
    /// `blk_finish_plug` calls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finish_count: Option<u64>,
    /// `block_plug` events.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plug_count: Option<u64>,
    /// `block_unplug` events.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unplug_count: Option<u64>,
    /// Requests in them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requests_count: Option<u64>,
    /// Implicit ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub implicit_unplug_count: Option<u64>,
    /// Flush calls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flush_count: Option<u64>,
    /// Flush calls with an empty plug.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub empty_flush_count: Option<u64>,
    /// Flush calls from the scheduler.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schedule_flush_count: Option<u64>,
    /// Nanoseconds in flush calls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flush_ns: Option<u64>,
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
}

/// What lockscope itself cost.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct OwnCost {
    /// tps with the programs on over tps with them off, from alternating slices of this run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tps_ratio: Option<f64>,
    /// Lower end of its 95 % interval.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tps_ratio_low: Option<f64>,
    /// Upper end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tps_ratio_high: Option<f64>,
    /// Mean latency with the programs on over off.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency_ratio: Option<f64>,
    /// Pairs of slices behind the ratios.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slice_pairs_count: Option<u64>,
    /// Run time of a program per event, from a window with BPF_ENABLE_STATS (itself two clock reads an event).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bpf_ns_per_event: Option<f64>,
    /// Share of the machine's CPU time that the programs took in that window, in percent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bpf_cpu_percent: Option<f64>,
    /// By program: events and run time in the window.
    #[serde(default)]
    pub bpf_programs: Vec<ProgramCost>,
    /// CPU time of the load generator's worker threads per transaction.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load_cpu_ns_per_transaction: Option<u64>,
    /// Kernel memory of the maps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub map_bytes: Option<u64>,
}

/// Cost of one program in the window with BPF_ENABLE_STATS.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ProgramCost {
    /// Program name.
    pub name: String,
    /// Runs in the window.
    pub run_count: u64,
    /// Nanoseconds in it.
    pub run_ns: u64,
}

/// How one capability was attached.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Probe {
    /// `lock-waits`, `osq`, …
    pub capability: String,
    /// `tp_btf`, `raw_tracepoint`, `tracepoint`, `fentry`, `kprobe`, `none`.
    pub method: String,
    /// Functions or tracepoints it hangs on.
    #[serde(default)]
    pub targets: Vec<String>,
    /// Why this method, or why none.
    pub reason: String,
    /// What the report lacks because of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lost: Option<String>,
}

/// Something the reader must know.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Warning {
    /// Stable identifier, `ring-full`.
    pub code: String,
    /// What happened, with numbers.
    pub text: String,
    /// What to do about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
}
