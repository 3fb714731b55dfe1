//! Meta-commands: one line each, or more with a backslash at the ends.

use std::sync::Arc;

use super::command::{Action, Amount, Results, TimeUnit};
use super::error::ScriptError;
use super::expression::{self, Expression};
use super::token::{LexError, is_variable_name};

/// Most words of a command, its name included.
const WORDS_MAX: usize = 256;

/// What stands behind a backslash.
pub(super) enum Meta {
    /// Nothing.
    Nothing,
    /// A command of its own.
    Action(Action),
    /// Belongs to the statement before it.
    Results(Results),
}

/// A line of a script, from behind the backslash.
pub(super) struct Line<'a> {
    pub(super) origin: &'a Arc<str>,
    pub(super) script: &'a str,
    /// Behind the backslash.
    pub(super) from: usize,
    pub(super) to: usize,
    pub(super) allow_shell: bool,
}

/// A word and where it stands in the script.
#[derive(Clone, Copy, Debug)]
struct Word<'a> {
    text: &'a str,
    from: usize,
}

/// Where the meta-command at `from` ends: a line feed that no backslash precedes, or the end.
pub(super) fn command_end(script: &str, from: usize) -> usize {
    let mut at = from;
    while let Some(length) = script[at..].find('\n') {
        let line = &script[from..at + length];
        if !line.strip_suffix('\r').unwrap_or(line).ends_with('\\') {
            return at + length;
        }
        at += length + 1;
    }
    script.len()
}

impl<'a> Line<'a> {
    /// Parses the command.
    pub(super) fn parse(&self) -> Result<Meta, ScriptError> {
        let Some((name, rest)) = next_word(self.script, self.from, self.to) else {
            return Ok(Meta::Nothing);
        };
        let action = match name.text.to_ascii_lowercase().as_str() {
            "set" => self.set(name, rest)?,
            "if" => Action::If(self.expression(name, rest)?),
            "elif" => Action::Elif(self.expression(name, rest)?),
            _ => return self.by_words(name, rest),
        };
        Ok(Meta::Action(action))
    }

    fn by_words(&self, name: Word<'a>, mut at: usize) -> Result<Meta, ScriptError> {
        let mut words = Vec::new();
        while let Some((word, next)) = next_word(self.script, at, self.to) {
            if words.len() + 1 == WORDS_MAX {
                return Err(self.refuse(name, word, "too many arguments"));
            }
            words.push(word);
            at = next;
        }
        let none = |action: Action| match words.first() {
            Some(word) => {
                Err(self.refuse(name, *word, &format!("unexpected argument `{}`", word.text)))
            }
            None => Ok(Meta::Action(action)),
        };
        match name.text.to_ascii_lowercase().as_str() {
            "else" => none(Action::Else),
            "endif" => none(Action::Endif),
            "startpipeline" => none(Action::StartPipeline),
            "syncpipeline" => none(Action::SyncPipeline),
            "endpipeline" => none(Action::EndPipeline),
            "sleep" => self.sleep(name, &words).map(Meta::Action),
            "setpattern" => self.set_pattern(name, &words).map(Meta::Action),
            "gset" => self.results(name, &words, false),
            "aset" => self.results(name, &words, true),
            "shell" => self.shell(name, &words).map(Meta::Action),
            "setshell" => self.set_shell(name, &words).map(Meta::Action),
            _ => Err(self.fault(name, format!("invalid command `\\{}`", name.text))),
        }
    }

    fn set(&self, name: Word<'a>, rest: usize) -> Result<Action, ScriptError> {
        let Some((variable, rest)) = next_word(self.script, rest, self.to) else {
            return Err(self.missing(name, "missing argument"));
        };
        if !is_variable_name(variable.text) {
            let problem = format!("invalid variable name `{}`", variable.text);
            return Err(self.refuse(name, variable, &problem));
        }
        let expression = self.expression(name, rest)?;
        Ok(Action::Set { variable: variable.text.to_owned(), expression })
    }

