//! The same script through pgbench and through lockscope, and what came of it.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context as _, Result};

use crate::command::{Finished, finish, lockscope};
use crate::postgres::Postgres;

/// What the server logs in front of each entry: application, session.
const LOG_SETTINGS: [(&str, &str); 2] = [("log_statement", "all"), ("log_line_prefix", "@%a@%c@")];
const ENTRY: char = '@';

/// A server that logs all statements.
#[derive(Debug)]
pub struct Bench {
    server: Postgres,
    scripts: tempfile::TempDir,
}

/// How a program ended, whatever the number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// All went well.
    Done,
    /// It did not start: the script or the options are wrong.
    Refused,
    /// Clients gave up.
    Aborted,
}

/// What came of a run.
#[derive(Debug, PartialEq, Eq)]
pub struct Outcome {
    /// How it ended.
    pub ending: Ending,
    /// By session, what the server logged: statements, parameters and errors.
    pub sessions: Vec<Vec<String>>,
    /// What `debug()` printed.
    pub debug: Vec<String>,
    /// Lines of a complete report that do not depend on time.
    pub counts: Vec<String>,
}

impl Bench {
    /// Starts the server and makes pgbench's tables.
    ///
    /// # Errors
    /// When Postgres cannot be started or pgbench fails.
    pub fn start() -> Result<Self> {
        let server = Postgres::start(&LOG_SETTINGS)?;
        let made = finish(server.client("pgbench").args(["-i", "-q"]))?;
        anyhow::ensure!(made.code == Some(0), "pgbench -i: {}", made.stderr);
        Ok(Self { server, scripts: tempfile::tempdir().context("cannot create a directory")? })
    }

    /// Writes scripts and runs `arguments` by both programs, `{0}`, `{1}`… being the scripts' files;
    /// pgbench's outcome and lockscope's, with what they said. Sessions count where they contain
    /// `needle`. `extra` are arguments for lockscope alone.
    ///
    /// # Errors
    /// When a program cannot be run.
    pub fn run(
        &self,
        scripts: &[&str],
        arguments: &str,
        extra: &str,
        needle: &str,
    ) -> Result<[(Outcome, Finished); 2]> {
        let mut words = arguments.to_owned();
        for (index, text) in scripts.iter().enumerate() {
            let path = self.scripts.path().join(format!("{index}.sql"));
            std::fs::write(&path, text).context("cannot write a script")?;
            words = words.replace(&format!("{{{index}}}"), &path.display().to_string());
        }
        let words: Vec<&str> = words.split_whitespace().collect();
        let theirs = finish(self.server.client("pgbench").env("PGAPPNAME", "theirs").args(&words))?;
        let theirs = (self.outcome("theirs", needle, &theirs, Some(1))?, theirs);

        let dsn = format!("{} application_name=ours", self.server.dsn());
        let head = ["load", "--dsn", &dsn];
        let all: Vec<&str> =
            head.into_iter().chain(words).chain(extra.split_whitespace()).collect();
        let ours = finish(&mut lockscope(&all))?;
        let ours = (self.outcome("ours", needle, &ours, Some(2))?, ours);
        Ok([theirs, ours])
    }

    fn outcome(
        &self,
        application: &str,
        needle: &str,
        done: &Finished,
        refused: Option<i32>,
    ) -> Result<Outcome> {
        // Where nobody is left, lockscope has nothing to report, which is no wrong use.
        let ending = match done.code {
            Some(0) => Ending::Done,
            _ if done.stderr.contains("clients gave up") => Ending::Aborted,
            code if code == refused => Ending::Refused,
            _ => Ending::Aborted,
        };
        let sessions = take_sessions(&self.server.log_file(), application)?;
        let mut sessions: Vec<Vec<String>> = sessions
            .into_values()
            .filter(|entries| entries.iter().any(|entry| entry.contains(needle)))
            .collect();
        // Clients may connect in any order.
        sessions.sort();
        let lines = |text: &str, beginnings: &[&str]| {
            text.lines()
                .filter(|line| beginnings.iter().any(|beginning| line.starts_with(beginning)))
                .map(str::to_owned)
                .collect()
        };
        let counts = ["number of transactions actually", "number of failed", "number of tran"];
        Ok(Outcome {
            ending,
            sessions,
            debug: lines(&done.stderr, &["debug("]),
            counts: match ending {
                Ending::Done => lines(&done.stdout, &counts),
                Ending::Refused | Ending::Aborted => Vec::new(),
            },
        })
    }
}

/// The log's entries of an application by session; the log is emptied.
fn take_sessions(log: &Path, application: &str) -> Result<BTreeMap<String, Vec<String>>> {
    let text = std::fs::read(log).context("cannot read the server's log")?;
    let text = String::from_utf8_lossy(&text).into_owned();
    let mut sessions: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut current: Option<(String, String)> = None;
    let mut keep = |entry: Option<(String, String)>| {
        if let Some((session, entry)) = entry {
            sessions.entry(session).or_default().push(entry);
        }
    };
    for line in text.lines() {
        match line.strip_prefix(ENTRY) {
            Some(entry) => {
                keep(current.take());
                let mut parts = entry.splitn(3, ENTRY);
                let (Some(name), Some(session), Some(text)) =
                    (parts.next(), parts.next(), parts.next())
                else {
                    continue;
                };
                if name == application {
                    current = Some((session.to_owned(), text.to_owned()));
                }
            }
            // The rest of a statement of several lines.
            None => {
                if let Some((_, entry)) = &mut current {
                    entry.push('\n');
                    entry.push_str(line);
                }
            }
        }
    }
    keep(current.take());
    // The server appends, so that an emptied file goes on at its beginning.
    std::fs::write(log, "").context("cannot empty the server's log")?;
    Ok(sessions)
}
