//! Requests encoded once, with holes where the values go.
//!
//! All three protocols have the same form: constant bytes, values at fixed places, and one message
//! length that grows with the values. Filling a template copies and patches, and never allocates
//! once the output buffer has its size.

use std::io;

use bytes::BytesMut;
use postgres_protocol::IsNull;
use postgres_protocol::message::frontend;

use crate::load::script::{Names, Variables, is_name_character, is_name_start};
use crate::load::workload::Protocol;

/// Most variables of a statement whose values travel apart from it, as in pgbench.
pub(super) const PARAMETERS_MAX: usize = 255;
/// Largest request: what the server takes, rounded down.
const REQUEST_MAX_BYTES: usize = 1 << 30;
/// A Sync message, which ends every request of the extended protocol.
const SYNC: &[u8] = b"S\0\0\0\x04";

/// The values make the request longer than the server takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the statement with its values is longer than {REQUEST_MAX_BYTES} bytes")]
pub(super) struct RequestTooLong;

/// One request with holes.
#[derive(Clone, Debug)]
pub(super) struct Template {
    /// The request with every value empty.
    bytes: Vec<u8>,
    holes: Vec<Hole>,
    /// Where the length field stands that covers the holes.
    length_at: usize,
    /// Whether a value is preceded by its own 32-bit length (Bind) or stands in text (Query).
    counted: bool,
}

#[derive(Clone, Copy, Debug)]
struct Hole {
    /// Offset in `bytes` of the value, or of its length where values are counted.
    at: usize,
    /// Index of the variable.
    variable: usize,
}

impl Template {
    /// Encodes a statement, which the server knows as `statement_name` where it is prepared.
    pub(super) fn new(
        text: &SqlText,
        protocol: Protocol,
        statement_name: &str,
    ) -> io::Result<Self> {
        match protocol {
            Protocol::Simple => Self::simple(text),
            Protocol::Extended => Self::bind(text, "", true),
            Protocol::Prepared => Self::bind(text, statement_name, false),
        }
    }

    /// Appends the request with `variables` filled in to `out`.
    #[inline]
    pub(super) fn fill(
        &self,
        variables: &Variables,
        out: &mut Vec<u8>,
    ) -> Result<(), RequestTooLong> {
        let start = out.len();
        let mut copied = 0;
        for hole in &self.holes {
            out.extend_from_slice(&self.bytes[copied..hole.at]);
            copied = hole.at;
            if self.counted {
                copied += LENGTH_BYTES;
                write_counted(variables, hole.variable, out)?;
            } else if !variables.write(hole.variable, out) {
                // Without a value, `:name` may be anything to the server.
                out.push(b':');
                out.extend_from_slice(variables.name(hole.variable).as_bytes());
            }
            if out.len() - start > REQUEST_MAX_BYTES {
                return Err(RequestTooLong);
            }
        }
        out.extend_from_slice(&self.bytes[copied..]);
        // Far below the limits of 32 bits, as was just checked.
        let grown = (out.len() - start - self.bytes.len()) as u32;
        let field = start + self.length_at;
        let mut length = [0; LENGTH_BYTES];
        length.copy_from_slice(&out[field..field + LENGTH_BYTES]);
        let length = u32::from_be_bytes(length) + grown;
        out[field..field + LENGTH_BYTES].copy_from_slice(&length.to_be_bytes());
        Ok(())
    }

    fn simple(text: &SqlText) -> io::Result<Self> {
        let mut bytes = BytesMut::new();
        frontend::query(&text.pieces.concat(), &mut bytes)?;
        let mut at = 1 + LENGTH_BYTES;
        let holes = text
            .pieces
            .iter()
            .zip(&text.variables)
            .map(|(piece, &variable)| {
                at += piece.len();
                Hole { at, variable }
            })
            .collect();
        Ok(Self { bytes: bytes.to_vec(), holes, length_at: 1, counted: false })
    }

    fn bind(text: &SqlText, statement_name: &str, with_parse: bool) -> io::Result<Self> {
        let mut bytes = BytesMut::new();
        if with_parse {
            frontend::parse(statement_name, &text.numbered(), [], &mut bytes)?;
        }
        let bind_at = bytes.len();
        let values = text.variables.iter();
        frontend::bind("", statement_name, [], values, |_, _| Ok(IsNull::No), [0], &mut bytes)
            .map_err(|error| match error {
                frontend::BindError::Conversion(error) => io::Error::other(error),
                frontend::BindError::Serialization(error) => error,
            })?;
        frontend::describe(b'P', "", &mut bytes)?;
        frontend::execute("", 0, &mut bytes)?;
        frontend::sync(&mut bytes);
        // Tag, length, portal "", statement name, no parameter formats, number of parameters.
        let first_value = bind_at + 1 + LENGTH_BYTES + 1 + statement_name.len() + 1 + 2 + 2;
        let holes = text
            .variables
            .iter()
            .enumerate()
            .map(|(index, &variable)| Hole { at: first_value + LENGTH_BYTES * index, variable })
            .collect();
        Ok(Self { bytes: bytes.to_vec(), holes, length_at: bind_at + 1, counted: true })
    }
}

