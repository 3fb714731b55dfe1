//! Values of expressions, and how they are written and read.

use std::fmt;

/// What an expression can be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value {
    /// Unknown.
    Null,
    /// True or false.
    Boolean(bool),
    /// A 64-bit integer.
    Int(i64),
    /// A double.
    Double(f64),
}

/// An expression that has no value, in the words of the user.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct EvaluationError(pub String);

impl EvaluationError {
    /// With these words.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }
}

/// 2⁶³, the first double that is too large for an integer; its negative still fits.
const INT_END: f64 = 9_223_372_036_854_775_808.0;
/// Digits that a double is written with.
const DOUBLE_DIGITS: u8 = 15;

impl Value {
    /// The name of its type.
    pub fn type_name(self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Boolean(_) => "boolean",
            Self::Int(_) => "int",
            Self::Double(_) => "double",
        }
    }

    /// As an integer; a double is rounded, halves to the even neighbour.
    pub fn to_int(self) -> Result<i64, EvaluationError> {
        match self {
            Self::Int(value) => Ok(value),
            Self::Double(value) => {
                let rounded = value.round_ties_even();
                if (-INT_END..INT_END).contains(&rounded) {
                    Ok(rounded as i64)
                } else {
                    let text = format!("double to int overflow for {rounded:.6}");
                    Err(EvaluationError(text))
                }
            }
            Self::Null | Self::Boolean(_) => Err(self.no("int")),
        }
    }

    /// As a double.
    pub fn to_double(self) -> Result<f64, EvaluationError> {
        match self {
            Self::Double(value) => Ok(value),
            Self::Int(value) => Ok(value as f64),
            Self::Null | Self::Boolean(_) => Err(self.no("double")),
        }
    }

    /// As a truth value: only booleans are, nothing is converted.
    pub fn to_boolean(self) -> Result<bool, EvaluationError> {
        match self {
            Self::Boolean(value) => Ok(value),
            _ => Err(self.no("boolean")),
        }
    }

    /// As a condition of `\if` and `WHEN`: numbers other than zero are true, null is false.
    pub fn is_true(self) -> bool {
        match self {
            Self::Null => false,
            Self::Boolean(value) => value,
            Self::Int(value) => value != 0,
            Self::Double(value) => value != 0.0,
        }
    }

    fn no(self, wanted: &str) -> EvaluationError {
        EvaluationError(format!("cannot coerce {} to {wanted}", self.type_name()))
    }

    /// Appends the text that stands for the value in a statement.
    pub(crate) fn write(self, out: &mut Vec<u8>) {
        match self {
            Self::Null => out.extend_from_slice(b"NULL"),
            Self::Boolean(true) => out.extend_from_slice(b"true"),
            Self::Boolean(false) => out.extend_from_slice(b"false"),
            Self::Int(value) => {
                out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
            }
            Self::Double(value) => write_double(value, out),
        }
    }

    /// Reads the text of a variable.
    pub(super) fn read(text: &[u8]) -> Result<Self, Misread> {
        let text = str::from_utf8(text).map_err(|_| Misread::Malformed)?;
        let is = |word: &str| text.eq_ignore_ascii_case(word);
        let begins = |word: &str| {
            word.get(..text.len()).is_some_and(|start| start.eq_ignore_ascii_case(text))
        };
        if text.is_empty() {
            return Err(Misread::Malformed);
        }
        if is("null") {
            return Ok(Self::Null);
        }
        // Beginnings of the words count, but the lone `o` could be either.
        if begins("true") || begins("yes") || is("on") {
            return Ok(Self::Boolean(true));
        }
        if begins("false") || begins("no") || is("off") || is("of") {
            return Ok(Self::Boolean(false));
        }
        let number = text.trim_start_matches(is_space);
        let digits = number.strip_prefix(['+', '-']).unwrap_or(number);
        if !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return number.parse().map(Self::Int).map_err(|_| Misread::IntRange);
        }
        let value: f64 = number.parse().map_err(|_| Misread::Malformed)?;
        if value.is_infinite() && digits.starts_with(|first: char| first.is_ascii_digit()) {
            return Err(Misread::DoubleRange);
        }
        Ok(Self::Double(value))
    }
}

/// Why a text is no value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Misread {
    Malformed,
    IntRange,
    DoubleRange,
}

impl Misread {
    /// In words, for the variable of this name and text.
    pub(super) fn explain(self, name: &str, text: &[u8]) -> EvaluationError {
        let text = String::from_utf8_lossy(text);
        EvaluationError(match self {
            Self::Malformed => format!(
                "malformed variable \"{name}\" value: \"{text}\" is neither number, boolean nor null"
            ),
            Self::IntRange => {
                format!("variable \"{name}\": value \"{text}\" is out of range for type bigint")
            }
            Self::DoubleRange => {
                format!("variable \"{name}\": value \"{text}\" is out of range for type double")
            }
        })
    }
}

fn is_space(character: char) -> bool {
    matches!(character, ' ' | '\t'..='\r')
}

