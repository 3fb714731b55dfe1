//! What is wrong with a script, and where.

use std::fmt;
use std::sync::Arc;

/// A line of a script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The file, or the name of the built-in.
    pub origin: Arc<str>,
    /// From 1.
    pub line: usize,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.origin, self.line)
    }
}

/// A script that cannot be run; shows the line with a caret under the fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScriptError {
    /// Where.
    pub place: Place,
    /// In characters, from 1.
    pub column: usize,
    /// What, in words; names the token.
    pub problem: String,
    /// The line, without its end.
    line: String,
    /// Characters to underline, at least 1.
    width: usize,
}

impl ScriptError {
    /// Points at `text[from..to]`, of which only the first line is underlined.
    pub(super) fn at(
        origin: &Arc<str>,
        text: &str,
        (from, to): (usize, usize),
        problem: impl Into<String>,
    ) -> Self {
        let line_from = text[..from].rfind('\n').map_or(0, |end| end + 1);
        let line_to = text[from..].find('\n').map_or(text.len(), |end| from + end);
        let width = text[from..to.clamp(from, line_to)].trim_end().chars().count();
        let place = Place { origin: Arc::clone(origin), line: line_of(text, from) };
        Self {
            place,
            column: text[line_from..from].chars().count() + 1,
            problem: problem.into(),
            line: text[line_from..line_to].trim_end().to_owned(),
            width: width.max(1),
        }
    }
}

/// The number of the line, from 1, that `offset` lies in.
pub(super) fn line_of(text: &str, offset: usize) -> usize {
    text[..offset].bytes().filter(|&byte| byte == b'\n').count() + 1
}

impl fmt::Display for ScriptError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}:{}: {}", self.place, self.column, self.problem)?;
        writeln!(f, "{}", self.line)?;
        // Tabs stay tabs, so that the caret stands under its character.
        for character in self.line.chars().take(self.column - 1) {
            f.write_str(if character == '\t' { "\t" } else { " " })?;
        }
        f.write_str(&"^".repeat(self.width))
    }
}

impl std::error::Error for ScriptError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_caret_stands_under_the_token_whatever_precedes_it() {
        let text = "SELECT 1;\n\t\\set ä bad\nEND;";
        let from = text.find("bad").unwrap();
        let error = ScriptError::at(&"f.sql".into(), text, (from, from + 3), "no");
        assert_eq!(error.to_string(), "f.sql:2:9: no\n\t\\set ä bad\n\t       ^^^");
    }

    #[test]
    fn the_end_of_the_text_can_be_pointed_at() {
        let error = ScriptError::at(&"f".into(), "\\set x\n", (6, 6), "missing");
        assert_eq!(error.to_string(), "f:1:7: missing\n\\set x\n      ^");
    }
}
