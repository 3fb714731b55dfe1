//! How it was measured: cost, probes, warnings.

use serde::{Deserialize, Serialize};

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
