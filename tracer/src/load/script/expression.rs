//! Expressions: the tree and the grammar, with pgbench's precedences.

use winnow::combinator::{Infix, Postfix, Prefix, alt, cut_err, expression, fail, opt, repeat};
use winnow::error::{ErrMode, ParserError};
use winnow::prelude::*;
use winnow::stream::{Stream, TokenSlice};
use winnow::token::any;

use super::functions::{self, ARGUMENTS_MAX, Arity, Function};
use super::limits::check_size;
use super::token::{Kind, LexError, Token, tokens};
use super::value::Value;

/// An expression; `V` is how it refers to a variable.
#[derive(Clone, Debug)]
pub enum Expression<V> {
    /// A literal.
    Constant(Value),
    /// `:name`.
    Variable(V),
    /// A function or an operator.
    Call(&'static Function, Vec<Expression<V>>),
    /// False where the left side is, without a look at the right.
    And(Box<(Expression<V>, Expression<V>)>),
    /// True where the left side is, without a look at the right.
    Or(Box<(Expression<V>, Expression<V>)>),
    /// The first branch whose condition is true, or else the last expression.
    Case(Vec<(Expression<V>, Expression<V>)>, Box<Expression<V>>),
}

impl<V> Expression<V> {
    /// The same expression with other references.
    pub(crate) fn map<W>(&self, variable: &mut impl FnMut(&V) -> W) -> Expression<W> {
        match self {
            Self::Constant(value) => Expression::Constant(*value),
            Self::Variable(name) => Expression::Variable(variable(name)),
            Self::Call(function, arguments) => {
                Expression::Call(function, arguments.iter().map(|one| one.map(variable)).collect())
            }
            Self::And(sides) => {
                Expression::And(Box::new((sides.0.map(variable), sides.1.map(variable))))
            }
            Self::Or(sides) => {
                Expression::Or(Box::new((sides.0.map(variable), sides.1.map(variable))))
            }
            Self::Case(branches, otherwise) => {
                let branches = branches.iter().map(|(when, then)| {
                    let when = when.map(variable);
                    (when, then.map(variable))
                });
                Expression::Case(branches.collect(), Box::new(otherwise.map(variable)))
            }
        }
    }
}

type Tree = Expression<String>;
type Tokens<'t, 'a> = TokenSlice<'t, Token<'a>>;
type Parsed<T> = winnow::Result<T, ErrMode<Problem>>;

/// What is wrong, and how many tokens are left from there on.
#[derive(Debug)]
struct Problem {
    rest: usize,
    text: Option<String>,
}

impl<'t, 'a> ParserError<Tokens<'t, 'a>> for Problem {
    type Inner = Self;

    fn from_input(input: &Tokens<'t, 'a>) -> Self {
        Self { rest: input.eof_offset(), text: None }
    }

    fn into_inner(self) -> Result<Self::Inner, Self> {
        Ok(self)
    }