/// As Postgres's `%.15g`: C's but for the words.
fn write_double(value: f64, out: &mut Vec<u8>) {
    use std::io::Write as _;

    if value.is_nan() {
        return out.extend_from_slice(b"NaN");
    }
    if value.is_infinite() {
        let text: &[u8] = if value > 0.0 { b"Infinity" } else { b"-Infinity" };
        return out.extend_from_slice(text);
    }
    let mut scientific = [0_u8; 32];
    let mut rest = &mut scientific[..];
    // `-1.23456789012345e-308` has 22 characters: the buffer is never too short.
    let _ = write!(rest, "{value:.*e}", usize::from(DOUBLE_DIGITS - 1));
    let length = 32 - rest.len();
    let text = &scientific[..length];
    let at = text.iter().position(|&byte| byte == b'e').unwrap_or(length);
    let (mantissa, exponent) = (&text[..at], &text[(at + 1).min(length)..]);
    let exponent: i32 = str::from_utf8(exponent).ok().and_then(|e| e.parse().ok()).unwrap_or(0);
    let negative = mantissa.first() == Some(&b'-');
    let mut digits = [0_u8; DOUBLE_DIGITS as usize];
    let only_digits = mantissa.iter().filter(|byte| byte.is_ascii_digit());
    for (place, digit) in digits.iter_mut().zip(only_digits) {
        *place = *digit;
    }
    let significant = digits.iter().rposition(|&digit| digit != b'0').map_or(1, |last| last + 1);
    let digits = &digits[..significant];
    if negative {
        out.push(b'-');
    }
    write_digits(digits, exponent, out);
}

/// Places the point, or the exponent where the number is very small or large.
fn write_digits(digits: &[u8], exponent: i32, out: &mut Vec<u8>) {
    use std::io::Write as _;

    let zeros = |count: i32| std::iter::repeat_n(b'0', usize::try_from(count).unwrap_or(0));
    let count = i32::try_from(digits.len()).unwrap_or(i32::MAX);
    if exponent < -4 || exponent >= i32::from(DOUBLE_DIGITS) {
        out.push(digits[0]);
        if count > 1 {
            out.push(b'.');
            out.extend_from_slice(&digits[1..]);
        }
        let sign = if exponent < 0 { '-' } else { '+' };
        // Writing to memory cannot fail.
        let _ = write!(out, "e{sign}{:02}", exponent.abs());
    } else if exponent < 0 {
        out.extend_from_slice(b"0.");
        out.extend(zeros(-exponent - 1));
        out.extend_from_slice(digits);
    } else if exponent + 1 >= count {
        out.extend_from_slice(digits);
        out.extend(zeros(exponent + 1 - count));
    } else {
        let (whole, fraction) = digits.split_at(exponent as usize + 1);
        out.extend_from_slice(whole);
        out.push(b'.');
        out.extend_from_slice(fraction);
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = Vec::new();
        self.write(&mut text);
        f.write_str(&String::from_utf8_lossy(&text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What Postgres's `printf("%.15g")` writes.
    #[test]
    fn doubles_are_written_as_postgres_writes_them() {
        let cases: &[(f64, &str)] = &[
            (0.0, "0"),
            (-0.0, "-0"),
            (1.0, "1"),
            (0.1, "0.1"),
            (1.0 / 3.0, "0.333333333333333"),
            (2.0 / 3.0, "0.666666666666667"),
            (1024.0, "1024"),
            (123_456.789, "123456.789"),
            (1e14, "100000000000000"),
            (999_999_999_999_999.0, "999999999999999"),
            (1e15, "1e+15"),
            (1.5e300, "1.5e+300"),
            (0.0001, "0.0001"),
            (0.000_01, "1e-05"),
            (-1.25e-7, "-1.25e-07"),
            (std::f64::consts::PI, "3.14159265358979"),
            (f64::MAX, "1.79769313486232e+308"),
            (5e-324, "4.94065645841247e-324"),
            (0.999_999_999_999_999_9, "1"),
            (f64::INFINITY, "Infinity"),
            (f64::NEG_INFINITY, "-Infinity"),
            (f64::NAN, "NaN"),
        ];
        for (value, text) in cases {
            assert_eq!(Value::Double(*value).to_string(), *text);
        }
    }

    #[test]
    fn texts_are_read_as_what_they_look_like() {
        let read = |text: &str| Value::read(text.as_bytes());
        assert_eq!(read("nUlL"), Ok(Value::Null));
        for word in ["t", "TRU", "true", "y", "Yes", "on"] {
            assert_eq!(read(word), Ok(Value::Boolean(true)), "{word}");
        }
        for word in ["f", "false", "n", "NO", "of", "off"] {
            assert_eq!(read(word), Ok(Value::Boolean(false)), "{word}");
        }
        assert_eq!(read("  -7"), Ok(Value::Int(-7)));
        assert_eq!(read("+7"), Ok(Value::Int(7)));
        assert_eq!(read("007"), Ok(Value::Int(7)));
        assert_eq!(read("1e3"), Ok(Value::Double(1000.0)));
        assert_eq!(read("-.5"), Ok(Value::Double(-0.5)));
        for text in ["", "o", "trues", "7 ", "1.5x", "9223372036854775808", "1e999"] {
            assert!(read(text).is_err(), "{text}");
        }
    }

    #[test]
    fn rounding_goes_to_the_even_neighbour_and_stops_at_the_range() {
        assert_eq!(Value::Double(2.5).to_int(), Ok(2));
        assert_eq!(Value::Double(3.5).to_int(), Ok(4));
        assert_eq!(Value::Double(-9_223_372_036_854_775_808.0).to_int(), Ok(i64::MIN));
        for value in [9_223_372_036_854_775_808.0, f64::NAN, f64::INFINITY] {
            assert!(Value::Double(value).to_int().is_err());
        }
    }
}
