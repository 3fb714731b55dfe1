//! A known regression, as its data file tells it.

use std::path::PathBuf;

use serde::Deserialize;

use super::expression::Expression;
use super::said::said;
use super::version::{Product, Version};
use crate::analyse::compare::Condition;
use crate::model::{Confidence, Experiment};

/// A file that is no signature.
#[derive(Debug, thiserror::Error)]
pub enum SignatureError {
    /// The directory or a file in it cannot be read.
    #[error("cannot read signatures from {path}: {source}", path = .path.display())]
    Read {
        /// Which.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// A directory without signatures.
    #[error("{} has no signature: put files that end in .toml there (docs/signatures.md)", .0.display())]
    Empty(PathBuf),
    /// Not TOML, or not a signature's fields.
    #[error("{file}, line {line}: {what}")]
    Invalid {
        /// The file.
        file: String,
        /// Counted from 1.
        line: usize,
        /// What is wrong.
        what: String,
    },
    /// Two of one name.
    #[error("{second} has the id `{id}`, which {first} has too: give it another one")]
    SameId {
        /// The name.
        id: String,
        /// Where it was met first.
        first: String,
        /// Where it was met again.
        second: String,
    },
    /// A signature that was asked for and is not there.
    #[error("--signature: none is called `{id}`{near}")]
    Unknown {
        /// What was given.
        id: String,
        /// What it may have meant, or nothing.
        near: String,
    },
}

/// A known regression.
#[derive(Clone, Debug)]
pub struct Signature {
    /// Its name.
    pub id: String,
    pub(super) origin: String,
    pub(super) title: String,
    pub(super) class: Class,
    pub(super) symptom: String,
    pub(super) conditions: Vec<Tested>,
    pub(super) kernel: Option<Versions>,
    pub(super) postgres: Option<Versions>,
    pub(super) facts: Vec<Fact>,
    pub(super) limit: Option<Limit>,
    pub(super) alternatives: Vec<String>,
    pub(super) next: Vec<Experiment>,
}

impl Signature {
    /// In which versions it is, of what it says that of.
    pub(super) fn versions(&self) -> impl Iterator<Item = (Product, &Versions)> {
        let named = [(Product::Kernel, &self.kernel), (Product::Postgres, &self.postgres)];
        named.into_iter().filter_map(|(product, of)| Some((product, of.as_ref()?)))
    }
}

/// What kind of trouble it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Class {
    KernelLock,
    UserLock,
    Preemption,
    Placement,
    SharedAtomic,
    IoBatching,
    PageWait,
    CacheMisses,
    Accounting,
}

impl Class {
    pub(super) fn words(self) -> &'static str {
        match self {
            Class::KernelLock => "kernel lock",
            Class::UserLock => "Postgres's own lock, not a kernel lock",
            Class::Preemption => "preemption, not a lock",
            Class::Placement => "placement of tasks, not a lock",
            Class::SharedAtomic => "shared atomic, not a lock",
            Class::IoBatching => "batching of I/O, not a lock",
            Class::PageWait => "waiting for pages, not a lock",
            Class::CacheMisses => "cache misses, not a lock",
            Class::Accounting => "the kernel's accounting, not a lock",
        }
    }
}

/// A condition over the metrics: of a run by itself, of the change from the base, or both.
#[derive(Clone, Debug)]
pub(super) struct Tested {
    pub(super) metric: Expression,
    pub(super) run: Option<Test>,
    pub(super) change: Option<Test>,
    pub(super) decisive: bool,
    pub(super) because: String,
}

/// A comparison and how it was written.
#[derive(Clone, Debug)]
pub(super) struct Test {
    pub(super) text: String,
    pub(super) condition: Condition,
}

/// In which versions it is.
#[derive(Clone, Debug, Default)]
pub(super) struct Versions {
    pub(super) broken_in: Option<Version>,
    pub(super) fixed_in: Option<Version>,
    pub(super) seen_in: Vec<Version>,
    pub(super) broken_by: Vec<String>,
    pub(super) fixed_by: Vec<String>,
}

/// What a run must record: a name with `*`, and what its value must or must not be.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Fact {
    #[serde(deserialize_with = "said")]
    pub(super) name: String,
    #[serde(default)]
    pub(super) is: Vec<String>,
    #[serde(default, rename = "not")]
    pub(super) is_not: Vec<String>,
    #[serde(deserialize_with = "said")]
    pub(super) because: String,
}

/// The most confidence there can be.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Limit {
    pub(super) confidence: Confidence,
    #[serde(deserialize_with = "said")]
    pub(super) because: String,
}