    /// Whoever got further knows better.
    fn or(self, other: Self) -> Self {
        if other.rest < self.rest { other } else { self }
    }
}

/// Parses `text` whole; the error's span is relative to it.
pub(super) fn parse(text: &str) -> Result<Tree, LexError> {
    let tokens = tokens(text)?;
    check_size(&tokens)?;
    let mut input = TokenSlice::new(&tokens);
    let (rest, problem) = match tree.parse_next(&mut input) {
        Ok(tree) if input.eof_offset() == 0 => return Ok(tree),
        Ok(_) => (input.eof_offset(), None),
        Err(error) => {
            let problem = error.into_inner().map_or(Problem { rest: 0, text: None }, |p| p);
            (problem.rest, problem.text)
        }
    };
    let Some(token) = tokens.len().checked_sub(rest).and_then(|at| tokens.get(at)) else {
        let end = text.trim_end().len();
        let problem = "syntax error: the expression ends too early".to_owned();
        return Err(LexError { span: end..end, problem });
    };
    let wrong = || match token.kind {
        Kind::IntEnd => format!("bigint constant overflow: {}", &text[token.span.clone()]),
        _ => format!("syntax error: unexpected `{}`", &text[token.span.clone()]),
    };
    Err(LexError { span: token.span.clone(), problem: problem.unwrap_or_else(wrong) })
}

/// Binding powers, from the loosest to the tightest; a prefix binds what is tighter than its own.
const OR: i64 = 10;
const AND: i64 = 20;
const NOT: i64 = 30;
const IS: i64 = 40;
const COMPARISON: i64 = 50;
const BITS: i64 = 60;
const SUM: i64 = 70;
const PRODUCT: i64 = 80;
const SIGN: i64 = 90;

fn tree(input: &mut Tokens<'_, '_>) -> Parsed<Tree> {
    expression(operand).prefix(prefix).postfix(postfix).infix(infix).parse_next(input)
}

fn prefix<'t, 'a>(
    input: &mut Tokens<'t, 'a>,
) -> Parsed<Prefix<Tokens<'t, 'a>, Tree, ErrMode<Problem>>> {
    Ok(match any.parse_next(input)?.kind {
        Kind::Symbol("+") => Prefix(SIGN, |_, one| Ok(one)),
        Kind::Symbol("-") => {
            Prefix(SIGN, |_, one| Ok(call(&functions::SUBTRACT, [Value::Int(0).into(), one])))
        }
        Kind::Symbol("~") => {
            Prefix(BITS + 1, |_, one| Ok(call(&functions::BIT_XOR, [Value::Int(-1).into(), one])))
        }
        Kind::Not => Prefix(NOT, |_, one| Ok(call(&functions::NOT, [one]))),
        _ => return unexpected(input),
    })
}

fn postfix<'t, 'a>(
    input: &mut Tokens<'t, 'a>,
) -> Parsed<Postfix<Tokens<'t, 'a>, Tree, ErrMode<Problem>>> {
    let is_null = Postfix(IS, |_, one| Ok(is(one, Value::Null)));
    let is_not_null = Postfix(IS, |_, one| Ok(call(&functions::NOT, [is(one, Value::Null)])));
    match any.parse_next(input)?.kind {
        Kind::IsNull => return Ok(is_null),
        Kind::NotNull => return Ok(is_not_null),
        Kind::Is => {}
        _ => return unexpected(input),
    }
    Ok(match cut_err(any).parse_next(input)?.kind {
        Kind::Null => is_null,
        Kind::Boolean(true) => Postfix(IS, |_, one| Ok(is(one, Value::Boolean(true)))),
        Kind::Boolean(false) => Postfix(IS, |_, one| Ok(is(one, Value::Boolean(false)))),
        Kind::Not => match cut_err(any).parse_next(input)?.kind {
            Kind::Null => is_not_null,
            Kind::Boolean(true) => {
                Postfix(IS, |_, one| Ok(call(&functions::NOT, [is(one, Value::Boolean(true))])))
            }
            Kind::Boolean(false) => {
                Postfix(IS, |_, one| Ok(call(&functions::NOT, [is(one, Value::Boolean(false))])))
            }
            _ => return unexpected(input).map_err(ErrMode::cut),
        },
        _ => return unexpected(input).map_err(ErrMode::cut),
    })
}

fn infix<'t, 'a>(
    input: &mut Tokens<'t, 'a>,
) -> Parsed<Infix<Tokens<'t, 'a>, Tree, ErrMode<Problem>>> {
    use Infix::{Left, Neither};
    Ok(match any.parse_next(input)?.kind {
        Kind::Or => Left(OR, |_, a, b| Ok(Expression::Or(Box::new((a, b))))),
        Kind::And => Left(AND, |_, a, b| Ok(Expression::And(Box::new((a, b))))),
        Kind::Symbol("<") => Neither(COMPARISON, |_, a, b| Ok(call(&functions::LESS, [a, b]))),
        Kind::Symbol("<=") => {
            Neither(COMPARISON, |_, a, b| Ok(call(&functions::LESS_OR_EQUAL, [a, b])))
        }
        // Turned round, also in the order of evaluation, which random functions show.
        Kind::Symbol(">") => Neither(COMPARISON, |_, a, b| Ok(call(&functions::LESS, [b, a]))),
        Kind::Symbol(">=") => {
            Neither(COMPARISON, |_, a, b| Ok(call(&functions::LESS_OR_EQUAL, [b, a])))
        }
        Kind::Symbol("=") => Neither(COMPARISON, |_, a, b| Ok(call(&functions::EQUAL, [a, b]))),
        Kind::Symbol("<>" | "!=") => {
            Neither(COMPARISON, |_, a, b| Ok(call(&functions::NOT_EQUAL, [a, b])))
        }
        Kind::Symbol("|") => Left(BITS, |_, a, b| Ok(call(&functions::BIT_OR, [a, b]))),
        Kind::Symbol("#") => Left(BITS, |_, a, b| Ok(call(&functions::BIT_XOR, [a, b]))),
        Kind::Symbol("&") => Left(BITS, |_, a, b| Ok(call(&functions::BIT_AND, [a, b]))),
        Kind::Symbol("<<") => Left(BITS, |_, a, b| Ok(call(&functions::SHIFT_LEFT, [a, b]))),
        Kind::Symbol(">>") => Left(BITS, |_, a, b| Ok(call(&functions::SHIFT_RIGHT, [a, b]))),
        Kind::Symbol("+") => Left(SUM, |_, a, b| Ok(call(&functions::ADD, [a, b]))),
        Kind::Symbol("-") => Left(SUM, |_, a, b| Ok(call(&functions::SUBTRACT, [a, b]))),
        Kind::Symbol("*") => Left(PRODUCT, |_, a, b| Ok(call(&functions::MULTIPLY, [a, b]))),
        Kind::Symbol("/") => Left(PRODUCT, |_, a, b| Ok(call(&functions::DIVIDE, [a, b]))),
        Kind::Symbol("%") => Left(PRODUCT, |_, a, b| Ok(call(&functions::MODULO, [a, b]))),
        _ => return unexpected(input),
    })
}

fn operand(input: &mut Tokens<'_, '_>) -> Parsed<Tree> {
    let literal = any.verify_map(|token: &Token<'_>| match token.kind {
        Kind::Int(value) => Some(Value::Int(value).into()),
        Kind::Double(value) => Some(Value::Double(value).into()),
        Kind::Boolean(value) => Some(Value::Boolean(value).into()),
        Kind::Null => Some(Value::Null.into()),
        Kind::Variable(name) => Some(Expression::Variable(name.to_owned())),
        _ => None,
    });
    let smallest = (symbol("-"), kind(Kind::IntEnd)).map(|_| Value::Int(i64::MIN).into());
    let parenthesized = (symbol("("), cut_err((tree, symbol(")")))).map(|(_, (tree, _))| tree);
    alt((literal, smallest, parenthesized, function_call, case)).parse_next(input)
}

