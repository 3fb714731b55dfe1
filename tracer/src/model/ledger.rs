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

    /// Every state by its name in `states_ns`: `spin.osq`, `lock_sleep.rwsem`, `irq`.
    pub fn states(&self) -> BTreeMap<String, f64> {
        let spin = self.spin.iter().map(|(class, ns)| (format!("spin.{class}"), *ns));
        let sleep = self.lock_sleep.iter().map(|(class, ns)| (format!("lock_sleep.{class}"), *ns));
        spin.chain(sleep).chain(self.irq.map(|ns| ("irq".to_owned(), ns))).collect()
    }

    /// All spin time.
    pub fn spin_ns(&self) -> f64 {
        self.spin.values().sum()
    }
}
