//! Runs at several values of one option or more, side by side. Reports read nothing else; the JSON
//! names are fixed by `docs/sweep.schema.json`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Part, RunVerdict, Warning};

/// Version of the sweep's JSON; raised when a name changes its meaning or goes away.
pub const SWEEP_SCHEMA_VERSION: u32 = 1;

/// A sweep.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Sweep {
    /// See [`SWEEP_SCHEMA_VERSION`].
    pub schema_version: u32,
    /// lockscope's own version.
    pub lockscope_version: String,
    /// When the first step began, RFC 3339.
    pub started_at: String,
    /// The command line, passwords removed.
    pub command: Vec<String>,
    /// True when it ended before its last step.
    pub interrupted: bool,
    /// The option along which curves run: `client`, `scale`, …
    pub along: String,
    /// One curve for each combination of the other options.
    pub curves: Vec<Curve>,
    /// What the reader must know before believing a number.
    #[serde(default)]
    pub warnings: Vec<Warning>,
}

/// Steps that differ in one option.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Curve {
    /// The other options' values, by name; empty where only one is varied.
    pub values: BTreeMap<String, String>,
    /// In the order of measurement.
    pub steps: Vec<Step>,
    /// The law of its scaling, where clients vary.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scalability: Option<Scalability>,
    /// The same without the waits for the kernel lock that costs most; absent where no step has an estimate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub without_lock: Option<WithoutLock>,
    /// Index of the first step whose throughput is within 5 % of the highest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub knee: Option<usize>,
    /// Indices of steps that are slower than a step before and a step behind, beyond the noise.
    #[serde(default)]
    pub dips: Vec<usize>,
}

impl Curve {
    /// The other options' values in words, as in `protocol simple, scale 10`.
    pub fn name(&self) -> String {
        let words: Vec<String> =
            self.values.iter().map(|(option, value)| format!("{option} {value}")).collect();
        words.join(", ")
    }
}

/// One run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Step {
    /// The value of [`Sweep::along`].
    pub value: String,
    /// The saved run.
    pub file: String,
    /// Concurrent connections.
    pub clients: u32,
    /// Successful transactions per second, with the 95 % interval of its mean.
    pub tps: Estimate,
    /// Mean latency that the clients saw.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency_mean_ns: Option<u64>,
    /// Its 99th percentile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency_p99_ns: Option<u64>,
    /// The server's nanoseconds per transaction by state, the rest of the latency among them.
    pub states_ns: BTreeMap<String, f64>,
    /// The server's most contended lock: class, name and caller in words; absent when none waited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub top_lock: Option<String>,
    /// Its nanoseconds per transaction.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub top_lock_ns: Option<f64>,
    /// Latency less that of the step before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub added_latency_ns: Option<f64>,
    /// The states that it consists of, largest first.
    #[serde(default)]
    pub added: Vec<Part>,
    /// What its time was lost to; absent where nothing was traced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verdict: Option<RunVerdict>,
    /// Why it has no numbers, where it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
}

/// A curve without one lock's waits: see `Removal` of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct WithoutLock {
    /// Its name.
    pub name: String,
    /// Where it is waited for most, in the step in which it takes most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub caller: Option<String>,
    /// Bounds of each step that has some.
    pub steps: Vec<StepWithoutLock>,
    /// The law through the steps' `tps_rest_as_now`, where clients vary: contention and coherency that are
    /// not the lock's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scalability: Option<Scalability>,
}

/// A step's bounds, in transactions per second.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StepWithoutLock {
    /// Index of the step.
    pub step: usize,
    /// At least: what it is.
    pub tps_low: f64,
    /// If all else in a transaction takes as long as it does.
    pub tps_rest_as_now: f64,
    /// At most.
    pub tps_high: f64,
}

/// A number with its 95 % interval, where there is enough to tell one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// The number.
    pub value: f64,
    /// Lower end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub low: Option<f64>,
    /// Upper end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub high: Option<f64>,
}

/// Coefficients of the Universal Scalability Law; see `docs/sweep.md`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Scalability {
    /// λ: what one client alone achieves.
    pub lambda_tps: Estimate,
    /// σ: the part that only one client at a time can do.
    pub contention: Estimate,
    /// κ: what each pair of clients costs the other.
    pub coherency: Estimate,
    /// Clients at which the law has its highest throughput; absent where it never falls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peak_clients: Option<f64>,
    /// The law's throughput there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peak_tps: Option<f64>,
    /// Whether that lies within the measured steps; else it is extrapolated.
    pub is_peak_measured: bool,
    /// The largest relative distance of a step from the law.
    pub worst_residual: f64,
}
