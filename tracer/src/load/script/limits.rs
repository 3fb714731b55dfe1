//! How large expressions may be.

use super::token::{Kind, LexError, Token};

/// Most tokens of an expression, and how deep it may nest: evaluation recurses.
const TOKENS_MAX: usize = 2000;
const NESTING_MAX: usize = 100;

/// Refuses what parsing and evaluating could not recurse through.
pub(super) fn check_size(tokens: &[Token<'_>]) -> Result<(), LexError> {
    let refuse =
        |token: &Token<'_>, problem: String| Err(LexError { span: token.span.clone(), problem });
    if let Some(token) = tokens.get(TOKENS_MAX) {
        return refuse(token, format!("the expression has more than {TOKENS_MAX} tokens"));
    }
    // Depth outside the innermost open parenthesis or CASE; prefix operators nest up to its end.
    let mut outside = Vec::new();
    let mut depth = 0;
    let mut operand_may_come = true;
    for token in tokens {
        match token.kind {
            Kind::Symbol("(") | Kind::Case => {
                outside.push(depth);
                depth += 1;
                operand_may_come = true;
            }
            Kind::Symbol(")") | Kind::End => {
                depth = outside.pop().unwrap_or(0);
                operand_may_come = false;
            }
            Kind::Symbol(",") | Kind::When | Kind::Then | Kind::Else => {
                depth = outside.last().map_or(0, |depth| depth + 1);
                operand_may_come = true;
            }
            Kind::Symbol(_) | Kind::Not => {
                depth += usize::from(operand_may_come);
                operand_may_come = true;
            }
            Kind::And | Kind::Or => operand_may_come = true,
            _ => operand_may_come = false,
        }
        if depth > NESTING_MAX {
            return refuse(token, format!("the expression nests more than {NESTING_MAX} deep"));
        }
    }
    Ok(())
}
