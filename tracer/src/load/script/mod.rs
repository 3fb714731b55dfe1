//! pgbench's script language.
//!
//! [`parse`] makes a [`Script`] of a text; the engine compiles scripts and runs them. The language is
//! that of pgbench 19: everything older scripts use means the same.

mod command;
mod definition;
mod error;
mod evaluate;
mod expression;
mod functions;
mod limits;
mod meta;
mod parse;
mod pattern;
mod random;
mod source;
mod sql;
mod token;
mod value;
mod variables;

pub use command::{Action, Amount, Command, Results, Script, TimeUnit};
pub use definition::{Definition, Definitions};
pub use error::{Place, ScriptError};
pub use expression::Expression;
pub use functions::{Arity, Code, Function, Scope};
pub use parse::{ParseOptions, parse};
pub use random::{ClientStreams, Random, Streams};
pub use source::{ScriptSource, SourceError, Weighted};
pub use value::{EvaluationError, Value};

pub(crate) use functions::sysbench;
pub(crate) use pattern::write_pattern;
pub(crate) use token::{is_name_character, is_name_start, is_variable_name};
pub(crate) use variables::{Names, Variables};

#[cfg(test)]
mod tests;
