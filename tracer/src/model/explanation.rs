//! A run, or two sides of runs, explained. Reports read nothing else; the JSON names are fixed by
//! `docs/explanation.schema.json`.

use serde::{Deserialize, Serialize};

use super::ComparedSide;

/// Version of the explanation's JSON; raised when a name changes its meaning or goes away.
pub const EXPLANATION_SCHEMA_VERSION: u32 = 1;

/// What the runs say, and which known regression that looks like.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Explanation {
    /// See [`EXPLANATION_SCHEMA_VERSION`].
    pub schema_version: u32,
    /// lockscope's own version.
    pub lockscope_version: String,
    /// What the runs are compared with; absent where a single run is explained.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base: Option<ComparedSide>,
    /// The run, or the new side.
    pub subject: ComparedSide,
    /// What they say, strongest evidence first.
    pub account: Vec<Sentence>,
    /// Every signature that was tried, those that match first, most confident first.
    pub signatures: Vec<SignatureResult>,
    /// What to measure next.
    pub next: Vec<Experiment>,
    /// What the reader must know before believing it.
    pub caveats: Vec<String>,
}

impl Explanation {
    /// The signatures that match, most confident first.
    pub fn matches(&self) -> impl Iterator<Item = &SignatureResult> {
        self.signatures.iter().filter(|signature| signature.confidence.is_some())
    }
}

/// A sentence with its numbers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Sentence {
    /// `verdict`, `state`, `lock`, `function`, `change`, …
    pub about: String,
    /// The sentence.
    pub text: String,
    /// Of the mean latency, or of its change: what the sentence is about, 0..1. Absent where it is about
    /// none of either.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share: Option<f64>,
}

/// How sure it is that a signature's regression is what was measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Confidence {
    /// Something known to look like this; as good a first guess as any.
    Low,
    /// The symptom is there; that it is this cause was not established.
    Medium,
    /// Symptom and surroundings are the regression's.
    High,
}

impl Confidence {
    /// As the reports say it.
    pub fn word(self) -> &'static str {
        match self {
            Confidence::Low => "low",
            Confidence::Medium => "medium",
            Confidence::High => "high",
        }
    }
}

/// What became of one signature.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SignatureResult {
    /// Its name.
    pub id: String,
    /// In a line.
    pub title: String,
    /// What kind of trouble it is: `kernel lock`, `shared atomic`, …
    pub class: String,
    /// What users see of it.
    pub symptom: String,
    /// `built-in`, or the file that it was read from.
    pub origin: String,
    /// Absent where it does not match.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confidence: Option<Confidence>,
    /// Why no more than that, or why it does not match.
    pub reasons: Vec<String>,
    /// Its conditions, the decisive ones first.
    pub conditions: Vec<ConditionEvidence>,
    /// What it says of kernel, server and machine.
    pub surroundings: Vec<SurroundingEvidence>,
    /// Which commits broke and fixed what, in words; empty where none is known.
    pub history: Vec<String>,
    /// What else looks like this.
    pub alternatives: Vec<String>,
    /// What to do, or to try, about it.
    pub next: Vec<Experiment>,
}

/// What a condition, or a claim about the surroundings, came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// It is so.
    Held,
    /// It is not so.
    Failed,
    /// What it takes was not measured, or not well enough.
    NotJudged,
}

/// One condition and what was measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ConditionEvidence {
    /// The metric, or several that add up, as the signature has it.
    pub metric: String,
    /// What it is tested for, as the signature has it.
    pub tests: Vec<String>,
    /// Whether there is no match without it.
    pub decisive: bool,
    /// What it came to.
    pub outcome: Outcome,
    /// In the base.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base: Option<f64>,
    /// In the run, or the new side.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<f64>,
    /// `per_second`, `ns`, `count`, `share`; absent where nothing was measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unit: Option<String>,
    /// The same in words, or why it could not be judged.
    pub text: String,
    /// Why the signature asks.
    pub because: String,
}

/// One claim about the surroundings.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SurroundingEvidence {
    /// `kernel`, `postgres`, or the name of what a run records: `kernel.config_flags.CONFIG_PSI`.
    pub name: String,
    /// What it came to.
    pub outcome: Outcome,
    /// In words.
    pub text: String,
}

/// Something to do, and what it would show.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Experiment {
    /// What, and why.
    pub text: String,
    /// The command or setting; absent where it is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
}
