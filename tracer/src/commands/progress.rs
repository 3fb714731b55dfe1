//! Progress on standard error, in pgbench's words.

use indicatif::{ProgressBar, ProgressStyle};

use super::output::say;

use crate::load::init::InitProgress;
use crate::load::{Outcome, TransactionRecord};

const NS_PER_MS: f64 = 1e6;
const NS_PER_S: f64 = 1e9;

/// The live line.
#[derive(Debug)]
pub(super) struct Progress {
    /// Time between lines; 0 for none.
    period_ns: u64,
    start_ns: u64,
    measured_from_ns: u64,
    line_from_ns: u64,
    sums: Sums,
    /// What others add to the next line.
    note: Option<String>,
}

/// Since the last line.
#[derive(Debug, Default, PartialEq)]
struct Sums {
    count: u64,
    failed_count: u64,
    latency_ns: f64,
    latency_squared: f64,
}

impl Progress {
    /// Lines every `period_ns` from `start_ns` on; what precedes `measured_from_ns` is warm-up.
    pub(super) fn new(period_ns: u64, start_ns: u64, measured_from_ns: u64) -> Self {
        Self {
            period_ns,
            start_ns,
            measured_from_ns,
            line_from_ns: start_ns,
            sums: Sums::default(),
            note: None,
        }
    }

    /// Counts a transaction.
    pub(super) fn record(&mut self, record: &TransactionRecord) {
        if record.outcome != Outcome::Committed {
            self.sums.failed_count += 1;
            return;
        }
        let latency_ns = record.latency_ns() as f64;
        self.sums.count += 1;
        self.sums.latency_ns += latency_ns;
        self.sums.latency_squared += latency_ns * latency_ns;
    }

    /// Adds `note` to the lines from now on.
    pub(super) fn annotate(&mut self, note: Option<String>) {
        self.note = note;
    }

    /// Ends the warm-up's lines: the next one counts from the measured part's beginning.
    pub(super) fn begin_measured_part(&mut self) {
        self.line_from_ns = self.measured_from_ns;
        self.sums = Sums::default();
    }

    /// Prints a line when one is due.
    pub(super) fn tick(&mut self, now_ns: u64) {
        if self.period_ns == 0 || now_ns < self.line_from_ns + self.period_ns {
            return;
        }
        say(&self.line(now_ns));
        self.line_from_ns = now_ns;
        self.sums = Sums::default();
    }

    fn line(&self, now_ns: u64) -> String {
        let (label, since_ns) = if self.line_from_ns < self.measured_from_ns {
            ("warm-up", self.start_ns)
        } else {
            ("progress", self.measured_from_ns)
        };
        let Sums { count, failed_count, latency_ns, latency_squared } = self.sums;
        let divisor = count.max(1) as f64;
        let mean = latency_ns / divisor;
        let deviation = (latency_squared / divisor - mean * mean).max(0.0).sqrt();
        let tps = count as f64 * NS_PER_S / (now_ns - self.line_from_ns) as f64;
        let mut line = format!(
            "{label}: {:.1} s, {tps:.1} tps, lat {:.3} ms stddev {:.3}, {failed_count} failed",
            (now_ns - since_ns) as f64 / NS_PER_S,
            mean / NS_PER_MS,
            deviation / NS_PER_MS,
        );
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

    fn record(latency_ns: u64) -> TransactionRecord {
        TransactionRecord {
            backend_pid: 1,
            outcome: Outcome::Committed,
            retries_count: 0,
            sequence: 0,
            scheduled_ns: 0,
            sent_ns: 0,
            received_ns: latency_ns,
        }
    }

    #[test]
    fn a_line_reads_like_pgbench_s() {
        let mut progress = Progress::new(1_000_000_000, 0, 500_000_000);
        progress.record(&record(1_000_000));
        progress.record(&record(3_000_000));
        let numbers = "2.0 tps, lat 2.000 ms stddev 1.000, 0 failed";
        assert_eq!(progress.line(1_000_000_000), format!("warm-up: 1.0 s, {numbers}"));
        progress.begin_measured_part();
        progress.record(&record(1_000_000));
        progress.record(&record(3_000_000));
        assert_eq!(progress.line(1_500_000_000), format!("progress: 1.0 s, {numbers}"));
    }

    #[test]
    fn a_note_ends_the_line() {
        let mut progress = Progress::new(1, 0, 0);
        progress.note = Some("spin 12 ns/tx".to_owned());
        assert!(progress.line(10).ends_with("0 failed, spin 12 ns/tx"));
    }
}