const LENGTH_BYTES: usize = 4;

/// A value after its length; an undefined variable is null.
#[inline]
fn write_counted(
    variables: &Variables,
    variable: usize,
    out: &mut Vec<u8>,
) -> Result<(), RequestTooLong> {
    let field = out.len();
    out.extend_from_slice(&[0; LENGTH_BYTES]);
    let length = if variables.write(variable, out) {
        i32::try_from(out.len() - field - LENGTH_BYTES).map_err(|_| RequestTooLong)?
    } else {
        -1
    };
    out[field..field + LENGTH_BYTES].copy_from_slice(&length.to_be_bytes());
    Ok(())
}

/// Appends a Sync.
pub(super) fn write_sync(out: &mut Vec<u8>) {
    out.extend_from_slice(SYNC);
}

/// Takes the Sync away that the last request in `out` ends with.
pub(super) fn without_sync(out: &mut Vec<u8>) {
    debug_assert!(out.ends_with(SYNC));
    out.truncate(out.len() - SYNC.len());
}

/// The Parse that prepares a statement under `statement_name`.
pub(super) fn parse_message(text: &SqlText, statement_name: &str) -> io::Result<Vec<u8>> {
    let mut bytes = BytesMut::new();
    frontend::parse(statement_name, &text.numbered(), [], &mut bytes)?;
    Ok(bytes.to_vec())
}

/// SQL cut at its variables: piece, variable, piece, …, piece.
#[derive(Debug)]
pub(super) struct SqlText {
    pieces: Vec<String>,
    pub(super) variables: Vec<usize>,
}

impl SqlText {
    /// Finds every `:name`, in quotes and comments too; `::name` is a cast.
    pub(super) fn parse(sql: &str, names: &mut Names) -> Self {
        let mut pieces = vec![String::new()];
        let mut variables = Vec::new();
        let mut rest = sql;
        while let Some(colon) = rest.find(':') {
            let colons = rest[colon..].bytes().take_while(|&byte| byte == b':').count();
            let name_at = colon + colons;
            let after = &rest[name_at..];
            let end = if after.starts_with(is_name_start) {
                name_at + after.find(|c| !is_name_character(c)).unwrap_or(after.len())
            } else {
                name_at
            };
            let last = pieces.len() - 1;
            if colons == 1 && end > name_at {
                pieces[last].push_str(&rest[..colon]);
                pieces.push(String::new());
                variables.push(names.index(&rest[name_at..end]));
            } else {
                pieces[last].push_str(&rest[..end]);
            }
            rest = &rest[end..];
        }
        let last = pieces.len() - 1;
        pieces[last].push_str(rest);
        Self { pieces, variables }
    }

