//! Where a statement ends: psql's rules, which pgbench shares.
//!
//! A statement ends with a semicolon outside of quotes, comments, parentheses and the body of an SQL
//! function, or before a backslash, or with the script. `\;` and `\:` are a semicolon and a colon of
//! the statement.

use super::token::is_name_start;

/// Why reading a statement stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stop {
    Semicolon,
    Backslash,
    EndOfScript,
}

/// A statement's text, and where the script goes on: behind the semicolon or the backslash.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Statement {
    pub(super) text: String,
    /// Where the text begins in the script.
    pub(super) from: usize,
    pub(super) stop: Stop,
    pub(super) next: usize,
}

/// Reads the statement that begins at or after `from`.
pub(super) fn read_statement(script: &str, from: usize) -> Statement {
    let from = skip_blank(script, from);
    let mut reader = Reader { script, at: from, copied: from, text: String::new() };
    let stop = reader.read();
    let end = match stop {
        Stop::Backslash => reader.at - 1,
        Stop::Semicolon | Stop::EndOfScript => reader.at,
    };
    reader.text.push_str(&script[reader.copied..end]);
    Statement { text: reader.text, from, stop, next: reader.at }
}

/// Skips space and `--` comments in front of a statement.
fn skip_blank(script: &str, mut at: usize) -> usize {
    loop {
        let rest = &script[at..];
        let space = rest.len() - rest.trim_start_matches(is_sql_space).len();
        at += space;
        if !script[at..].starts_with("--") {
            return at;
        }
        at = line_end(script, at);
    }
}

fn is_sql_space(character: char) -> bool {
    matches!(character, ' ' | '\t'..='\r')
}

/// The next line feed, or the end.
fn line_end(script: &str, at: usize) -> usize {
    script[at..].find('\n').map_or(script.len(), |length| at + length)
}

/// Follows one statement.
struct Reader<'a> {
    script: &'a str,
    at: usize,
    /// Up to where the text is taken over.
    copied: usize,
    text: String,
}

impl<'a> Reader<'a> {
    fn rest(&self) -> &'a str {
        &self.script[self.at..]
    }

    fn read(&mut self) -> Stop {
        let mut parentheses = 0_usize;
        let mut body = Body::default();
        while let Some(character) = self.rest().chars().next() {
            match character {
                '\'' => self.quoted('\'', false),
                '"' => self.quoted('"', false),
                '-' if self.rest().starts_with("--") => self.at = line_end(self.script, self.at),
                '/' if self.rest().starts_with("/*") => self.block_comment(),
                '$' => self.dollar(),
                '(' => {
                    parentheses += 1;
                    self.at += 1;
                }
                ')' => {
                    parentheses = parentheses.saturating_sub(1);
                    self.at += 1;
                }
                ';' => {
                    self.at += 1;
                    if parentheses == 0 && body.depth == 0 {
                        return Stop::Semicolon;
                    }
                }
                '\\' => {
                    let Some(kept @ (';' | ':')) = self.rest()[1..].chars().next() else {
                        self.at += 1;
                        return Stop::Backslash;
                    };
                    if kept == ';' {
                        body = Body { depth: body.depth, ..Body::default() };
                    }
                    self.text.push_str(&self.script[self.copied..self.at]);
                    self.copied = self.at + 1;
                    self.at += 2;
                }
                first if is_name_start(first) => self.word(&mut body, parentheses),
                first if first.is_ascii_digit() => self.skip_while(|c| c.is_ascii_alphanumeric()),
                other => self.at += other.len_utf8(),
            }
        }
        Stop::EndOfScript
    }

    fn skip_while(&mut self, belongs: impl Fn(char) -> bool) {
        let rest = self.rest();
        self.at += rest.find(|character| !belongs(character)).unwrap_or(rest.len());
    }

    /// A name, a keyword, or the letter in front of a string.
    fn word(&mut self, body: &mut Body, parentheses: usize) {
        let from = self.at;
        self.skip_while(is_word_character);
        let word = &self.script[from..self.at];
        if word.eq_ignore_ascii_case("e") && self.rest().starts_with('\'') {
            return self.quoted('\'', true);
        }
        body.see(word, parentheses);
    }

    /// From the opening quote to behind the closing one. A doubled quote reads as two strings in a
    /// row, which end at the same place.
    fn quoted(&mut self, quote: char, escapes: bool) {
        loop {
            self.at += 1;
            while let Some(character) = self.rest().chars().next() {
                self.at += character.len_utf8();
                if character == quote {
                    break;
                }
                if escapes && character == '\\' {
                    self.at += self.rest().chars().next().map_or(0, char::len_utf8);
                }
            }
            // A string with escapes goes on, with escapes, in the next quotes of a later line.
            let more = if escapes { self.continuation() } else { None };
            let Some(next) = more else { return };
            self.at = next;
        }
    }

    /// Where the string that has just ended is continued.
    fn continuation(&self) -> Option<usize> {
        if self.rest().starts_with('\'') {
            return Some(self.at);
        }
        let space =
            &self.rest()[..self.rest().len() - self.rest().trim_start_matches(is_sql_space).len()];
        let next = self.at + space.len();
        (space.contains('\n') && self.script[next..].starts_with('\'')).then_some(next)
    }

    fn block_comment(&mut self) {
        let mut depth = 0;
        while self.at < self.script.len() {
            let rest = self.rest();
            if rest.starts_with("/*") {
                depth += 1;
                self.at += 2;
            } else if rest.starts_with("*/") {
                depth -= 1;
                self.at += 2;
                if depth == 0 {
                    return;
                }
            } else {
                self.at += rest.chars().next().map_or(1, char::len_utf8);
            }
        }
    }

    /// `$tag$ … $tag$`, or a lone dollar sign.
    fn dollar(&mut self) {
        let tag = &self.rest()[1..];
        let named = tag.starts_with(is_name_start);
        let length = if named {
            tag.find(|c| !is_word_character(c) || c == '$').unwrap_or(tag.len())
        } else {
            0
        };
        if !tag[length..].starts_with('$') {
            self.at += 1;
            return;
        }
        let delimiter = &self.rest()[..length + 2];
        self.at += delimiter.len();
        self.at += self.rest().find(delimiter).map_or(self.rest().len(), |at| at + delimiter.len());
    }
}

