//! The tokens of expressions.

use std::ops::Range;

use winnow::ascii::digit1;
use winnow::combinator::{alt, opt, preceded, repeat};
use winnow::prelude::*;
use winnow::stream::{LocatingSlice, Location as _};
use winnow::token::{any, one_of, take_while};

/// What one token is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Kind<'a> {
    Int(i64),
    /// 2⁶³, which is an integer only behind a minus.
    IntEnd,
    Double(f64),
    Boolean(bool),
    Null,
    /// `:name`, without the colon.
    Variable(&'a str),
    /// A name that is no keyword.
    Function(&'a str),
    /// An operator, a parenthesis or the comma.
    Symbol(&'a str),
    And,
    Or,
    Not,
    Is,
    IsNull,
    NotNull,
    Case,
    When,
    Then,
    Else,
    End,
}

/// A token and where it stands in the script.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Token<'a> {
    pub(super) kind: Kind<'a>,
    pub(super) span: Range<usize>,
}

/// Characters that begin no token, or a number out of range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LexError {
    pub(super) span: Range<usize>,
    pub(super) problem: String,
}

/// Longest first, for a symbol ends where no longer one is there.
const SYMBOLS: [&str; 20] = [
    "<=", ">=", "<>", "!=", "<<", ">>", "<", ">", "=", "|", "#", "&", "~", "+", "-", "*", "/", "%",
    "(", ")",
];

type Input<'a> = LocatingSlice<&'a str>;
type Lexed<T> = winnow::Result<T, winnow::error::EmptyError>;

/// Cuts `text` into tokens; spans are relative to it.
pub(super) fn tokens(text: &str) -> Result<Vec<Token<'_>>, LexError> {
    let mut input = LocatingSlice::new(text);
    let mut tokens = Vec::new();
    loop {
        skip_space(&mut input);
        if input.is_empty() {
            return Ok(tokens);
        }
        let from = input.current_token_start();
        let found = token.parse_next(&mut input);
        let to = input.current_token_start();
        match found {
            Ok(Ok(kind)) => tokens.push(Token { kind, span: from..to }),
            Ok(Err(problem)) => return Err(LexError { span: from..to, problem }),
            Err(_) => {
                let character = text[from..].chars().next().unwrap_or_default();
                let problem = format!("unexpected character `{character}`");
                return Err(LexError { span: from..from + character.len_utf8(), problem });
            }
        }
    }
}

fn skip_space(input: &mut Input<'_>) {
    let space = take_while(1.., [' ', '\t', '\r', '\x0b', '\x0c', '\n']).void();
    let continuation = ('\\', opt('\r'), '\n').void();
    let skipped: Lexed<()> = repeat(0.., alt((space, continuation))).parse_next(input);
    // Nothing to skip is no failure.
    let _ = skipped;
}

fn token<'a>(input: &mut Input<'a>) -> Lexed<Result<Kind<'a>, String>> {
    alt((
        preceded(':', take_while(1.., is_name_character)).map(|name| Ok(Kind::Variable(name))),
        number,
        (one_of(is_name_start), take_while(0.., is_name_character)).take().map(|w| Ok(word(w))),
        ",".map(|text| Ok(Kind::Symbol(text))),
        symbol.map(|text| Ok(Kind::Symbol(text))),
    ))
    .parse_next(input)
}

fn symbol<'a>(input: &mut Input<'a>) -> Lexed<&'a str> {
    for mut text in SYMBOLS {
        let found: Lexed<&'a str> = text.parse_next(input);
        if found.is_ok() {
            return found;
        }
    }
    any.verify(|_| false).take().parse_next(input)
}

/// Digits alone are an integer; a point or an exponent makes a double.
fn number<'a>(input: &mut Input<'a>) -> Lexed<Result<Kind<'a>, String>> {
    let exponent = || (one_of(['e', 'E']), opt(one_of(['+', '-'])), digit1).void();
    let fraction = || ('.', take_while(0.., |c: char| c.is_ascii_digit())).void();
    let whole_first = (digit1, opt(fraction()), opt(exponent())).take();
    let point_first = ('.', digit1, opt(exponent())).take();
    alt((whole_first, point_first)).map(number_kind).parse_next(input)
}

