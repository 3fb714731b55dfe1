//! What is seen while the tables are made: a bar on a terminal, lines elsewhere.

use std::io::IsTerminal as _;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

use crate::commands::output::say;
use crate::load::init::InitProgress;

const LINE_EVERY: Duration = Duration::from_secs(1);
/// With `-q`, as in pgbench.
const QUIET_LINE_EVERY: Duration = Duration::from_secs(5);

/// The display of one initialization.
#[derive(Debug)]
pub(super) enum Display {
    /// A live bar.
    Bar(ProgressBar),
    /// pgbench's lines.
    Lines(Lines),
}

impl Display {
    pub(super) fn new(is_quiet: bool) -> Self {
        if is_quiet || !std::io::stderr().is_terminal() {
            let period = if is_quiet { QUIET_LINE_EVERY } else { LINE_EVERY };
            return Self::Lines(Lines { period, rows_since: None, last_line: Instant::now() });
        }
        let bar = ProgressBar::no_length();
        bar.enable_steady_tick(Duration::from_millis(200));
        Self::Bar(bar)
    }

    /// Shows where the work stands.
    pub(super) fn show(&mut self, progress: InitProgress) {
        match (self, progress) {
            (Self::Bar(bar), InitProgress::Step(name)) => {
                bar.set_style(style("{spinner} {msg} ({elapsed})"));
                bar.set_message(format!("{name}…"));
            }
            (Self::Bar(bar), InitProgress::Rows(done, total)) => {
                if bar.length() != Some(total) {
                    bar.reset();
                    bar.set_length(total);
                }
                bar.set_style(style(
                    "{msg} {wide_bar} {percent} % {human_pos}/{human_len} rows, {per_sec}, ETA {eta}",
                ));
                bar.set_position(done);
            }
            (Self::Lines(lines), progress) => {
                if let Some(line) = lines.line(progress, Instant::now()) {
                    say(&line);
                }
            }
        }
    }

    /// Takes the bar away.
    pub(super) fn finish(&mut self) {
        if let Self::Bar(bar) = self {
            bar.finish_and_clear();
        }
    }
}

/// A failed step must not leave a bar behind its message.
impl Drop for Display {
    fn drop(&mut self) {
        self.finish();
    }
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}

/// Lines in pgbench's form, not more often than the period says.
#[derive(Debug)]
pub(super) struct Lines {
    period: Duration,
    /// When the first rows were sent.
    rows_since: Option<Instant>,
    last_line: Instant,
}

impl Lines {
    fn line(&mut self, progress: InitProgress, now: Instant) -> Option<String> {
        let (done, total) = match progress {
            InitProgress::Step(name) => return Some(format!("{name}...")),
            InitProgress::Rows(done, total) => (done, total),
        };
        let since = *self.rows_since.get_or_insert(now);
        if done < total && now - self.last_line < self.period {
            return None;
        }
        self.last_line = now;
        let elapsed = (now - since).as_secs_f64();
        let remaining = elapsed * (total - done) as f64 / done.max(1) as f64;
        Some(format!(
            "{done} of {total} tuples ({}%) done (elapsed {elapsed:.2} s, remaining {remaining:.2} s)",
            done * 100 / total.max(1)
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_come_at_their_pace_and_at_the_end() {
        let start = Instant::now();
        let mut lines = Lines { period: LINE_EVERY, rows_since: None, last_line: start };
        let mut at =
            |ms, done| lines.line(InitProgress::Rows(done, 100), start + Duration::from_millis(ms));
        assert_eq!(at(0, 1), None);
        assert_eq!(at(900, 10), None);
        let line = "20 of 100 tuples (20%) done (elapsed 1.00 s, remaining 4.00 s)";
        assert_eq!(at(1000, 20).as_deref(), Some(line));
        assert_eq!(at(1500, 50), None);
        let line = "100 of 100 tuples (100%) done (elapsed 1.60 s, remaining 0.00 s)";
        assert_eq!(at(1600, 100).as_deref(), Some(line));
    }
}
