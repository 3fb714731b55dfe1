//! A script's text to its commands.

use std::sync::Arc;

use super::command::{Action, Command, Script};
use super::error::{Place, ScriptError, line_of};
use super::meta::{Line, Meta, command_end};
use super::sql::{Statement, Stop, read_statement};

/// Longest title of a statement in reports, in bytes.
const TITLE_MAX: usize = 127;

/// What a script may do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ParseOptions {
    /// `\shell` and `\setshell`.
    pub allow_shell: bool,
}

/// Parses a script; `origin` names it in errors.
pub fn parse(text: &str, origin: &str, options: ParseOptions) -> Result<Script, ScriptError> {
    let origin: Arc<str> = origin.into();
    let mut parser = Parser { origin: &origin, text, commands: Vec::new(), starts: Vec::new() };
    let mut at = 0;
    loop {
        let statement = read_statement(text, at);
        at = statement.next;
        let stop = statement.stop;
        parser.add_statement(statement);
        match stop {
            Stop::Semicolon => {}
            Stop::EndOfScript => break,
            Stop::Backslash => {
                let to = command_end(text, at);
                let allow_shell = options.allow_shell;
                parser.add_meta(&Line {
                    origin: &origin,
                    script: text,
                    from: at,
                    to,
                    allow_shell,
                })?;
                at = to;
            }
        }
    }
    parser.check_conditions()?;
    let commands = parser.commands;
    Ok(Script { origin, commands })
}

struct Parser<'a> {
    origin: &'a Arc<str>,
    text: &'a str,
    commands: Vec<Command>,
    /// Where each command begins.
    starts: Vec<usize>,
}

