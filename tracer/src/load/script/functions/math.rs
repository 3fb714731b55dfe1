//! Numbers: absolute values, extremes, casts, roots and powers.

use super::operators::modulo;
use super::{Arity, Function, Scope};
use crate::load::script::value::{EvaluationError, Value};

type Answer = Result<Value, EvaluationError>;

const ONE: Arity = Arity::Exactly(1);
const TWO: Arity = Arity::Exactly(2);

pub(super) const FUNCTIONS: &[Function] = &[
    Function::new("abs", ONE, |_, arguments| match arguments[0] {
        Value::Int(value) => Ok(Value::Int(value.wrapping_abs())),
        other => Ok(Value::Double(other.to_double()?.abs())),
    }),
    Function { name: "debug", arity: ONE, takes_null: true, code: debug },
    Function::new("double", ONE, |_, arguments| double(arguments, |value| value)),
    Function::new("exp", ONE, |_, arguments| double(arguments, f64::exp)),
    Function::new("greatest", Arity::AtLeastOne, |_, arguments| {
        extreme(arguments, |best, next| best > next, |best, next| best > next)
    }),
    Function::new("int", ONE, |_, arguments| Ok(Value::Int(arguments[0].to_int()?))),
    Function::new("least", Arity::AtLeastOne, |_, arguments| {
        extreme(arguments, |best, next| best < next, |best, next| best < next)
    }),
    Function::new("ln", ONE, |_, arguments| double(arguments, f64::ln)),
    Function::new("mod", TWO, modulo),
    Function::new("pi", Arity::Exactly(0), |_, _| Ok(Value::Double(std::f64::consts::PI))),
    Function::new("pow", TWO, power),
    Function::new("power", TWO, power),
    Function::new("sqrt", ONE, |_, arguments| double(arguments, f64::sqrt)),
];

fn double(arguments: &[Value], operation: impl Fn(f64) -> f64) -> Answer {
    Ok(Value::Double(operation(arguments[0].to_double()?)))
}

fn power(_: &mut Scope<'_>, arguments: &[Value]) -> Answer {
    Ok(Value::Double(arguments[0].to_double()?.powf(arguments[1].to_double()?)))
}

/// The argument that `stays` against all others; a double if one of them is.
fn extreme(
    arguments: &[Value],
    double_stays: impl Fn(f64, f64) -> bool,
    int_stays: impl Fn(i64, i64) -> bool,
) -> Answer {
    if arguments.iter().any(|argument| matches!(argument, Value::Double(_))) {
        let mut best = arguments[0].to_double()?;
        for argument in &arguments[1..] {
            let next = argument.to_double()?;
            best = if double_stays(best, next) { best } else { next };
        }
        return Ok(Value::Double(best));
    }
    let mut best = arguments[0].to_int()?;
    for argument in &arguments[1..] {
        let next = argument.to_int()?;
        best = if int_stays(best, next) { best } else { next };
    }
    Ok(Value::Int(best))
}

/// Prints its argument on standard error, and is it.
fn debug(scope: &mut Scope<'_>, arguments: &[Value]) -> Answer {
    let value = arguments[0];
    let (script, command) = (scope.script, scope.command + 1);
    let text = match value {
        Value::Null => "null".to_owned(),
        other => format!("{} {other}", other.type_name()),
    };
    eprintln!("debug(script={script},command={command}): {text}");
    Ok(value)
}