fn is_word_character(character: char) -> bool {
    is_name_start(character) || character.is_ascii_digit() || character == '$'
}

/// Whether the statement is in the body of `CREATE FUNCTION … BEGIN ATOMIC … END`, whose statements
/// end with semicolons of their own.
#[derive(Default)]
struct Body {
    /// First letters of the statement's first words, as far as they can begin such a definition.
    beginning: String,
    words: usize,
    depth: usize,
}

impl Body {
    const BEGINNING_MAX: usize = 4;

    fn see(&mut self, word: &str, parentheses: usize) {
        let is = |keyword: &str| word.eq_ignore_ascii_case(keyword);
        if self.words < Self::BEGINNING_MAX {
            let counts = ["create", "function", "procedure", "or", "replace"].into_iter().any(is);
            let letter = word.chars().next().unwrap_or_default().to_ascii_lowercase();
            self.beginning.push(if counts { letter } else { ' ' });
        }
        self.words += 1;
        let defines = ["cf", "cp", "corf", "corp"].iter().any(|b| self.beginning.starts_with(b));
        if !defines || parentheses > 0 {
            return;
        }
        if is("begin") || (is("case") && self.depth > 0) {
            self.depth += 1;
        } else if is("end") {
            self.depth = self.depth.saturating_sub(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(script: &str) -> Vec<String> {
        let mut statements = Vec::new();
        let mut at = 0;
        loop {
            let statement = read_statement(script, at);
            if !statement.text.is_empty() {
                statements.push(statement.text);
            }
            at = statement.next;
            match statement.stop {
                Stop::EndOfScript => return statements,
                Stop::Semicolon => {}
                Stop::Backslash => at = script[at..].find('\n').map_or(script.len(), |n| at + n),
            }
        }
    }

    #[test]
    fn semicolons_split_only_outside_of_everything() {
        let whole = [
            "SELECT ';';",
            "SELECT 'it''s;';",
            "SELECT E'\\';', ';';",
            "SELECT e'a'\n  '\\';';",
            "SELECT \"a;b\";",
            "SELECT $$;$$;",
            "SELECT $a$ $b$ ; $a$;",
            "SELECT a$b$ AS \"x\";",
            "SELECT (1; 2);",
            "SELECT 1 /* ; /* ; */ ; */;",
            "SELECT 1 -- ;\n;",
            "CREATE FUNCTION f() BEGIN ATOMIC SELECT 1; SELECT CASE WHEN a THEN b END; END;",
            "create or replace procedure p() begin atomic select 1; end;",
            "SELECT 1 \n",
        ];
        for script in whole {
            assert_eq!(split(script), [script]);
        }
        let two = [
            ("SELECT 1;SELECT 2;", ["SELECT 1;", "SELECT 2;"]),
            ("SELECT $1;$2", ["SELECT $1;", "$2"]),
            ("BEGIN; END;", ["BEGIN;", "END;"]),
            ("SELECT 'a\\';b'", ["SELECT 'a\\';", "b'"]),
            ("SELECT 1) ; 2", ["SELECT 1) ;", "2"]),
            ("SELECT 1 \\gset\nSELECT 2", ["SELECT 1 ", "SELECT 2"]),
        ];
        for (script, statements) in two {
            assert_eq!(split(script), statements);
        }
    }

    #[test]
    fn space_and_line_comments_before_a_statement_are_dropped() {
        assert_eq!(split("-- a\n \t-- b;\n SELECT 1; -- c\n"), ["SELECT 1;"]);
        assert_eq!(split("/* a */ SELECT 1;"), ["/* a */ SELECT 1;"]);
        assert_eq!(split(" \n-- only this"), Vec::<String>::new());
    }

    #[test]
    fn escaped_semicolons_and_colons_belong_to_the_statement() {
        assert_eq!(split("SELECT 1 \\; SELECT '\\:' \\:x;"), ["SELECT 1 ; SELECT '\\:' :x;"]);
    }

    #[test]
    fn an_open_quote_takes_the_rest() {
        for script in ["SELECT 'a;b", "SELECT \"a;b", "SELECT $$a;b", "SELECT /* a;b", "E'\\"] {
            assert_eq!(split(script), [script]);
        }
    }
}
