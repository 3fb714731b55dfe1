//! Evaluation of expressions over a client's variables.

use super::expression::Expression;
use super::functions::{ARGUMENTS_MAX, Function, Scope};
use super::value::{EvaluationError, Value};
use super::variables::Variables;

impl Expression<usize> {
    /// The value, or why there is none.
    pub(crate) fn evaluate(
        &self,
        variables: &Variables,
        scope: &mut Scope<'_>,
    ) -> Result<Value, EvaluationError> {
        match self {
            Self::Constant(value) => Ok(*value),
            Self::Variable(slot) => variables.value(*slot),
            Self::Call(function, arguments) => match &arguments[..] {
                [] => call(function, [], scope),
                [one] => {
                    let one = one.evaluate(variables, scope)?;
                    call(function, [one], scope)
                }
                [one, two] => {
                    let one = one.evaluate(variables, scope)?;
                    let two = two.evaluate(variables, scope)?;
                    call(function, [one, two], scope)
                }
                many => call_with_many(function, many, variables, scope),
            },
            Self::And(sides) => connect(sides, false, variables, scope),
            Self::Or(sides) => connect(sides, true, variables, scope),
            Self::Case(branches, otherwise) => {
                for (when, then) in branches {
                    if when.evaluate(variables, scope)?.is_true() {
                        return then.evaluate(variables, scope);
                    }
                }
                otherwise.evaluate(variables, scope)
            }
        }
    }
}

#[inline]
fn call<const N: usize>(
    function: &Function,
    arguments: [Value; N],
    scope: &mut Scope<'_>,
) -> Result<Value, EvaluationError> {
    if !function.takes_null && any_is_null(&arguments) {
        return Ok(Value::Null);
    }
    (function.code)(scope, &arguments)
}

/// Quicker than to compare values with null, which looks at their types too.
#[inline]
fn any_is_null(values: &[Value]) -> bool {
    values.iter().any(|value| matches!(value, Value::Null))
}

/// Apart, so that the other calls need little stack.
#[inline(never)]
fn call_with_many(
    function: &Function,
    arguments: &[Expression<usize>],
    variables: &Variables,
    scope: &mut Scope<'_>,
) -> Result<Value, EvaluationError> {
    let mut values = [Value::Null; ARGUMENTS_MAX];
    let values = &mut values[..arguments.len()];
    for (value, argument) in values.iter_mut().zip(arguments) {
        *value = argument.evaluate(variables, scope)?;
    }
    if !function.takes_null && any_is_null(values) {
        return Ok(Value::Null);
    }
    (function.code)(scope, values)
}

/// AND and OR: the left side alone decides where it is `decisive` or null.
fn connect(
    sides: &(Expression<usize>, Expression<usize>),
    decisive: bool,
    variables: &Variables,
    scope: &mut Scope<'_>,
) -> Result<Value, EvaluationError> {
    for side in [&sides.0, &sides.1] {
        match side.evaluate(variables, scope)? {
            Value::Null => return Ok(Value::Null),
            value if value.to_boolean()? == decisive => return Ok(Value::Boolean(decisive)),
            _ => {}
        }
    }
    Ok(Value::Boolean(!decisive))
}
