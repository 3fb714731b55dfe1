//! Progress on standard error, in pgbench's words.

use indicatif::{ProgressBar, ProgressStyle};

use super::output::say;

use crate::clock::Epoch;
use crate::load::TransactionRecord;
use crate::load::init::InitProgress;
use crate::load::tally::Tally;

const NS_PER_MS: f64 = 1e6;
const NS_PER_S: f64 = 1e9;
const US_PER_S: f64 = 1e6;
/// A rest of a period that is shorter than this share of it has no line of its own.
const LEAST_REST: f64 = 0.1;

/// What the lines say beside rate, latency and failures.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Columns {
    /// How late transactions began (`-R`).
    pub(super) lag: bool,
    /// Transactions that never did (`-R -L`).
    pub(super) skipped: bool,
    /// Transactions tried again, and tries (`--max-tries`).
    pub(super) retries: bool,
    /// Unix time instead of the time since the beginning (`--progress-timestamp`).
    pub(super) unix_time: Option<Epoch>,
}

/// The live line.
#[derive(Debug)]
pub(super) struct Progress {
    /// Time between lines; 0 for none.
    period_ns: u64,
    start_ns: u64,
    measured_from_ns: u64,
    line_from_ns: u64,
    next_line_ns: u64,
    columns: Columns,
    /// Since the last line.
    tally: Tally,
    /// What others add to the next line.
    note: Option<String>,
}

impl Progress {
    /// Lines every `period_ns` from `start_ns` on; what precedes `measured_from_ns` is warm-up.
    pub(super) fn new(
        period_ns: u64,
        start_ns: u64,
        measured_from_ns: u64,
        columns: Columns,
    ) -> Self {
        Self {
            period_ns,
            start_ns,
            measured_from_ns,
            line_from_ns: start_ns,
            next_line_ns: start_ns + period_ns,
            columns,
            tally: Tally::default(),
            note: None,
        }
    }

    /// Counts a transaction.
    pub(super) fn record(&mut self, record: &TransactionRecord) {
        if self.period_ns > 0 {
            self.tally.add(record, None);
        }
    }

    /// Adds `note` to the lines from now on.
    pub(super) fn annotate(&mut self, note: Option<String>) {
        self.note = note;
    }

    /// Ends the warm-up's lines: the next one counts from the measured part's beginning.
    pub(super) fn begin_measured_part(&mut self) {
        self.line_from_ns = self.measured_from_ns;
        self.next_line_ns = self.measured_from_ns + self.period_ns;
        self.tally = Tally::default();
    }

    /// When `tick` wants to be called next.
    pub(super) fn next_tick_ns(&self) -> u64 {
        if self.period_ns == 0 { u64::MAX } else { self.next_line_ns }
    }

    /// Prints a line when one is due.
    pub(super) fn tick(&mut self, now_ns: u64) {
        if now_ns >= self.next_tick_ns() {
            self.print(now_ns);
        }
    }

    /// Prints what has happened since the last line, at the end of the measured part.
    pub(super) fn finish(&mut self, end_ns: u64) {
        let rest_ns = end_ns.saturating_sub(self.line_from_ns);
        if self.period_ns > 0 && rest_ns as f64 >= self.period_ns as f64 * LEAST_REST {
            self.print(end_ns);
        }
    }

    fn print(&mut self, now_ns: u64) {
        say(&self.line(now_ns));
        self.line_from_ns = now_ns;
        // Late lines do not shift those after them.
        while self.next_line_ns <= now_ns {
            self.next_line_ns += self.period_ns;
        }
        self.tally = Tally::default();
    }

    fn line(&self, now_ns: u64) -> String {
        let (label, since_ns) = if self.line_from_ns < self.measured_from_ns {
            ("warm-up", self.start_ns)
        } else {
            ("progress", self.measured_from_ns)
        };
        let tally = &self.tally;
        let tps = tally.committed_count() as f64 * NS_PER_S
            / now_ns.saturating_sub(self.line_from_ns).max(1) as f64;
        let time = match self.columns.unix_time {
            Some(epoch) => format!("{:.3}", epoch.unix_us(now_ns) as f64 / US_PER_S),
            None => format!("{:.1}", (now_ns - since_ns) as f64 / NS_PER_S),
        };
        let mut line = format!(
            "{label}: {time} s, {tps:.1} tps, lat {:.3} ms stddev {:.3}, {} failed",
            tally.latency.mean().unwrap_or_default() / NS_PER_MS,
            tally.latency.stddev().unwrap_or_default() / NS_PER_MS,
            tally.failed_count(),
        );
        if self.columns.lag {
            let lag = tally.lag.mean().unwrap_or_default() / NS_PER_MS;
            line.push_str(&format!(", lag {lag:.3} ms"));
            if self.columns.skipped {
                line.push_str(&format!(", {} skipped", tally.skipped_count));
            }
        }
        if self.columns.retries {
            let Tally { retried_count, retries_count, .. } = tally;
            line.push_str(&format!(", {retried_count} retried, {retries_count} retries"));
        }
        if let Some(note) = &self.note {
            line.push_str(", ");
            line.push_str(note);
        }
        line
    }
}

