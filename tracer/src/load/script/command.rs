//! What a script is made of.

use super::error::Place;
use super::expression::Expression;

/// A parsed script.
#[derive(Clone, Debug)]
pub struct Script {
    /// The file, or the name of the built-in.
    pub origin: std::sync::Arc<str>,
    /// In the order of the text; at least one.
    pub commands: Vec<Command>,
}

/// A statement or a meta-command. `\gset` and `\aset` belong to the statement before them.
#[derive(Clone, Debug)]
pub struct Command {
    /// Where it begins.
    pub place: Place,
    /// How reports show it: a statement's first line, or the whole meta-command.
    pub title: String,
    /// What it does.
    pub action: Action,
}

/// What a command does.
#[derive(Clone, Debug)]
pub enum Action {
    /// Sends a statement.
    Sql {
        /// Its text, `:name` for the variables.
        text: String,
        /// Where its results go.
        results: Option<Results>,
    },
    /// `\set variable expression`.
    Set {
        /// The variable.
        variable: String,
        /// Its new value.
        expression: Expression<String>,
    },
    /// `\setpattern variable pattern`, which pgbench has not: a text with random digits and letters.
    SetPattern {
        /// The variable.
        variable: String,
        /// `#` stands for a digit, `@` for a letter.
        pattern: String,
    },
    /// `\if expression`.
    If(Expression<String>),
    /// `\elif expression`.
    Elif(Expression<String>),
    /// `\else`.
    Else,
    /// `\endif`.
    Endif,
    /// `\sleep amount unit`.
    Sleep(Amount, TimeUnit),
    /// `\shell words`.
    Shell(Vec<String>),
    /// `\setshell variable words`.
    SetShell {
        /// The variable.
        variable: String,
        /// The command line.
        words: Vec<String>,
    },
    /// `\startpipeline`.
    StartPipeline,
    /// `\syncpipeline`.
    SyncPipeline,
    /// `\endpipeline`.
    EndPipeline,
}

impl Action {
    /// The word after the backslash; `SQL` for a statement.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Sql { results: None, .. } => "SQL",
            Self::Sql { results: Some(Results { every: false, .. }), .. } => "gset",
            Self::Sql { results: Some(Results { every: true, .. }), .. } => "aset",
            Self::Set { .. } => "set",
            Self::SetPattern { .. } => "setpattern",
            Self::If(_) => "if",
            Self::Elif(_) => "elif",
            Self::Else => "else",
            Self::Endif => "endif",
            Self::Sleep(..) => "sleep",
            Self::Shell(_) => "shell",
            Self::SetShell { .. } => "setshell",
            Self::StartPipeline => "startpipeline",
            Self::SyncPipeline => "syncpipeline",
            Self::EndPipeline => "endpipeline",
        }
    }
}

/// `\gset` or `\aset`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Results {
    /// Every result of a combined statement (`\aset`), or the last, which must be one row (`\gset`).
    pub every: bool,
    /// In front of the column's name.
    pub prefix: String,
}

/// How long to sleep, in a unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Amount {
    /// So long.
    Fixed(i64),
    /// As a variable says.
    Variable(String),
}

/// The units of `\sleep`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeUnit {
    /// `us`.
    Microseconds,
    /// `ms`.
    Milliseconds,
    /// `s`, the default.
    Seconds,
}

impl TimeUnit {
    /// How many microseconds one is.
    pub fn microseconds(self) -> i64 {
        match self {
            Self::Microseconds => 1,
            Self::Milliseconds => 1_000,
            Self::Seconds => 1_000_000,
        }
    }
}
