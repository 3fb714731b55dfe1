//! What the run's time was lost to, in one word, and why.

use serde::{Deserialize, Serialize};

/// The verdict.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RunVerdict {
    /// `kernel_lock`, `user_spin`, `postgres_lock`, `preemption`, `shared_atomics`, `cache_misses`, `io`,
    /// `client_bound`, `network`, `cpu`, `unknown`.
    pub kind: String,
    /// A sentence.
    pub text: String,
    /// The numbers that support it, the decisive one first.
    pub evidence: Vec<Evidence>,
}

/// A number behind a verdict.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Evidence {
    /// What it is, `kernel_lock_share`, `runq_share`, …
    pub name: String,
    /// Shares are 0..1.
    pub value: f64,
    /// The same in words.
    pub text: String,
}