impl Parser<'_> {
    fn add_statement(&mut self, statement: Statement) {
        if statement.text.is_empty() {
            return;
        }
        let line = statement.text.split(['\n', '\r']).next().unwrap_or_default();
        let title = line[..line.floor_char_boundary(TITLE_MAX)].to_owned();
        self.add(statement.from, title, Action::Sql { text: statement.text, results: None });
    }

    fn add_meta(&mut self, line: &Line<'_>) -> Result<(), ScriptError> {
        let backslash = line.from - 1;
        match line.parse()? {
            Meta::Nothing => {}
            Meta::Action(action) => {
                let title = self.text[backslash..line.to].trim_end_matches(['\r', '\n']).to_owned();
                self.add(backslash, title, action);
            }
            Meta::Results(wanted) => match self.commands.last_mut().map(|last| &mut last.action) {
                Some(Action::Sql { results: results @ None, .. }) => *results = Some(wanted),
                _ => {
                    let name = if wanted.every { "aset" } else { "gset" };
                    let problem = format!("\\{name} must follow an SQL command");
                    return Err(self.fault(backslash, problem));
                }
            },
        }
        Ok(())
    }

    fn add(&mut self, from: usize, title: String, action: Action) {
        let place = Place { origin: Arc::clone(self.origin), line: line_of(self.text, from) };
        self.commands.push(Command { place, title, action });
        self.starts.push(from);
    }

    /// Every `\if` has its `\endif`, and the branches between them are in order.
    fn check_conditions(&self) -> Result<(), ScriptError> {
        // For each open \if: where it stands, and whether its \else was seen.
        let mut open: Vec<(usize, bool)> = Vec::new();
        for (command, &start) in self.commands.iter().zip(&self.starts) {
            let name = command.action.name();
            match command.action {
                Action::If(_) => open.push((start, false)),
                Action::Elif(_) | Action::Else => match open.last_mut() {
                    None => {
                        return Err(self.fault(start, format!("\\{name} without matching \\if")));
                    }
                    Some((_, true)) => {
                        return Err(self.fault(start, format!("\\{name} after \\else")));
                    }
                    Some((_, has_else)) => *has_else = name == "else",
                },
                Action::Endif if open.pop().is_none() => {
                    return Err(self.fault(start, "\\endif without matching \\if".to_owned()));
                }
                _ => {}
            }
        }
        match open.last() {
            Some((start, _)) => Err(self.fault(*start, "\\if without matching \\endif".to_owned())),
            None => Ok(()),
        }
    }

    /// Points at the command that begins at `start`.
    fn fault(&self, start: usize, problem: String) -> ScriptError {
        let length =
            self.text[start..].find(char::is_whitespace).unwrap_or(self.text.len() - start);
        ScriptError::at(self.origin, self.text, (start, start + length), problem)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(text: &str) -> String {
        parse(text, "f.sql", ParseOptions::default()).unwrap_err().to_string()
    }

    fn names(text: &str) -> Vec<&'static str> {
        let script = parse(text, "f.sql", ParseOptions { allow_shell: true }).unwrap();
        script.commands.iter().map(|command| command.action.name()).collect()
    }

    #[test]
    fn every_command_is_known_in_any_case() {
        let text = "\\SET x 1\n\\If :x\nSELECT 1 \\GSET p_\n\\elif 2\n\\else\n\\endif\n\\sleep 1ms\n\
            \\startpipeline\nSELECT 2; SELECT 3\n\\syncpipeline\n\\endpipeline\n\
            \\shell true\n\\setshell y echo 1\nSELECT 1 \\; SELECT 2 \\aset";
        let expected = [
            "set",
            "if",
            "gset",
            "elif",
            "else",
            "endif",
            "sleep",
            "startpipeline",
            "SQL",
            "SQL",
            "syncpipeline",
            "endpipeline",
            "shell",
            "setshell",
            "aset",
        ];
        assert_eq!(names(text), expected);
    }

    #[test]
    fn commands_can_be_continued_and_comments_are_none() {
        let text = "\\set x \\\n  1 + \\\r\n 2\r\n\\\n-- \\set y\nSELECT 1;\r\n";
        let script = parse(text, "f.sql", ParseOptions::default()).unwrap();
        assert_eq!(script.commands.len(), 2);
        assert_eq!(script.commands[0].title, "\\set x \\\n  1 + \\\r\n 2");
        assert_eq!(script.commands[1].place.to_string(), "f.sql:6");
        assert_eq!(names("\\sleep\\\n10\\\n ms\n"), ["sleep"]);
    }

    #[test]
    fn a_fault_is_shown_with_file_line_column_and_caret() {
        assert_eq!(
            error("SELECT 1;\n  \\set x 1 + )\n"),
            "f.sql:2:14: syntax error: unexpected `)`, in command \"set\"\n  \\set x 1 + )\n             ^"
        );
        assert_eq!(
            error("\\set x 1 +\n"),
            "f.sql:1:11: syntax error: the expression ends too early, in command \"set\"\n\\set x 1 +\n          ^"
        );
        assert_eq!(
            error("\\set x \\\n  nofunc(1)"),
            "f.sql:2:3: unexpected function name `nofunc`, in command \"set\"\n  nofunc(1)\n  ^^^^^^"
        );
    }

    #[test]
    fn each_fault_has_its_words() {
        let cases = [
            ("\\set\n", "1:5: missing argument"),
            ("\\set x\n", "1:7: syntax error: the expression ends too early"),
            ("\\set 1x 5\n", "1:6: invalid variable name `1x`"),
            ("\\set x 1 $ 2\n", "1:10: unexpected character `$`"),
            ("\\sleep\n", "1:7: missing argument"),
            ("\\sleep 1 h\n", "1:10: unrecognized time unit `h`, must be us, ms or s"),
            ("\\sleep 1h\n", "1:9: unrecognized time unit `h`"),
            ("\\sleep x\n", "1:8: invalid sleep time `x`, must be an integer"),
            ("\\sleep 1 ms us\n", "1:13: too many arguments"),
            ("\\endif x\n", "1:8: unexpected argument `x`"),
            ("SELECT 1 \\gset a b\n", "1:18: too many arguments"),
            ("\\foo bar\n", "1:2: invalid command `\\foo`"),
            (
                "\\shell ls\n",
                "1:2: \\shell runs programs on this machine, which needs --allow-shell",
            ),
            ("\\gset\n", "1:1: \\gset must follow an SQL command"),
            ("\\set x 1\n\\aset\n", "2:1: \\aset must follow an SQL command"),
            ("SELECT 1 \\gset\n\\gset\n", "2:1: \\gset must follow an SQL command"),
            ("\\if 1\n", "1:1: \\if without matching \\endif"),
            ("\\elif 1\n", "1:1: \\elif without matching \\if"),
            ("\\else\n", "1:1: \\else without matching \\if"),
            ("\\endif\n", "1:1: \\endif without matching \\if"),
            ("\\if 1\n\\else\n\\else\n\\endif\n", "3:1: \\else after \\else"),
            ("\\if 1\n\\else\n\\elif 1\n\\endif\n", "3:1: \\elif after \\else"),
        ];
        for (text, expected) in cases {
            let shown = error(text);
            assert!(shown.starts_with(&format!("f.sql:{expected}")), "{text}: {shown}");
        }
    }
}
