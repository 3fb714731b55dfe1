//! What both programs' lines are made of.

use winnow::ascii::{dec_uint, float};
use winnow::combinator::delimited;
use winnow::prelude::*;
use winnow::token::take_till;

pub(super) type Parsed<T> = winnow::Result<T, winnow::error::EmptyError>;

pub(super) fn number(input: &mut &str) -> Parsed<f64> {
    float.parse_next(input)
}

pub(super) fn count(input: &mut &str) -> Parsed<u64> {
    dec_uint.parse_next(input)
}

/// The number behind `key` wherever that stands, and before `unit`.
pub(super) fn valued(line: &str, key: &str, unit: &str) -> Option<f64> {
    let (_, mut rest) = line.split_once(key)?;
    delimited(spaces, number, unit).parse_next(&mut rest).ok()
}

pub(super) fn spaces(input: &mut &str) -> Parsed<()> {
    take_till(0.., |c: char| c != ' ').void().parse_next(input)
}
