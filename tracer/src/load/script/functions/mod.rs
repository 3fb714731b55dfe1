//! What can be called in expressions: operators and functions, a table of them.

mod hash;
mod math;
mod operators;
mod random;
pub(crate) mod sysbench;

use super::random::Random;
use super::value::{EvaluationError, Value};

pub(super) use operators::*;

/// Most arguments a function takes.
pub(super) const ARGUMENTS_MAX: usize = 16;

/// How many arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arity {
    /// This many.
    Exactly(usize),
    /// One or more.
    AtLeastOne,
    /// This many, or one less: then `:default_seed` is the last.
    OrDefaultSeed(usize),
}

/// What a call can use besides its arguments.
#[derive(Debug)]
pub struct Scope<'a> {
    /// The client's stream.
    pub random: &'a mut Random,
    /// Number of the script, from 0.
    pub script: usize,
    /// Number of the command, from 0.
    pub command: usize,
}

/// The code of a function; it gets as many arguments as its arity says.
pub type Code = fn(&mut Scope<'_>, &[Value]) -> Result<Value, EvaluationError>;

/// Something that can be called.
#[derive(Debug)]
pub struct Function {
    /// As written in a script; upper and lower case are the same.
    pub name: &'static str,
    /// How many arguments.
    pub arity: Arity,
    /// Whether it looks at null arguments itself; for the others the result is null then.
    pub takes_null: bool,
    /// What it does.
    pub code: Code,
}

impl Function {
    /// A function that is null where an argument is.
    pub const fn new(name: &'static str, arity: Arity, code: Code) -> Self {
        Self { name, arity, takes_null: false, code }
    }
}

/// The functions by topic; a new topic is a new entry.
const TOPICS: &[&[Function]] =
    &[math::FUNCTIONS, random::FUNCTIONS, hash::FUNCTIONS, sysbench::FUNCTIONS];

/// The function of this name.
pub(super) fn find(name: &str) -> Option<&'static Function> {
    TOPICS
        .iter()
        .flat_map(|topic| topic.iter())
        .find(|function| function.name.eq_ignore_ascii_case(name))
}
