//! Requests encoded once, with holes where the values go.
//!
//! All three protocols have the same form: constant bytes, values at fixed places, and one message
//! length that grows with the values. Filling a template copies and patches, and never allocates
//! once the output buffer has its size.

use std::io;

use bytes::BytesMut;
use postgres_protocol::IsNull;
use postgres_protocol::message::frontend;

use crate::load::workload::Protocol;

/// One request with holes.
#[derive(Clone, Debug)]
pub(crate) struct Template {
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
    /// Encodes `sql`, whose `:name` uses are resolved by `variable_index`.
    pub(crate) fn new(
        sql: &str,
        protocol: Protocol,
        statement_name: &str,
        variable_index: impl Fn(&str) -> Option<usize>,
    ) -> io::Result<Self> {
        let text = SqlText::parse(sql, variable_index);
        match protocol {
            Protocol::Simple => Self::simple(&text),
            Protocol::Extended => Self::bind(&text, "", true),
            Protocol::Prepared => Self::bind(&text, statement_name, false),
        }
    }

    /// Appends the request with `variables` filled in to `out`.
    pub(crate) fn fill(&self, variables: &[i64], out: &mut Vec<u8>) {
        let start = out.len();
        let mut copied = 0;
        let mut grown = 0;
        let mut digits = itoa::Buffer::new();
        for hole in &self.holes {
            let value = digits.format(variables[hole.variable]).as_bytes();
            out.extend_from_slice(&self.bytes[copied..hole.at]);
            copied = hole.at;
            if self.counted {
                // At most 20 digits and a sign.
                out.extend_from_slice(&(value.len() as u32).to_be_bytes());
                copied += 4;
            }
            out.extend_from_slice(value);
            grown += value.len() as u32;
        }
        out.extend_from_slice(&self.bytes[copied..]);
        let field = start + self.length_at;
        let mut length = [0; 4];
        length.copy_from_slice(&out[field..field + 4]);
        let length = u32::from_be_bytes(length) + grown;
        out[field..field + 4].copy_from_slice(&length.to_be_bytes());
    }

    fn simple(text: &SqlText) -> io::Result<Self> {
        let mut bytes = BytesMut::new();
        frontend::query(&text.pieces.concat(), &mut bytes)?;
        let mut at = 5;
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
        execute_and_sync(&mut bytes)?;
        // Tag, length, portal "", statement name, no parameter formats, number of parameters.
        let first_value = bind_at + 1 + 4 + 1 + statement_name.len() + 1 + 2 + 2;
        let holes = text
            .variables
            .iter()
            .enumerate()
            .map(|(index, &variable)| Hole { at: first_value + 4 * index, variable })
            .collect();
        Ok(Self { bytes: bytes.to_vec(), holes, length_at: bind_at + 1, counted: true })
    }
}

fn execute_and_sync(bytes: &mut BytesMut) -> io::Result<()> {
    frontend::describe(b'P', "", bytes)?;
    frontend::execute("", 0, bytes)?;
    frontend::sync(bytes);
    Ok(())
}

/// The Parse and Sync that prepare `sql` under `statement_name`.
pub(crate) fn prepare_request(
    sql: &str,
    statement_name: &str,
    variable_index: impl Fn(&str) -> Option<usize>,
) -> io::Result<Vec<u8>> {
    let mut bytes = BytesMut::new();
    let text = SqlText::parse(sql, variable_index);
    frontend::parse(statement_name, &text.numbered(), [], &mut bytes)?;
    frontend::sync(&mut bytes);
    Ok(bytes.to_vec())
}

/// SQL cut at its variables: piece, variable, piece, …, piece.
#[derive(Debug)]
struct SqlText {
    pieces: Vec<String>,
    variables: Vec<usize>,
}

impl SqlText {
    /// Finds `:name` uses of known variables; everything else, `::casts` included, stays text.
    fn parse(sql: &str, variable_index: impl Fn(&str) -> Option<usize>) -> Self {
        let mut pieces = vec![String::new()];
        let mut variables = Vec::new();
        let mut rest = sql;
        while let Some(colon) = rest.find(':') {
            let colons = rest[colon..].bytes().take_while(|&byte| byte == b':').count();
            let name_at = colon + colons;
            let name_len = rest[name_at..]
                .bytes()
                .take_while(|byte| byte.is_ascii_alphanumeric() || *byte == b'_')
                .count();
            let end = name_at + name_len;
            let index = if colons == 1 { variable_index(&rest[name_at..end]) } else { None };
            let last = pieces.len() - 1;
            if let Some(index) = index {
                pieces[last].push_str(&rest[..colon]);
                pieces.push(String::new());
                variables.push(index);
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
    use proptest::prelude::*;

    use super::*;

    const SQL: &str = "UPDATE t SET a = a + :delta WHERE aid = :aid AND x = '1'::text;";

    fn index(name: &str) -> Option<usize> {
        ["aid", "delta"].iter().position(|known| *known == name)
    }

    fn fill(sql: &str, protocol: Protocol, variables: &[i64]) -> Vec<u8> {
        let template = Template::new(sql, protocol, "P_0", index).unwrap();
        // Whatever is in the buffer already stays.
        let mut out = b"before".to_vec();
        template.fill(variables, &mut out);
        assert_eq!(&out[..6], b"before");
        out.split_off(6)
    }

    fn fresh_bind(name: &str, values: &[i64], bytes: &mut BytesMut) {
        let write = |value: &i64, buf: &mut BytesMut| {
            buf.extend_from_slice(value.to_string().as_bytes());
            Ok(IsNull::No)
        };
        frontend::bind("", name, [], values, write, [0], bytes).map_err(|_| ()).unwrap();
        execute_and_sync(bytes).unwrap();
    }

    #[test]
    fn the_select_of_a_prepared_run_has_pgbench_s_size() {
        let sql = "SELECT abalance FROM pgbench_accounts WHERE aid = :aid;";
        // Bind 28 ("P_0", five digits), Describe 7, Execute 10, Sync 5.
        assert_eq!(fill(sql, Protocol::Prepared, &[54321, 0]).len(), 50);
    }

    #[test]
    fn casts_and_unknown_names_stay_text() {
        let text = SqlText::parse("SELECT :nobody, now()::date, :aid", index);
        assert_eq!(text.numbered(), "SELECT :nobody, now()::date, $1");
    }

    proptest! {
        #[test]
        fn filling_equals_fresh_encoding(aid in any::<i64>(), delta in any::<i64>()) {
            let variables = [aid, delta];

            let mut fresh = BytesMut::new();
            fresh_bind("P_0", &[delta, aid], &mut fresh);
            prop_assert_eq!(&fill(SQL, Protocol::Prepared, &variables)[..], &fresh[..]);

            let mut fresh = BytesMut::new();
            let numbered = "UPDATE t SET a = a + $1 WHERE aid = $2 AND x = '1'::text;";
            frontend::parse("", numbered, [], &mut fresh).unwrap();
            fresh_bind("", &[delta, aid], &mut fresh);
            prop_assert_eq!(&fill(SQL, Protocol::Extended, &variables)[..], &fresh[..]);

            let mut fresh = BytesMut::new();
            let text = format!("UPDATE t SET a = a + {delta} WHERE aid = {aid} AND x = '1'::text;");
            frontend::query(&text, &mut fresh).unwrap();
            prop_assert_eq!(&fill(SQL, Protocol::Simple, &variables)[..], &fresh[..]);
        }
    }
}
