//! The benchmark of an attached trace: a command that is started, or one whose progress is read.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use super::AttachError;
use crate::attach::command::{Blocked, CommandError, Running, base_name};
use crate::attach::follow::Follower;
use crate::attach::pump::Event;
use crate::attach::relay::Relay;
use crate::attach::words::{Fact, Progress, Said, Summary, read_line};
use crate::cli::AttachArgs;
use crate::clock::monotonic_ns;
use crate::commands::Exit;
use crate::model::{ClientInterval, ClientReport};

/// Programs whose words are understood.
const UNDERSTOOD: [&str; 2] = ["pgbench", "sysbench"];

/// What is known of it, and what it says.
pub(super) struct Client {
    events: Receiver<Event>,
    sender: Sender<Event>,
    command: State,
    _follower: Option<Follower>,
    heard: Heard,
    /// When the trace began: earlier lines are of another time.
    start_ns: u64,
}

enum State {
    /// There is no command.
    None,
    /// It waits for the probes.
    Blocked(Blocked),
    Running {
        running: Running,
        _relay: Relay,
    },
}

/// Whom the trace has to know of the command.
#[derive(Clone, Debug)]
pub(super) struct Started {
    pub(super) pid: u32,
    pub(super) name: String,
}

/// What it has said so far.
#[derive(Default)]
struct Heard {
    summary: Summary,
    lines: Vec<Line>,
}

/// A line of its progress.
struct Line {
    at_ns: u64,
    progress: Progress,
    /// Transactions that the replies had told when they were looked at.
    told_count: u64,
    /// When that was, CLOCK_MONOTONIC: a busy machine may be late.
    looked_ns: u64,
}

impl Client {
    /// Makes the command's process, or begins to follow the file.
    pub(super) fn prepare(args: &AttachArgs) -> Result<Client, AttachError> {
        let (sender, events) = channel();
        let command = match args.client.is_empty() {
            true => State::None,
            false => State::Blocked(Blocked::start(&args.client, is_understood(&args.client))?),
        };
        let follow = |path: &std::path::PathBuf| {
            Follower::start(path, sender.clone())
                .map_err(|source| AttachError::Progress { path: path.clone(), source })
        };
        let follower = args.progress_from.as_ref().map(follow).transpose()?;
        Ok(Client {
            events,
            sender,
            command,
            _follower: follower,
            heard: Heard::default(),
            start_ns: 0,
        })
    }

    /// The command's process.
    pub(super) fn started(&self) -> Option<Started> {
        match &self.command {
            State::Blocked(blocked) => Some(Started { pid: blocked.pid(), name: blocked.name() }),
            State::None | State::Running { .. } => None,
        }
    }

    /// The trace began at `start_ns`: lets the command go.
    pub(super) fn release(mut self, start_ns: u64) -> Result<Client, AttachError> {
        self.start_ns = start_ns;
        if let State::Blocked(blocked) = self.command {
            let relay = Relay::to(blocked.pid())?;
            self.command =
                State::Running { running: blocked.release(&self.sender)?, _relay: relay };
        }
        Ok(self)
    }

    /// The next that it says or does, within `time`.
    pub(super) fn next(&self, time: Duration) -> Option<Event> {
        // `self` holds a sender: the channel stays.
        self.events.recv_timeout(time).ok()
    }

    /// Takes a line in; `told` tells how many transactions the replies have told by now.
    pub(super) fn hear<E>(
        &mut self,
        text: &str,
        at_ns: u64,
        told: impl FnOnce() -> Result<u64, E>,
    ) -> Result<(), E> {
        let mut told = Some(told);
        for said in read_line(text) {
            match said {
                // What was said before is of another time; who says it is not.
                Said::Fact(fact) if at_ns >= self.start_ns || matches!(fact, Fact::Program(_)) => {
                    self.heard.summary.take(fact);
                }
                Said::Progress(progress) if at_ns >= self.start_ns => {
                    if let Some(told) = told.take() {
                        let told_count = told()?;
                        let looked_ns = monotonic_ns();
                        self.heard.lines.push(Line { at_ns, progress, told_count, looked_ns });
                    }
                }
                Said::Fact(_) | Said::Progress(_) => {}
            }
        }
        Ok(())
    }

    /// Waits for the command's end. What it says until then, and has not been heard, is heard.
    pub(super) fn wait(&mut self) -> Result<Exit, AttachError> {
        let State::Running { running, _relay } = std::mem::replace(&mut self.command, State::None)
        else {
            return Ok(Exit::Done);
        };
        let ended = running.wait()?;
        Ok(Exit::Command(ended.code()))
    }