fn number_kind(text: &str) -> Result<Kind<'_>, String> {
    if text.bytes().all(|byte| byte.is_ascii_digit()) {
        const INT_END: u64 = 1 << 63;
        return match text.parse::<u64>() {
            Ok(INT_END) => Ok(Kind::IntEnd),
            Ok(value) if value < INT_END => Ok(Kind::Int(value.cast_signed())),
            _ => Err(format!("bigint constant overflow: {text}")),
        };
    }
    match text.parse::<f64>() {
        Ok(value) if value.is_finite() => Ok(Kind::Double(value)),
        _ => Err(format!("double constant overflow: {text}")),
    }
}

fn word(text: &str) -> Kind<'_> {
    let keywords: [(&str, Kind<'_>); 14] = [
        ("null", Kind::Null),
        ("true", Kind::Boolean(true)),
        ("false", Kind::Boolean(false)),
        ("and", Kind::And),
        ("or", Kind::Or),
        ("not", Kind::Not),
        ("is", Kind::Is),
        ("isnull", Kind::IsNull),
        ("notnull", Kind::NotNull),
        ("case", Kind::Case),
        ("when", Kind::When),
        ("then", Kind::Then),
        ("else", Kind::Else),
        ("end", Kind::End),
    ];
    let found = keywords.into_iter().find(|(keyword, _)| text.eq_ignore_ascii_case(keyword));
    found.map_or(Kind::Function(text), |(_, kind)| kind)
}

/// What a name begins with; anything beyond ASCII is a letter.
pub(crate) fn is_name_start(character: char) -> bool {
    character.is_ascii_alphabetic() || character == '_' || !character.is_ascii()
}

/// What a name goes on with.
pub(crate) fn is_name_character(character: char) -> bool {
    is_name_start(character) || character.is_ascii_digit()
}

/// Whether a variable may have this name.
pub(crate) fn is_variable_name(name: &str) -> bool {
    name.starts_with(is_name_start) && name.chars().all(is_name_character)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(text: &str) -> Vec<Kind<'_>> {
        tokens(text).unwrap().into_iter().map(|token| token.kind).collect()
    }

    #[test]
    fn numbers_are_integers_until_a_point_or_an_exponent() {
        use Kind::{Double, Int, IntEnd};
        assert_eq!(
            kinds("1 1. 1.5e1 .5 1e2 007"),
            [Int(1), Double(1.0), Double(15.0), Double(0.5), Double(100.0), Int(7)]
        );
        assert_eq!(kinds("9223372036854775807 9223372036854775808"), [Int(i64::MAX), IntEnd]);
        for text in ["9223372036854775809", "99999999999999999999", "1e999"] {
            assert!(tokens(text).unwrap_err().problem.contains("overflow"), "{text}");
        }
    }

    #[test]
    fn keywords_end_where_the_word_ends() {
        assert_eq!(
            kinds("Not nothing ISNULL"),
            [Kind::Not, Kind::Function("nothing"), Kind::IsNull]
        );
    }

    #[test]
    fn a_line_may_be_continued() {
        assert_eq!(
            kinds("1\\\n<=\\\r\n:a1"),
            [Kind::Int(1), Kind::Symbol("<="), Kind::Variable("a1")]
        );
    }

    #[test]
    fn a_stray_character_is_pointed_at() {
        let error = tokens("1 + ä$").unwrap_err();
        assert_eq!((error.span, error.problem.as_str()), (6..7, "unexpected character `$`"));
        assert_eq!(tokens("1 \\ 2").unwrap_err().span, 2..3);
        assert_eq!(tokens("é").unwrap()[0].span, 0..2);
    }
}
