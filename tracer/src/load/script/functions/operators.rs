//! The operators, called as functions.

use super::{Arity, Function, Scope};
use crate::load::script::value::{EvaluationError, Value};

type Answer = Result<Value, EvaluationError>;

const fn binary(name: &'static str, code: super::Code) -> Function {
    Function::new(name, Arity::Exactly(2), code)
}

pub(in super::super) static ADD: Function = binary("+", |_, arguments| {
    arithmetic(arguments, |a, b| a + b, i64::checked_add, "bigint add out of range")
});
pub(in super::super) static SUBTRACT: Function = binary("-", |_, arguments| {
    arithmetic(arguments, |a, b| a - b, i64::checked_sub, "bigint sub out of range")
});
pub(in super::super) static MULTIPLY: Function = binary("*", |_, arguments| {
    arithmetic(arguments, |a, b| a * b, i64::checked_mul, "bigint mul out of range")
});
pub(in super::super) static DIVIDE: Function = binary("/", |_, arguments| {
    if let [_, Value::Int(0)] = arguments
        && !matches!(arguments[0], Value::Double(_))
    {
        arguments[0].to_int()?;
        return Err(EvaluationError::new("division by zero"));
    }
    arithmetic(arguments, |a, b| a / b, i64::checked_div, "bigint div out of range")
});
pub(in super::super) static MODULO: Function = binary("%", modulo);

pub(in super::super) static EQUAL: Function =
    binary("=", |_, arguments| compare(arguments, |a, b| a == b, |a, b| a == b));
pub(in super::super) static NOT_EQUAL: Function =
    binary("<>", |_, arguments| compare(arguments, |a, b| a != b, |a, b| a != b));
pub(in super::super) static LESS: Function =
    binary("<", |_, arguments| compare(arguments, |a, b| a < b, |a, b| a < b));
pub(in super::super) static LESS_OR_EQUAL: Function =
    binary("<=", |_, arguments| compare(arguments, |a, b| a <= b, |a, b| a <= b));

pub(in super::super) static BIT_AND: Function =
    binary("&", |_, arguments| bits(arguments, |a, b| a & b));
pub(in super::super) static BIT_OR: Function =
    binary("|", |_, arguments| bits(arguments, |a, b| a | b));
pub(in super::super) static BIT_XOR: Function =
    binary("#", |_, arguments| bits(arguments, |a, b| a ^ b));
// The processor's shifts, as C leaves them: only the last six bits of the distance count.
pub(in super::super) static SHIFT_LEFT: Function =
    binary("<<", |_, arguments| bits(arguments, |a, b| a.wrapping_shl(b as u32)));
pub(in super::super) static SHIFT_RIGHT: Function =
    binary(">>", |_, arguments| bits(arguments, |a, b| a.wrapping_shr(b as u32)));

pub(in super::super) static NOT: Function =
    Function::new("not", Arity::Exactly(1), |_, arguments| {
        Ok(Value::Boolean(!arguments[0].to_boolean()?))
    });
/// Compares with null, true or false; nothing is converted.
pub(in super::super) static IS: Function = Function {
    name: "is",
    arity: Arity::Exactly(2),
    takes_null: true,
    code: |_, arguments| Ok(Value::Boolean(arguments[0] == arguments[1])),
};

pub(super) fn modulo(_: &mut Scope<'_>, arguments: &[Value]) -> Answer {
    match (arguments[0].to_int()?, arguments[1].to_int()?) {
        (_, 0) => Err(EvaluationError::new("division by zero")),
        // -1 divides everything; the smallest integer's quotient would overflow.
        (dividend, divisor) => Ok(Value::Int(dividend.wrapping_rem(divisor))),
    }
}

fn either_is_double(arguments: &[Value]) -> bool {
    arguments.iter().any(|argument| matches!(argument, Value::Double(_)))
}

#[inline]
fn arithmetic(
    arguments: &[Value],
    double: impl Fn(f64, f64) -> f64,
    int: impl Fn(i64, i64) -> Option<i64>,
    overflow: &str,
) -> Answer {
    if either_is_double(arguments) {
        return Ok(Value::Double(double(arguments[0].to_double()?, arguments[1].to_double()?)));
    }
    int(arguments[0].to_int()?, arguments[1].to_int()?)
        .map(Value::Int)
        .ok_or_else(|| EvaluationError::new(overflow))
}

fn compare(
    arguments: &[Value],
    double: impl Fn(f64, f64) -> bool,
    int: impl Fn(i64, i64) -> bool,
) -> Answer {
    Ok(Value::Boolean(if either_is_double(arguments) {
        double(arguments[0].to_double()?, arguments[1].to_double()?)
    } else {
        int(arguments[0].to_int()?, arguments[1].to_int()?)
    }))
}

fn bits(arguments: &[Value], operation: impl Fn(i64, i64) -> i64) -> Answer {
    Ok(Value::Int(operation(arguments[0].to_int()?, arguments[1].to_int()?)))
}