/// The bar while the tables are made; invisible unless standard error is a terminal.
pub(super) fn init_bar() -> impl FnMut(InitProgress) {
    let bar = ProgressBar::no_length();
    let style = ProgressStyle::with_template("{msg:14} {wide_bar} {human_pos}/{human_len} {eta}");
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar.set_message("filling tables");
    move |progress| match progress {
        InitProgress::Rows(done, total) => {
            bar.set_length(total);
            bar.set_position(done);
        }
        InitProgress::Step(step) => bar.set_message(step),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::Outcome;

    fn record(latency_ns: u64) -> TransactionRecord {
        TransactionRecord {
            client: 0,
            backend_pid: 1,
            script: 0,
            outcome: Outcome::Committed,
            retries_count: 0,
            sequence: 0,
            scheduled_ns: 0,
            sent_ns: 0,
            received_ns: latency_ns,
        }
    }

    fn progress(period_ns: u64, measured_from_ns: u64, columns: Columns) -> Progress {
        let mut progress = Progress::new(period_ns, 0, measured_from_ns, columns);
        progress.record(&record(1_000_000));
        progress.record(&record(3_000_000));
        progress
    }

    #[test]
    fn a_line_reads_like_pgbench_s() {
        let mut progress = progress(1_000_000_000, 500_000_000, Columns::default());
        let numbers = "2.0 tps, lat 2.000 ms stddev 1.000, 0 failed";
        assert_eq!(progress.line(1_000_000_000), format!("warm-up: 1.0 s, {numbers}"));
        progress.begin_measured_part();
        progress.record(&record(1_000_000));
        progress.record(&record(3_000_000));
        assert_eq!(progress.line(1_500_000_000), format!("progress: 1.0 s, {numbers}"));
    }

    #[test]
    fn options_add_pgbench_s_columns() {
        let with = |columns| progress(1, 0, columns).line(1_000_000_000);
        let lag = Columns { lag: true, ..Columns::default() };
        assert!(with(lag).ends_with(", 0 failed, lag 0.000 ms"));
        let all = Columns { lag: true, skipped: true, retries: true, unix_time: None };
        assert!(with(all).ends_with(", lag 0.000 ms, 0 skipped, 0 retried, 0 retries"));
    }

    #[test]
    fn the_time_may_be_that_of_the_day() {
        let columns = Columns { unix_time: Some(Epoch::now()), ..Columns::default() };
        let line = progress(1, 0, columns).line(crate::clock::monotonic_ns());
        let time = line.strip_prefix("progress: ").and_then(|rest| rest.split_once(" s, "));
        let seconds: f64 = time.unwrap().0.parse().unwrap();
        let now = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap().as_secs_f64();
        assert!((seconds - now).abs() < 60.0, "{line}");
    }

    #[test]
    fn a_note_ends_the_line() {
        let mut progress = Progress::new(1, 0, 0, Columns::default());
        progress.note = Some("spin 12 ns/tx".to_owned());
        assert!(progress.line(10).ends_with("0 failed, spin 12 ns/tx"));
    }

    #[test]
    fn a_late_line_does_not_shift_the_next() {
        let mut progress = Progress::new(100, 0, 0, Columns::default());
        progress.tick(130);
        assert_eq!((progress.line_from_ns, progress.next_tick_ns()), (130, 200));
        progress.tick(199);
        assert_eq!(progress.line_from_ns, 130);
    }

    #[test]
    fn the_last_line_is_printed_and_a_crumb_is_not() {
        let mut progress = Progress::new(100, 0, 0, Columns::default());
        progress.tick(100);
        progress.finish(105);
        assert_eq!(progress.line_from_ns, 100);
        progress.finish(200);
        assert_eq!(progress.line_from_ns, 200);
        Progress::new(0, 0, 0, Columns::default()).finish(200);
    }
}
