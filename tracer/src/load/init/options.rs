//! What `pgbench -i` lets a user choose.

use std::fmt;
use std::str::FromStr;

/// Rows of `pgbench_accounts` a unit of scale.
pub(super) const ACCOUNTS_PER_SCALE: u64 = 100_000;
/// Rows of `pgbench_tellers` a unit of scale.
pub(super) const TELLERS_PER_SCALE: u64 = 10;

/// One initialization step; the letters are pgbench's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// `d`
    Drop,
    /// `t`
    Create,
    /// `g`: rows made here and sent by COPY.
    Generate,
    /// `G`: rows made by the server.
    GenerateOnServer,
    /// `v`
    Vacuum,
    /// `p`
    PrimaryKeys,
    /// `f`
    ForeignKeys,
}

impl Step {
    const ALL: [Self; 7] = [
        Self::Drop,
        Self::Create,
        Self::Generate,
        Self::GenerateOnServer,
        Self::Vacuum,
        Self::PrimaryKeys,
        Self::ForeignKeys,
    ];

    /// Its letter in `-I`.
    pub fn letter(self) -> char {
        match self {
            Self::Drop => 'd',
            Self::Create => 't',
            Self::Generate => 'g',
            Self::GenerateOnServer => 'G',
            Self::Vacuum => 'v',
            Self::PrimaryKeys => 'p',
            Self::ForeignKeys => 'f',
        }
    }

    /// Its name in pgbench's summary.
    pub fn name(self) -> &'static str {
        match self {
            Self::Drop => "drop tables",
            Self::Create => "create tables",
            Self::Generate => "client-side generate",
            Self::GenerateOnServer => "server-side generate",
            Self::Vacuum => "vacuum",
            Self::PrimaryKeys => "primary keys",
            Self::ForeignKeys => "foreign keys",
        }
    }
}

/// The steps of `-I`, in the order in which they are done; at least one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Steps(Vec<Step>);

/// `-I` names no steps, or one that there is not.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum StepsError {
    /// Nothing to do.
    #[error("no initialization steps: name some of dtgGvpf (default dtgvp)")]
    None,
    /// A letter that means nothing.
    #[error(
        "`{0}` is no initialization step; they are d (drop), t (tables), g (rows, made here), G (rows, made by the server), v (vacuum), p (primary keys), f (foreign keys)"
    )]
    Unknown(char),
}

impl FromStr for Steps {
    type Err = StepsError;

    fn from_str(letters: &str) -> Result<Self, StepsError> {
        let step = |letter: char| {
            let known = Step::ALL.into_iter().find(|step| step.letter() == letter);
            known.ok_or(StepsError::Unknown(letter))
        };
        let steps: Vec<Step> =
            letters.chars().filter(|letter| *letter != ' ').map(step).collect::<Result<_, _>>()?;
        if steps.is_empty() { Err(StepsError::None) } else { Ok(Self(steps)) }
    }
}

impl Default for Steps {
    /// pgbench's `dtgvp`.
    fn default() -> Self {
        Self(vec![Step::Drop, Step::Create, Step::Generate, Step::Vacuum, Step::PrimaryKeys])
    }
}

impl fmt::Display for Steps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&letters(&self.0))
    }
}

pub(super) fn letters(steps: &[Step]) -> String {
    steps.iter().map(|step| step.letter()).collect()
}

impl Steps {
    /// Leaves the vacuum away, as `-n`. The result may have no step left.
    pub fn without_vacuum(mut self) -> Self {
        self.0.retain(|step| *step != Step::Vacuum);
        self
    }

    /// Foreign keys at the end, unless they are asked for already: `--foreign-keys`.
    pub fn with_foreign_keys(mut self) -> Self {
        if !self.0.contains(&Step::ForeignKeys) {
            self.0.push(Step::ForeignKeys);
        }
        self
    }

    /// Those up to the creation of the tables, and those after it.
    pub(in crate::load) fn around_create(self) -> (Self, Self) {
        let create = self.0.iter().position(|step| *step == Step::Create);
        let (first, second) = self.0.split_at(create.map_or(0, |index| index + 1));
        (Self(first.to_vec()), Self(second.to_vec()))
    }

    pub(super) fn as_slice(&self) -> &[Step] {
        &self.0
    }
}

/// How `pgbench_accounts` is cut into partitions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum PartitionMethod {
    /// By ranges of `aid`.
    #[default]
    Range,
    /// By hash of `aid`.
    Hash,
}

impl PartitionMethod {
    pub(super) fn keyword(self) -> &'static str {
        match self {
            Self::Range => "range",
            Self::Hash => "hash",
        }
    }
}

/// Partitions of `pgbench_accounts`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Partitions {
    /// How many; at least 1.
    pub count: u32,
    /// How cut.
    pub method: PartitionMethod,
}

/// What to make.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InitOptions {
    /// `-I`, after `-n` and `--foreign-keys`.
    pub steps: Steps,
    /// `-s`, at least 1.
    pub scale: u32,
    /// `-F`, percent.
    pub fillfactor: u32,
    /// `--partitions`; none by default.
    pub partitions: Option<Partitions>,
    /// `--unlogged-tables`.
    pub unlogged: bool,
    /// `--tablespace`.
    pub tablespace: Option<String>,
    /// `--index-tablespace`.
    pub index_tablespace: Option<String>,
}

impl InitOptions {
    /// `pgbench -i -s scale`.
    pub fn with_scale(scale: u32) -> Self {
        Self {
            steps: Steps::default(),
            scale,
            fillfactor: 100,
            partitions: None,
            unlogged: false,
            tablespace: None,
            index_tablespace: None,
        }
    }

    pub(super) fn account_count(&self) -> u64 {
        u64::from(self.scale) * ACCOUNTS_PER_SCALE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_keep_the_order_that_the_user_gave() {
        let steps: Steps = "dt Gfp".parse().unwrap();
        assert_eq!(steps.to_string(), "dtGfp");
        assert_eq!(Steps::default().to_string(), "dtgvp");
        assert_eq!(Steps::default().without_vacuum().to_string(), "dtgp");
        assert_eq!(Steps::default().with_foreign_keys().to_string(), "dtgvpf");
        assert_eq!(steps.with_foreign_keys().to_string(), "dtGfp");
    }

    #[test]
    fn letters_that_mean_nothing_are_named() {
        assert_eq!("dtx".parse::<Steps>(), Err(StepsError::Unknown('x')));
        assert_eq!(" ".parse::<Steps>(), Err(StepsError::None));
    }
}