    /// Hears the rest of the final report.
    pub(super) fn hear_rest(&mut self) {
        while let Ok(event) = self.events.try_recv() {
            if let Event::Line { text, at_ns, .. } = event {
                for said in read_line(&text) {
                    if let (Said::Fact(fact), true) = (said, at_ns >= self.start_ns) {
                        self.heard.summary.take(fact);
                    }
                }
            }
        }
    }

    /// What it has said, if it has said something, beside what the replies told.
    pub(super) fn report(&self, told_count: u64) -> Option<ClientReport> {
        let Heard { summary, lines } = &self.heard;
        if lines.is_empty() && summary.transactions_count.is_none() {
            return None;
        }
        let ns = |ms: f64| (ms * 1e6) as u64;
        Some(ClientReport {
            program: summary.program.clone(),
            transactions_count: summary.transactions_count,
            failed_count: summary.failed_count,
            retries_count: summary.retries_count,
            tps: summary.tps,
            latency_ns: summary.latency_ms.map(ns),
            connecting_ns: summary.connecting_ms.map(ns),
            told_count,
            intervals: self.intervals(),
            explanation: None,
        })
    }

    /// Between two lines of the progress; the time before the first is known from the start of a
    /// command only.
    fn intervals(&self) -> Vec<ClientInterval> {
        let lines = &self.heard.lines;
        let pairs = lines.iter().zip(lines.iter().skip(1));
        pairs
            .filter(|(before, line)| line.progress.at_s > before.progress.at_s)
            .map(|(before, line)| {
                let seconds = line.progress.at_s - before.progress.at_s;
                let told_count = line.told_count.saturating_sub(before.told_count);
                let looked_ns = line.looked_ns.saturating_sub(before.looked_ns).max(1);
                ClientInterval {
                    at_ns: line.at_ns.saturating_sub(self.start_ns),
                    duration_ns: (seconds * 1e9) as u64,
                    tps: line.progress.tps,
                    told_tps: told_count as f64 * 1e9 / looked_ns as f64,
                    latency_ns: line.progress.latency_ms.map(|ms| (ms * 1e6) as u64),
                }
            })
            .collect()
    }
}

impl From<CommandError> for AttachError {
    fn from(error: CommandError) -> Self {
        AttachError::Command(error)
    }
}

/// Whether the command is one whose words are worth reading, also behind `taskset` and the like.
fn is_understood(words: &[String]) -> bool {
    occurrences(words, &UNDERSTOOD) > 0
}

/// How many sessions the command makes before its load: pgbench looks at its tables in one. Where
/// a shell runs several, nobody knows which sessions those are.
pub(super) fn sessions_before_load(words: &[String]) -> u32 {
    let initializes = |word: &str| word == "--initialize" || is_short_initialize(word);
    let is_load = !words.iter().flat_map(|word| word.split_whitespace()).any(initializes);
    u32::from(is_load && occurrences(words, &["pgbench"]) == 1)
}

/// `-i`, also among other letters that take no value.
fn is_short_initialize(word: &str) -> bool {
    const VALUELESS: &str = "nvqCNSldr";
    match word.strip_prefix('-').filter(|letters| !letters.starts_with('-')) {
        Some(letters) => {
            letters.contains('i') && letters.chars().all(|c| c == 'i' || VALUELESS.contains(c))
        }
        None => false,
    }
}

fn occurrences(words: &[String], names: &[&str]) -> usize {
    let words = words.iter().flat_map(|word| word.split_whitespace());
    words.filter(|word| names.contains(&base_name(word).as_str())).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<String> {
        line.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn pgbench_s_first_session_is_not_its_load() {
        for line in ["pgbench -S", "/usr/bin/pgbench -c 4", "taskset -c 1 pgbench -S -c 2 -d inet"]
        {
            assert_eq!(sessions_before_load(&words(line)), 1, "{line}");
            assert!(is_understood(&words(line)));
        }
        let script = ["sh".to_owned(), "-c".to_owned(), "pgbench -S; pgbench -N".to_owned()];
        assert_eq!(sessions_before_load(&script), 0);
        assert!(is_understood(&script));
        for line in ["pgbench -i -s 5", "pgbench -iq", "psql -c x", "sysbench oltp_read_only run"] {
            assert_eq!(sessions_before_load(&words(line)), 0, "{line}");
        }
        assert!(!is_understood(&words("python3 app.py")));
    }
}