    fn set_pattern(&self, name: Word<'a>, words: &[Word<'a>]) -> Result<Action, ScriptError> {
        let [variable, pattern] = *words else {
            return Err(match words.get(2) {
                Some(third) => self.refuse(name, *third, "too many arguments"),
                None => self.missing(name, "a variable and a pattern are needed"),
            });
        };
        if !is_variable_name(variable.text) {
            let problem = format!("invalid variable name `{}`", variable.text);
            return Err(self.refuse(name, variable, &problem));
        }
        let (variable, pattern) = (variable.text.to_owned(), pattern.text.to_owned());
        Ok(Action::SetPattern { variable, pattern })
    }

    fn expression(&self, name: Word<'a>, from: usize) -> Result<Expression<String>, ScriptError> {
        expression::parse(&self.script[from..self.to]).map_err(|LexError { span, problem }| {
            let span = (from + span.start, from + span.end);
            let problem = format!("{problem}, in command \"{}\"", name.text);
            ScriptError::at(self.origin, self.script, span, problem)
        })
    }

    fn sleep(&self, name: Word<'a>, words: &[Word<'a>]) -> Result<Action, ScriptError> {
        let (amount, unit) = match *words {
            [] => return Err(self.missing(name, "missing argument")),
            [amount] => split_number(amount),
            [amount, unit] => (amount, Some(unit)),
            [_, _, third, ..] => return Err(self.refuse(name, third, "too many arguments")),
        };
        let unit = match unit {
            None => TimeUnit::Seconds,
            Some(unit) => match unit.text.to_ascii_lowercase().as_str() {
                "us" => TimeUnit::Microseconds,
                "ms" => TimeUnit::Milliseconds,
                "s" => TimeUnit::Seconds,
                text => {
                    let problem = format!("unrecognized time unit `{text}`, must be us, ms or s");
                    return Err(self.refuse(name, unit, &problem));
                }
            },
        };
        if let Some(variable) = amount.text.strip_prefix(':') {
            return Ok(Action::Sleep(Amount::Variable(variable.to_owned()), unit));
        }
        match amount.text.parse() {
            Ok(value) => Ok(Action::Sleep(Amount::Fixed(value), unit)),
            Err(_) => {
                let problem = format!("invalid sleep time `{}`, must be an integer", amount.text);
                Err(self.refuse(name, amount, &problem))
            }
        }
    }

    fn results(
        &self,
        name: Word<'a>,
        words: &[Word<'a>],
        every: bool,
    ) -> Result<Meta, ScriptError> {
        match *words {
            [] => Ok(Meta::Results(Results { every, prefix: String::new() })),
            [prefix] => Ok(Meta::Results(Results { every, prefix: prefix.text.to_owned() })),
            [_, second, ..] => Err(self.refuse(name, second, "too many arguments")),
        }
    }

    fn shell(&self, name: Word<'a>, words: &[Word<'a>]) -> Result<Action, ScriptError> {
        self.check_shell(name)?;
        if words.is_empty() {
            return Err(self.missing(name, "missing command"));
        }
        Ok(Action::Shell(owned(words)))
    }

    fn set_shell(&self, name: Word<'a>, words: &[Word<'a>]) -> Result<Action, ScriptError> {
        self.check_shell(name)?;
        let [variable, words @ ..] = words else {
            return Err(self.missing(name, "missing argument"));
        };
        if words.is_empty() {
            return Err(self.missing(name, "missing argument"));
        }
        if !is_variable_name(variable.text) {
            let problem = format!("invalid variable name `{}`", variable.text);
            return Err(self.refuse(name, *variable, &problem));
        }
        Ok(Action::SetShell { variable: variable.text.to_owned(), words: owned(words) })
    }

    fn check_shell(&self, name: Word<'a>) -> Result<(), ScriptError> {
        if self.allow_shell {
            return Ok(());
        }
        let problem = format!(
            "\\{} runs programs on this machine, which needs --allow-shell",
            name.text.to_ascii_lowercase()
        );
        Err(self.fault(name, problem))
    }

    /// Points at a word of the command.
    fn refuse(&self, name: Word<'a>, word: Word<'a>, problem: &str) -> ScriptError {
        self.fault(word, format!("{problem}, in command \"{}\"", name.text))
    }

    /// Points behind the last word.
    fn missing(&self, name: Word<'a>, problem: &str) -> ScriptError {
        let end = self.from + self.script[self.from..self.to].trim_end().len();
        self.refuse(name, Word { text: "", from: end }, problem)
    }

    fn fault(&self, word: Word<'a>, problem: String) -> ScriptError {
        let span = (word.from, word.from + word.text.len());
        ScriptError::at(self.origin, self.script, span, problem)
    }
}

fn owned(words: &[Word<'_>]) -> Vec<String> {
    words.iter().map(|word| word.text.to_owned()).collect()
}

/// `10ms` is two words.
fn split_number(word: Word<'_>) -> (Word<'_>, Option<Word<'_>>) {
    let text = word.text;
    let sign = usize::from(text.starts_with(['+', '-']));
    let digits = text[sign..].bytes().take_while(u8::is_ascii_digit).count();
    let end = sign + digits;
    if digits == 0 || end == text.len() {
        return (word, None);
    }
    let unit = Word { text: &text[end..], from: word.from + end };
    (Word { text: &text[..end], from: word.from }, Some(unit))
}

/// The next word before `to`, and where it ends.
fn next_word(script: &str, from: usize, to: usize) -> Option<(Word<'_>, usize)> {
    let line = &script[..to];
    let mut at = from;
    loop {
        let rest = &line[at..];
        at += rest.len() - rest.trim_start_matches(|c: char| matches!(c, ' ' | '\t'..='\r')).len();
        match continuation(&line[at..]) {
            Some(length) => at += length,
            None => break,
        }
    }
    let end = line[at..]
        .char_indices()
        .find(|(offset, character)| {
            matches!(character, ' ' | '\t'..='\r') || continuation(&line[at + offset..]).is_some()
        })
        .map_or(to, |(offset, _)| at + offset);
    (end > at).then(|| (Word { text: &line[at..end], from: at }, end))
}

/// The length of the backslash and the line end that `text` begins with.
fn continuation(text: &str) -> Option<usize> {
    ["\\\n", "\\\r\n"].into_iter().find(|ending| text.starts_with(ending)).map(str::len)
}
