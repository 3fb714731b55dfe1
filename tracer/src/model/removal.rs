//! What throughput would gain without the kernel lock that costs most: bounds, or why there are none.
//! Definitions and sources: `docs/metrics.md`.

use serde::{Deserialize, Serialize};

/// Either `bounds` or `no_estimate` is there.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Removal {
    /// The lock with most of the server's lock time; absent where no estimate was tried.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lock: Option<RemovedLock>,
    /// The bounds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bounds: Option<RemovalBounds>,
    /// Why there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub no_estimate: Option<NoEstimate>,
}

/// The lock that is thought away: all instances, classes and callers of one name.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RemovedLock {
    /// Its name; of locks without one, their caller's.
    pub name: String,
    /// Where it is waited for most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub caller: Option<String>,
    /// The classes of its waits on the server's side.
    pub classes: Vec<String>,
    /// The server's spinning on it per transaction.
    pub spin_ns: f64,
    /// The server's sleeping in it per transaction.
    pub sleep_ns: f64,
}

impl RemovedLock {
    /// Both.
    pub fn wait_ns(&self) -> f64 {
        self.spin_ns + self.sleep_ns
    }
}

/// Throughput without the lock, in transactions per second.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RemovalBounds {
    /// At least: what it is now, for the waiting may only move to the next queue.
    pub tps_low: f64,
    /// If nothing else of a transaction changes, as far as the CPUs and the load generator's threads allow.
    pub tps_rest_as_now: f64,
    /// At most: the smallest of `ceilings`.
    pub tps_high: f64,
    /// The resource of that ceiling.
    pub limited_by: String,
    /// Every bound from above, in the order `transaction`, `cpus`, `server_cpus`, `client_cpus`,
    /// `client_threads`.
    pub ceilings: Vec<Ceiling>,
    /// Clients / tps: what a client takes for a transaction and the time to the next.
    pub cycle_ns: f64,
    /// Other waits per transaction that may go with the lock's: for a CPU, for other locks, for the load
    /// generator's threads.
    pub other_waits_ns: f64,
    /// CPU time per transaction of server and load generator that is not spinning on the lock.
    pub cpu_ns: f64,
}

/// A bound from above.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Ceiling {
    /// `transaction`: a client with nothing to wait for; `cpus`, `server_cpus`, `client_cpus`: CPUs busy all
    /// the time (the pinned ones of a side); `client_threads`: the load generator's threads busy all the time.
    pub resource: String,
    /// Transactions per second.
    pub tps: f64,
}

/// Why there are no bounds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NoEstimate {
    /// `not_traced`, `depth_locks`, `other_load`, `open_loop`, `reconnects`, `clients_gave_up`,
    /// `no_dominant_lock`.
    pub code: String,
    /// In a sentence.
    pub text: String,
}