    /// The text with `$1`, `$2`, … for the variables.
    fn numbered(&self) -> String {
        let mut sql = self.pieces[0].clone();
        for (index, piece) in self.pieces[1..].iter().enumerate() {
            sql.push_str(&format!("${}", index + 1));
            sql.push_str(piece);
        }
        sql
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use proptest::prelude::*;

    use super::*;
    use crate::load::script::Value;

    const SQL: &str = "UPDATE t SET a = a + :delta WHERE aid = :aid AND x = '1'::text;";

    /// The variables `aid` and `delta`; the others that `sql` mentions stay undefined.
    fn fill(sql: &str, protocol: Protocol, [aid, delta]: [i64; 2]) -> Vec<u8> {
        let mut names = Names::default();
        let text = SqlText::parse(sql, &mut names);
        let indices = [names.index("aid"), names.index("delta")];
        let mut variables = Variables::new(Arc::new(names));
        variables.set(indices[0], Value::Int(aid));
        variables.set(indices[1], Value::Int(delta));
        let template = Template::new(&text, protocol, "P_0").unwrap();
        // Whatever is in the buffer already stays.
        let mut out = b"before".to_vec();
        template.fill(&variables, &mut out).unwrap();
        assert_eq!(&out[..6], b"before");
        out.split_off(6)
    }

    fn fresh_bind(name: &str, values: &[Option<String>], bytes: &mut BytesMut) {
        let write = |value: &Option<String>, buf: &mut BytesMut| {
            let Some(value) = value else { return Ok(IsNull::Yes) };
            buf.extend_from_slice(value.as_bytes());
            Ok(IsNull::No)
        };
        frontend::bind("", name, [], values, write, [0], bytes).map_err(|_| ()).unwrap();
        frontend::describe(b'P', "", bytes).unwrap();
        frontend::execute("", 0, bytes).unwrap();
        frontend::sync(bytes);
    }

    /// What pgbench 15 was seen to send for `aid` 85130.
    #[test]
    fn the_select_is_pgbench_s_byte_for_byte() {
        const SQL: &str = "SELECT abalance FROM pgbench_accounts WHERE aid = :aid;";
        const TAIL: &[u8] = b"D\0\0\0\x06P\0E\0\0\0\t\0\0\0\0\0S\0\0\0\x04";
        let prepared = b"B\0\0\0\x1a\0P_0\0\0\0\0\x01\0\0\0\x0585130\0\x01\0\0";
        assert_eq!(fill(SQL, Protocol::Prepared, [85130, 0]), [prepared, TAIL].concat());
        let extended = b"P\0\0\0=\0SELECT abalance FROM pgbench_accounts WHERE aid = $1;\0\0\0\
            B\0\0\0\x17\0\0\0\0\0\x01\0\0\0\x0585130\0\x01\0\0";
        assert_eq!(fill(SQL, Protocol::Extended, [85130, 0]), [extended, TAIL].concat());
        let simple = b"Q\0\0\0=SELECT abalance FROM pgbench_accounts WHERE aid = 85130;\0";
        assert_eq!(fill(SQL, Protocol::Simple, [85130, 0]), simple);
        let parse = b"P\0\0\0@P_0\0SELECT abalance FROM pgbench_accounts WHERE aid = $1;\0\0\0";
        let text = SqlText::parse(SQL, &mut Names::default());
        assert_eq!(parse_message(&text, "P_0").unwrap(), parse);
    }

    #[test]
    fn a_variable_is_one_colon_and_a_name() {
        let numbered = |sql: &str| SqlText::parse(sql, &mut Names::default()).numbered();
        assert_eq!(numbered("SELECT now()::date, :aid"), "SELECT now()::date, $1");
        assert_eq!(numbered("a[1:2] :a:b :::c :_1é- :"), "a[1:2] $1$2 :::c $3- :");
        assert_eq!(numbered("'12:30:00' ':x' -- :y"), "'12:30:00' '$1' -- $2");
    }

    #[test]
    fn an_undefined_variable_is_null_or_itself() {
        let simple = fill("SELECT :nobody, :aid", Protocol::Simple, [5, 0]);
        assert_eq!(simple, b"Q\0\0\0\x16SELECT :nobody, 5\0");
        let mut fresh = BytesMut::new();
        fresh_bind("P_0", &[None, Some("5".to_owned())], &mut fresh);
        assert_eq!(fill("SELECT :nobody, :aid", Protocol::Prepared, [5, 0]), &fresh[..]);
    }

    #[test]
    fn values_that_make_a_request_too_long_are_refused() {
        let mut names = Names::default();
        let text = SqlText::parse(&":x,".repeat(80), &mut names);
        let x = names.index("x");
        let mut variables = Variables::new(Arc::new(names));
        variables.set_text(x, &vec![b'1'; 16 << 20]);
        let template = Template::new(&text, Protocol::Simple, "").unwrap();
        assert_eq!(template.fill(&variables, &mut Vec::new()), Err(RequestTooLong));
    }

    proptest! {
        #[test]
        fn filling_equals_fresh_encoding(aid in any::<i64>(), delta in any::<i64>()) {
            let values = [Some(delta.to_string()), Some(aid.to_string())];

            let mut fresh = BytesMut::new();
            fresh_bind("P_0", &values, &mut fresh);
            prop_assert_eq!(&fill(SQL, Protocol::Prepared, [aid, delta])[..], &fresh[..]);

            let mut fresh = BytesMut::new();
            let numbered = "UPDATE t SET a = a + $1 WHERE aid = $2 AND x = '1'::text;";
            frontend::parse("", numbered, [], &mut fresh).unwrap();
            fresh_bind("", &values, &mut fresh);
            prop_assert_eq!(&fill(SQL, Protocol::Extended, [aid, delta])[..], &fresh[..]);

            let mut fresh = BytesMut::new();
            let text = format!("UPDATE t SET a = a + {delta} WHERE aid = {aid} AND x = '1'::text;");
            frontend::query(&text, &mut fresh).unwrap();
            prop_assert_eq!(&fill(SQL, Protocol::Simple, [aid, delta])[..], &fresh[..]);
        }
    }
}
