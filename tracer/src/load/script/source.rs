//! Where scripts come from: files, standard input, built-ins.

use std::io::Read as _;
use std::str::FromStr;

/// A script to run, and how often among the others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScriptSource {
    /// The file, or the name of the built-in; shown in errors and reports.
    pub name: String,
    /// Its share is its weight over the sum of all; 0 means never.
    pub weight: u32,
    /// The script.
    pub text: String,
}

/// A script that cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// The file.
    #[error("cannot read script `{name}`: {source}")]
    Read {
        /// Its name.
        name: String,
        /// Why.
        source: std::io::Error,
    },
    /// Not text.
    #[error("script `{name}` is not valid UTF-8, at byte {valid_up_to}")]
    Encoding {
        /// Its name.
        name: String,
        /// Where.
        valid_up_to: usize,
    },
    /// Nothing to run.
    #[error("script `{0}` has no command: there is no statement and no \\command in it")]
    Empty(String),
    /// A NUL would end the statement for the server.
    #[error("script `{name}` contains a NUL character, at byte {at}")]
    Nul {
        /// Its name.
        name: String,
        /// Where.
        at: usize,
    },
}

impl ScriptSource {
    /// Reads a file; `-` is standard input.
    pub fn read(name: &str, weight: u32) -> Result<Self, SourceError> {
        let mut bytes = Vec::new();
        let read = if name == "-" {
            std::io::stdin().lock().read_to_end(&mut bytes).map(|_| bytes)
        } else {
            std::fs::read(name)
        };
        let bytes = read.map_err(|source| SourceError::Read { name: name.to_owned(), source })?;
        let text = String::from_utf8(bytes).map_err(|error| SourceError::Encoding {
            name: name.to_owned(),
            valid_up_to: error.utf8_error().valid_up_to(),
        })?;
        if let Some(at) = text.find('\0') {
            return Err(SourceError::Nul { name: name.to_owned(), at });
        }
        Ok(Self { name: name.to_owned(), weight, text })
    }
}

/// `NAME[@WEIGHT]`, as -f and -b take it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Weighted {
    /// What is before the last `@`.
    pub name: String,
    /// 1 unless given.
    pub weight: u32,
}

impl FromStr for Weighted {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let Some((name, weight)) = text.rsplit_once('@') else {
            return Ok(Self { name: text.to_owned(), weight: 1 });
        };
        let weight = weight.parse::<i32>().ok().and_then(|weight| u32::try_from(weight).ok());
        let weight =
            weight.ok_or_else(|| format!("the weight behind `@` must be 0 to {}", i32::MAX))?;
        Ok(Self { name: name.to_owned(), weight })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_weight_stands_behind_the_last_at() {
        let weighted = |name: &str, weight| Ok(Weighted { name: name.to_owned(), weight });
        assert_eq!("bank.sql".parse(), weighted("bank.sql", 1));
        assert_eq!("a@b.sql@0".parse(), weighted("a@b.sql", 0));
        for text in ["bank.sql@", "bank.sql@-1", "a@b.sql", "x@2147483648"] {
            assert!(text.parse::<Weighted>().is_err(), "{text}");
        }
    }

    #[test]
    fn what_cannot_be_read_is_named() {
        let error = ScriptSource::read("/nonexistent/x.sql", 1).unwrap_err().to_string();
        assert!(error.contains("/nonexistent/x.sql"), "{error}");
    }
}
