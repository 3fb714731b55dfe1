//! Variables that exist before a script begins.

use std::str::FromStr;

use super::token::is_variable_name;
use super::value::Value;
use super::variables::Variables;

/// `NAME=VALUE`, as -D takes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Definition {
    /// The variable.
    pub name: String,
    /// Its text.
    pub value: String,
}

impl FromStr for Definition {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (name, value) = text.split_once('=').ok_or("expected NAME=VALUE")?;
        if !is_variable_name(name) {
            return Err(format!(
                "`{name}` is no variable name: letters, digits and `_`, no digit first"
            ));
        }
        Ok(Self { name: name.to_owned(), value: value.to_owned() })
    }
}

/// What all clients of a run start with; the user's definitions override the automatic ones.
#[derive(Clone, Debug, Default)]
pub struct Definitions {
    /// By the user (`-D`); the last of a name counts.
    pub given: Vec<Definition>,
    /// `:scale`.
    pub scale: i64,
    /// `:default_seed`.
    pub default_seed: i64,
    /// `:random_seed`.
    pub random_seed: u64,
}

impl Definitions {
    /// Whether the user defines this variable.
    pub fn has(&self, name: &str) -> bool {
        self.given.iter().any(|definition| definition.name == name)
    }

    /// Sets the variables of the client of this number.
    pub(crate) fn define(&self, client: u32, variables: &mut Variables) {
        let automatic = [
            ("scale", self.scale),
            ("client_id", i64::from(client)),
            ("default_seed", self.default_seed),
            ("random_seed", self.random_seed.cast_signed()),
        ];
        for (name, value) in automatic {
            if let Some(index) = variables.index(name) {
                variables.set(index, Value::Int(value));
            }
        }
        for Definition { name, value } in &self.given {
            if let Some(index) = variables.index(name) {
                variables.set_text(index, value.as_bytes());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_definition_needs_a_name_and_may_have_any_value() {
        let definition = |name: &str, value: &str| {
            Ok(Definition { name: name.to_owned(), value: value.to_owned() })
        };
        assert_eq!("a=b=c".parse(), definition("a", "b=c"));
        assert_eq!("a=".parse(), definition("a", ""));
        for text in ["a", "=1", "1a=1", "a b=1", "a-b=1"] {
            assert!(text.parse::<Definition>().is_err(), "{text}");
        }
    }
}
