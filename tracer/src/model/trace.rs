//! What the trace saw: locks, tasks, plugs.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// One contended lock (class, address, side) with the stack that waited longest for it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Lock {
    /// Lock class.
    pub class: String,
    /// Best name: a symbol, `rq[3].lock`, or the caller's function in parentheses.
    pub name: String,
    /// How the name was found: `rq`, `symbol`, `per_cpu`, `node`, `task`, `slab`, `caller`, `address`.
    #[serde(default, alias = "name_source")]
    pub found_by: String,
    /// What it was found in: the type of the waiter's object, the slab cache, the variable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub found_in: Option<String>,
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
    /// Who held it longest while others waited; absent where no holder was seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<Holder>,
    /// Its holds while others waited, those of every class and side that waits for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub holds: Option<Holds>,
}

/// Holds of a lock, each counted from the moment at which it is known that somebody waits.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Holds {
    /// Holds that ended.
    pub count: u64,
    /// Their nanoseconds.
    pub total_ns: u64,
    /// Mean.
    pub mean_ns: u64,
    /// Longest.
    pub max_ns: u64,
    /// Of `count`, those that end with the release itself. The others end with the next waiter's
    /// wait, and so hold its wake-up too.
    pub released_count: u64,
    /// Distinct holders.
    pub holders_count: u64,
    /// Longest total first, at most 8.
    #[serde(default)]
    pub holders: Vec<Holder>,
}

/// One task's holds of a lock.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Holder {
    /// Thread id; absent for readers, of which it is not known who they are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tid: Option<u32>,
    /// Its process, where the kernel tells.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    /// The task's name; `readers` for readers.
    pub comm: String,
    /// `client backend`, `checkpointer`, …, of a traced task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<String>,
    /// Holds.
    pub count: u64,
    /// Their nanoseconds.
    pub total_ns: u64,
    /// Longest.
    pub max_ns: u64,
    /// Its own stack in the longest of the holds in which one was taken, innermost first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stack: Vec<String>,
    /// The first function above the lock's own code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub caller: Option<String>,
    /// Where the stack was taken: `release` of the lock, or `switch` to another task with it held.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stack_at: Option<String>,
}

/// One traced task.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Backend {
    /// Process id, in the initial pid namespace.
    pub pid: u32,
    /// Thread id.
    pub tid: u32,
    /// The pid that the process itself has, where it runs in a pid namespace of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inner_pid: Option<u32>,
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
    /// How many those were.
    #[serde(default)]
    pub irq_count: u64,
    /// The kernel's own count of its time on a CPU (schedstat); with `--no-control` only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schedstat_cpu_ns: Option<u64>,
    /// The same of its time runnable without a CPU.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schedstat_runq_ns: Option<u64>,
    /// Time by state and class, `spin.osq` and so on.
    #[serde(default)]
    pub states_ns: BTreeMap<String, u64>,
    /// Ended waits by class.
    #[serde(default)]
    pub wait_counts: BTreeMap<String, u64>,
}

/// Every wait that began, of all tasks and interrupts, and what became of it:
/// `begin_count = end_count + open_count + dropped_count`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WaitBalance {
    /// Waits (or phases of a wait) that began while the programs were on.
    pub begin_count: u64,
    /// Those that ended while they were on: what every other number is made of.
    pub end_count: u64,
    /// Those that had not ended when the programs were turned off for the last time.
    pub open_count: u64,
    /// Those left out: the losses `inferred_end`, `nested_too_deep` and `cut_by_gate`.
    pub dropped_count: u64,
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
