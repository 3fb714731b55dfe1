//! Two sides of saved runs, compared. Reports read nothing else; the JSON names are fixed by
//! `docs/comparison.schema.json`.

use serde::{Deserialize, Serialize};

use super::Warning;

/// Version of the comparison's JSON; raised when a name changes its meaning or goes away.
pub const COMPARISON_SCHEMA_VERSION: u32 = 1;

/// What differs between the base and the new runs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// See [`COMPARISON_SCHEMA_VERSION`].
    pub schema_version: u32,
    /// lockscope's own version.
    pub lockscope_version: String,
    /// What one sample is: `interval` of a run, `run` where a side has several, or `pair` of a round's runs.
    pub unit: String,
    /// Confidence of the intervals, 0.95.
    pub confidence: f64,
    /// The relative change below which "no difference found" is a useful answer.
    pub effect_of_interest: f64,
    /// The first side.
    pub base: ComparedSide,
    /// The second side.
    pub new: ComparedSide,
    /// What it comes to, in sentences.
    pub findings: Vec<Finding>,
    /// Where the time went that one side takes longer.
    pub decompositions: Vec<Decomposition>,
    /// The metrics, by group.
    pub groups: Vec<MetricGroup>,
    /// What else differs between the sides.
    pub environment: Vec<Difference>,
    /// The conditions of `--fail-if`, judged.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// What the reader must know before believing a number.
    pub warnings: Vec<Warning>,
}

/// One side.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ComparedSide {
    /// Where its runs came from.
    pub files: Vec<String>,
    /// Runs.
    pub runs_count: u64,
    /// Intervals of all of them.
    pub intervals_count: u64,
    /// Their measured time.
    pub measured_ns: u64,
    /// What was run, in words.
    pub workload: String,
    /// When the first of them began.
    pub started_at: String,
}

/// A sentence and what it is about.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// `verdict`, `where`, `lock`, `may explain`, `evidence`.
    pub about: String,
    /// The sentence.
    pub text: String,
}

/// What the evidence says of one metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Worse, of throughput and latencies.
    Slower,
    /// Better.
    Faster,
    /// Larger, of what is neither good nor bad in itself.
    More,
    /// Smaller.
    Less,
    /// None, and one of interest would have been found four times in five.
    NoDifferenceFound,
    /// The evidence is too thin for either.
    CannotTell,
}

impl Verdict {
    /// As the reports say it.
    pub fn words(self) -> &'static str {
        match self {
            Verdict::Slower => "slower",
            Verdict::Faster => "faster",
            Verdict::More => "more",
            Verdict::Less => "less",
            Verdict::NoDifferenceFound => "no difference found",
            Verdict::CannotTell => "cannot tell",
        }
    }

    /// Whether a difference was established.
    pub fn differs(self) -> bool {
        !matches!(self, Verdict::NoDifferenceFound | Verdict::CannotTell)
    }
}

/// Metrics of one kind.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MetricGroup {
    /// `throughput`, `server`, `locks`, …
    pub name: String,
    /// The heading.
    pub title: String,
    /// Whether the rows' p-values are corrected for their number (Benjamini–Hochberg).
    pub corrected: bool,
    /// Whether the largest change comes first, not an order of their own.
    pub by_change: bool,
    /// The metrics.
    pub rows: Vec<MetricRow>,
}

/// One metric on both sides.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MetricRow {
    /// Its name in `--fail-if`: `tps`, `latency.p99`, `server.spin.osq`.
    pub metric: String,
    /// Its name in the table.
    pub label: String,
    /// `per_second`, `ns`, `count`, `share`.
    pub unit: String,
    /// Whether it is a part of the mean latency, and its change weighed against that; else against itself.
    pub of_latency: bool,
    /// Absent = not measured on that side.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base: Option<Value>,
    /// The same of the new side.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub new: Option<Value>,
    /// Absent unless both sides measured it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub change: Option<Change>,
    /// Absent unless both sides measured it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verdict: Option<Verdict>,
    /// Rounds a side that would bring an answer, beyond those there are; only where none can be given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub more_rounds: Option<u64>,
    /// Codes of those `warnings` that concern it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub flags: Vec<String>,
}

/// A metric on one side.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Value {
    /// Mean over the side's runs.
    pub mean: f64,
    /// Half of its confidence interval; absent where nothing tells it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plus_minus: Option<f64>,
    /// Samples behind it.
    pub samples_count: u64,
    /// Independent samples that they are worth.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effective_samples: Option<f64>,
}

/// What changed from base to new.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Change {
    /// New less base.
    pub difference: f64,
    /// Its confidence interval.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub difference_low: Option<f64>,
    /// Upper end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub difference_high: Option<f64>,
    /// New over base.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ratio: Option<f64>,
    /// Its confidence interval.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ratio_low: Option<f64>,
    /// Upper end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ratio_high: Option<f64>,
    /// The larger of the two tests' p-values (of the means, of the ranks).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p_value: Option<f64>,
    /// Corrected for the number of the group's rows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p_adjusted: Option<f64>,
    /// The smallest true difference that would be found four times in five, in the metric's unit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detectable: Option<f64>,
}

/// A time a transaction takes, and what its change consists of.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Decomposition {
    /// `mean_latency` or `clients_over_tps`.
    pub name: String,
    /// In words.
    pub title: String,
    /// Mean of the base.
    pub base_ns: f64,
    /// Mean of the new side.
    pub new_ns: f64,
    /// Its parts, which add up to the difference; the largest first.
    pub parts: Vec<Part>,
    /// Sum of the parts over the difference: 1 but for rounding.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub closure: Option<f64>,
}

/// One part of a change.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Part {
    /// `server.spin.osq`, `client_and_transport`, …
    pub state: String,
    /// In words.
    pub label: String,
    /// In the base.
    pub base_ns: f64,
    /// In the new side.
    pub new_ns: f64,
    /// New less base.
    pub difference_ns: f64,
    /// Of the whole difference; absent where that is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share: Option<f64>,
    /// The lock with most of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lock: Option<LockPart>,
}

/// A lock's part of a change.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LockPart {
    /// The lock.
    pub name: String,
    /// Where it was taken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub caller: Option<String>,
    /// New less base, per transaction.
    pub difference_ns: f64,
}

/// Something that is not the same on both sides.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Difference {
    /// `kernel.release`, `postgres.settings.shared_buffers`, …
    pub name: String,
    /// In the base; absent where it is not there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base: Option<String>,
    /// In the new side.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub new: Option<String>,
    /// Whether it is known to move benchmarks.
    pub may_explain: bool,
    /// Why, or what it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// A condition of `--fail-if`, judged.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Condition {
    /// As it was given.
    pub text: String,
    /// `true` when it holds and the comparison fails; absent where that cannot be judged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub holds: Option<bool>,
    /// What it was judged by.
    pub reason: String,
}