fn function_call(input: &mut Tokens<'_, '_>) -> Parsed<Tree> {
    let rest = input.eof_offset();
    let name = any
        .verify_map(|token: &Token<'_>| match token.kind {
            Kind::Function(name) => Some(name),
            _ => None,
        })
        .parse_next(input)?;
    let refuse = |text: String| ErrMode::Cut(Problem { rest, text: Some(text) });
    let function = functions::find(name)
        .ok_or_else(|| refuse(format!("unexpected function name `{name}`")))?;
    cut_err(symbol("(")).parse_next(input)?;
    let first: Option<Tree> = opt(tree).parse_next(input)?;
    let others: Vec<Tree> = match first {
        Some(_) => {
            let more = (symbol(","), cut_err(tree)).map(|(_, argument)| argument);
            repeat(0.., more).parse_next(input)?
        }
        None => Vec::new(),
    };
    cut_err(symbol(")")).parse_next(input)?;
    complete(function, first.into_iter().chain(others).collect()).map_err(refuse)
}

/// Checks the number of arguments, and adds the seed where it was left away.
fn complete(function: &'static Function, mut arguments: Vec<Tree>) -> Result<Tree, String> {
    let count = arguments.len();
    let fits = match function.arity {
        Arity::Exactly(wanted) => count == wanted,
        Arity::AtLeastOne if count > ARGUMENTS_MAX => {
            return Err(format!("too many function arguments, maximum is {ARGUMENTS_MAX}"));
        }
        Arity::AtLeastOne if count == 0 => {
            return Err(format!("at least one argument expected (`{}`)", function.name));
        }
        Arity::AtLeastOne => true,
        Arity::OrDefaultSeed(wanted) => count == wanted || count + 1 == wanted,
    };
    if !fits {
        return Err(format!("unexpected number of arguments (`{}`)", function.name));
    }
    if matches!(function.arity, Arity::OrDefaultSeed(wanted) if count < wanted) {
        arguments.push(Expression::Variable("default_seed".to_owned()));
    }
    Ok(Expression::Call(function, arguments))
}

fn case(input: &mut Tokens<'_, '_>) -> Parsed<Tree> {
    kind(Kind::Case).parse_next(input)?;
    let branch = (kind(Kind::When), cut_err((tree, kind(Kind::Then), tree)))
        .map(|(_, (when, _, then))| (when, then));
    let branches: Vec<_> = cut_err(repeat(1.., branch)).parse_next(input)?;
    let otherwise = (kind(Kind::Else), cut_err(tree)).map(|(_, tree)| tree);
    let nothing = winnow::combinator::empty.value(());
    let otherwise: Option<Tree> =
        alt((otherwise.map(Some), nothing.map(|()| None))).parse_next(input)?;
    cut_err(kind(Kind::End)).parse_next(input)?;
    Ok(Expression::Case(branches, Box::new(otherwise.unwrap_or(Value::Null.into()))))
}

fn kind<'t, 'a>(wanted: Kind<'static>) -> impl Parser<Tokens<'t, 'a>, (), ErrMode<Problem>>
where
    'a: 't,
{
    move |input: &mut Tokens<'t, 'a>| {
        any.verify(|token: &Token<'_>| token.kind == wanted).void().parse_next(input)
    }
}

fn symbol<'t, 'a>(text: &'static str) -> impl Parser<Tokens<'t, 'a>, (), ErrMode<Problem>>
where
    'a: 't,
{
    kind(Kind::Symbol(text))
}

/// The token that was just taken fits nowhere.
fn unexpected<T>(input: &mut Tokens<'_, '_>) -> Parsed<T> {
    let rest = input.eof_offset() + 1;
    fail.parse_next(input)
        .map_err(|_: ErrMode<Problem>| ErrMode::Backtrack(Problem { rest, text: None }))
}

impl<V> From<Value> for Expression<V> {
    fn from(value: Value) -> Self {
        Self::Constant(value)
    }
}

fn call<const N: usize>(function: &'static Function, arguments: [Tree; N]) -> Tree {
    Expression::Call(function, arguments.into())
}

fn is(one: Tree, value: Value) -> Tree {
    call(&functions::IS, [one, value.into()])
}
