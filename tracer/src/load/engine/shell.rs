//! `\shell` and `\setshell`.

use std::process::{Command, Stdio};

use crate::load::script::{Names, Value, Variables};

/// Longest command line, in bytes, as in pgbench.
const LINE_MAX: usize = 254;
/// Longest output that `\setshell` looks at.
const OUTPUT_MAX: usize = 63;

/// A command line with variables.
#[derive(Debug)]
pub(super) struct ShellCommand {
    words: Vec<Word>,
    /// The variable that gets the output.
    into: Option<usize>,
}

#[derive(Debug)]
enum Word {
    Text(String),
    Variable(usize),
}

impl ShellCommand {
    /// A word with one colon in front is a variable; two stand for one.
    pub(super) fn new(words: &[String], into: Option<&String>, names: &mut Names) -> Self {
        let words = words
            .iter()
            .map(|word| match word.strip_prefix(':') {
                Some(text) if text.starts_with(':') => Word::Text(text.to_owned()),
                Some(name) => Word::Variable(names.index(name)),
                None => Word::Text(word.clone()),
            })
            .collect();
        Self { words, into: into.map(|name| names.index(name)) }
    }

    /// Runs the command, which blocks the client's thread, and sets the variable.
    pub(super) fn run(&self, variables: &mut Variables) -> Result<(), String> {
        let line = self.line(variables)?;
        let mut command = Command::new("/bin/sh");
        command.arg("-c").arg(&line);
        let cannot = |error: std::io::Error| format!("cannot run `{line}`: {error}");
        let Some(variable) = self.into else {
            let status = command.status().map_err(cannot)?;
            return if status.success() { Ok(()) } else { Err(format!("`{line}`: {status}")) };
        };
        let output = command.stderr(Stdio::inherit()).output().map_err(cannot)?;
        let value = first_integer(&output.stdout).ok_or_else(|| {
            let text = String::from_utf8_lossy(&output.stdout);
            format!("`{line}` must print an integer, not \"{}\"", text.trim_end())
        })?;
        variables.set(variable, Value::Int(value));
        Ok(())
    }

    fn line(&self, variables: &Variables) -> Result<String, String> {
        let mut line = Vec::new();
        for (index, word) in self.words.iter().enumerate() {
            if index > 0 {
                line.push(b' ');
            }
            match word {
                Word::Text(text) => line.extend_from_slice(text.as_bytes()),
                Word::Variable(index) => {
                    if !variables.write(*index, &mut line) {
                        return Err(format!("undefined variable \"{}\"", variables.name(*index)));
                    }
                }
            }
        }
        if line.len() > LINE_MAX {
            return Err(format!("the command line is longer than {LINE_MAX} bytes"));
        }
        String::from_utf8(line).map_err(|_| "the command line is not valid UTF-8".to_owned())
    }
}

/// The integer that the first line is, with 32 bits, as pgbench reads it.
fn first_integer(output: &[u8]) -> Option<i64> {
    let line = output.split_inclusive(|&byte| byte == b'\n').next()?;
    let text = str::from_utf8(&line[..line.len().min(OUTPUT_MAX)]).ok()?.trim();
    // An empty line is 0.
    let value: i64 = if text.is_empty() { 0 } else { text.parse().ok()? };
    Some(i64::from(value as i32))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn run(words: &[&str], into: Option<&str>) -> Result<Value, String> {
        let mut names = Names::default();
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        let command = ShellCommand::new(&words, into.map(str::to_owned).as_ref(), &mut names);
        let (n, result) = (names.index("n"), names.index("result"));
        let mut variables = Variables::new(Arc::new(names));
        variables.set(n, Value::Int(7));
        variables.set(result, Value::Null);
        command.run(&mut variables)?;
        variables.value(result).map_err(|error| error.to_string())
    }

    #[test]
    fn the_first_line_of_the_output_is_the_value() {
        let value = |words: &[&str]| run(words, Some("result"));
        assert_eq!(value(&["echo", ":n"]), Ok(Value::Int(7)));
        assert_eq!(value(&["echo", "1;", "echo", "2"]), Ok(Value::Int(1)));
        assert_eq!(value(&["echo", "4294967297"]), Ok(Value::Int(1)));
        for words in [&["true"][..], &["echo", "::n"], &["echo", "1x"], &["echo", ":nobody"]] {
            assert!(value(words).is_err(), "{words:?}");
        }
    }

    #[test]
    fn a_command_that_fails_says_so() {
        assert_eq!(run(&["true"], None), Ok(Value::Null));
        assert!(run(&["exit", "3"], None).unwrap_err().contains('3'));
        assert!(run(&["x".repeat(300).as_str()], None).unwrap_err().contains("longer"));
    }
}
