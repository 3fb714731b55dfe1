//! Time per transaction, by side, state and lock class.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

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
    /// Transactions that `per_transaction_ns` comes from, where the kernel side told each from its
    /// begin to its reply; absent where it is all of the side's time over the load's transactions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transactions_count: Option<u64>,
    /// Mean latency of those, from the waking of the backend to its reply.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency_ns: Option<f64>,
    /// The same transactions by latency.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub by_latency: Vec<LatencyBand>,
    /// Tasks summed.
    #[serde(default)]
    pub tasks_count: u64,
    /// Task wall time: the sum over tasks of the time each was traced with the programs on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wall_ns: Option<u64>,
    /// Time by state over all of the wall time, `cpu`, `spin.osq`, `wait.LWLock`; absent where
    /// scheduling was not traced.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub states_ns: BTreeMap<String, u64>,
    /// Sum of `states_ns` over `wall_ns`: 1 when no nanosecond is missing or counted twice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub balance: Option<f64>,
    /// Ended waits by class.
    #[serde(default)]
    pub wait_counts: BTreeMap<String, u64>,
    /// Their nanoseconds.
    #[serde(default)]
    pub waits_ns: BTreeMap<String, u64>,
}

impl SideLedger {
    /// Time on a CPU, spinning or not, in transactions or between; `None` where the time is not split.
    pub fn on_cpu_ns(&self) -> Option<u64> {
        let is_on_cpu = |state: &str| {
            matches!(state, "cpu" | "between_cpu" | "irq") || state.starts_with("spin.")
        };
        let on_cpu = self.states_ns.iter().filter(|(state, _)| is_on_cpu(state));
        (!self.states_ns.is_empty()).then(|| on_cpu.map(|(_, ns)| ns).sum())
    }
}

/// Transactions of about one latency, as the server's side saw them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LatencyBand {
    /// `p50`, `p90`, `p99`, `p99.9`, `slowest`.
    pub name: String,
    /// The transactions that it really covers, fastest first.
    pub percentile_from: f64,
    /// See `percentile_from`.
    pub percentile_to: f64,
    /// Their shortest latency, at least.
    pub latency_from_ns: u64,
    /// Their longest, less than this.
    pub latency_to_ns: u64,
    /// How many they are.
    pub transactions_count: u64,
    /// Their mean latency.
    pub latency_ns: f64,
    /// Their time by state, which adds up to that mean.
    pub per_transaction_ns: PerTransaction,
}

/// Nanoseconds per transaction, by state.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PerTransaction {
    /// On a CPU, not spinning on a kernel lock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu: Option<f64>,
    /// Runnable, not running: the sum of `runq_by_cause`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runq: Option<f64>,
    /// `queued` behind another task, `wakeup` of an idle CPU, `throttled` by a bandwidth limit.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub runq_by_cause: BTreeMap<String, f64>,
    /// Asleep with `in_iowait`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub io: Option<f64>,
    /// Asleep between the requests of a transaction.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle_in_transaction: Option<f64>,
    /// Asleep otherwise, by Postgres's wait class; `none` for tasks that have none.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub wait: BTreeMap<String, f64>,
    /// Spun in interrupt context while one of the side's tasks was current.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub irq: Option<f64>,
    /// `spin{class}`: on a CPU, spinning on a kernel lock.
    #[serde(default)]
    pub spin: BTreeMap<String, f64>,
    /// `lock_sleep{class}`: in the slow path of a lock that sleeps.
    #[serde(default)]
    pub lock_sleep: BTreeMap<String, f64>,
    /// The rest of the mean latency that clients measured: their own sending and receiving, the
    /// network, and waking them. Server side only, where scheduling was traced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_and_transport: Option<f64>,
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

    /// What is left of the mean latency, under whichever name.
    pub fn rest_ns(&self) -> Option<f64> {
        self.client_and_transport.or(self.not_split)
    }

    /// Every state, and its class or kind.
    pub fn rows(&self) -> Vec<(&'static str, Option<&str>, f64)> {
        fn of<'a>(
            state: &'static str,
            kinds: &'a BTreeMap<String, f64>,
        ) -> impl Iterator<Item = (&'static str, Option<&'a str>, f64)> {
            kinds.iter().map(move |(kind, ns)| (state, Some(kind.as_str()), *ns))
        }
        let single = [
            ("cpu", self.cpu),
            ("io", self.io),
            ("irq", self.irq),
            ("idle_in_transaction", self.idle_in_transaction),
        ];
        let single = single.into_iter().filter_map(|(state, ns)| Some((state, None, ns?)));
        single
            .chain(of("runq", &self.runq_by_cause))
            .chain(of("spin", &self.spin))
            .chain(of("lock_sleep", &self.lock_sleep))
            .chain(of("wait", &self.wait))
            .collect()
    }

    /// All of them.
    pub fn total_ns(&self) -> f64 {
        self.rows().iter().map(|(.., ns)| ns).sum()
    }

    /// Every state by its name in `states_ns`: `cpu`, `spin.osq`, `lock_sleep.rwsem`.
    pub fn states(&self) -> BTreeMap<String, f64> {
        let name = |state: &str, kind: Option<&str>| match kind {
            Some(kind) => format!("{state}.{kind}"),
            None => state.to_owned(),
        };
        self.rows().into_iter().map(|(state, kind, ns)| (name(state, kind), ns)).collect()
    }

    /// All spin time.
    pub fn spin_ns(&self) -> f64 {
        self.spin.values().sum()
    }
}
