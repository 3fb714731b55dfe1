//! Texts of a signature, which must say something.

use serde::{Deserialize, Deserializer};

/// A text that is not empty.
#[derive(Clone, Debug, Deserialize)]
#[serde(try_from = "String")]
pub(super) struct Said(pub(super) String);

impl TryFrom<String> for Said {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Said, Self::Error> {
        match text.trim().is_empty() {
            true => Err("the text is empty: say something, or leave the line away"),
            false => Ok(Said(text)),
        }
    }
}

/// A text that is not empty, as a plain one.
///
/// # Errors
/// It is empty, or no text.
pub(super) fn said<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    Said::deserialize(deserializer).map(|Said(text)| text)
}
