//! From transaction records to throughput, latency and the time series.

mod series;

use hdrhistogram::Histogram;

use self::series::Series;
use super::engine::{Outcome, TransactionRecord};
use super::histogram;
use super::tally::Tally;
use crate::model::{Bucket, Interval, Latency, Throughput};

/// Longest latency that the histogram tells apart; longer ones count as this.
const LATENCY_MAX_NS: u64 = 3_600_000_000_000;
const SIGNIFICANT_DIGITS: u8 = 3;
const NS_PER_SECOND: f64 = 1e9;

/// Takes the records of a run and keeps what ended in the measured window.
#[derive(Debug)]
pub struct Measurement {
    start_ns: u64,
    end_ns: Option<u64>,
    latency: Histogram<u64>,
    latency_sum_ns: u128,
    /// `-L`.
    latency_limit_ns: Option<u64>,
    scripts: Vec<Tally>,
    last_received_ns: u64,
    late: Late,
    series: Series,
}

/// What was measured.
#[derive(Clone, Debug, PartialEq)]
pub struct Measured {
    /// Length of the measured window.
    pub duration_ns: u64,
    /// Transactions and their rate; how many were traced or aborted is for others to say.
    pub throughput: Throughput,
    /// Absent when no transaction ended well.
    pub latency: Option<Latency>,
    /// The window in steps; the last may be shorter.
    pub intervals: Vec<Interval>,
    /// What was under way at the window's end, and is in none of the above.
    pub late: Late,
    /// Everything that ended in the window.
    pub total: Tally,
    /// The same by script.
    pub scripts: Vec<Tally>,
    /// How the latencies are spread.
    pub histogram: Vec<Bucket>,
}

/// Transactions that were under way at the end of the window and ended after it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Late {
    /// How many.
    pub count: u64,
    /// The longest latency among them.
    pub longest_ns: u64,
}

impl Measurement {
    /// Measures what ends from `start_ns` on and, where known, before `end_ns` (CLOCK_MONOTONIC).
    pub fn new(start_ns: u64, end_ns: Option<u64>, interval_ns: u64) -> Self {
        Self {
            latency_limit_ns: None,
            scripts: Vec::new(),
            start_ns,
            end_ns,
            latency: new_histogram(),
            latency_sum_ns: 0,
            last_received_ns: start_ns,
            late: Late::default(),
            series: Series::new(interval_ns),
        }
    }

    /// Counts transactions that take longer than `limit_ns` (`-L`).
    pub fn with_latency_limit(self, limit_ns: Option<u64>) -> Self {
        Self { latency_limit_ns: limit_ns, ..self }
    }

    /// Whether a transaction that ended then is measured.
    pub fn is_in_window(&self, received_ns: u64) -> bool {
        received_ns >= self.start_ns && self.end_ns.is_none_or(|end| received_ns < end)
    }

    /// Takes one record; those outside the window are dropped.
    pub fn record(&mut self, record: &TransactionRecord) {
        let received_ns = record.received_ns;
        let is_late = |end| record.sent_ns < end && received_ns >= end;
        if record.outcome != Outcome::Skipped && self.end_ns.is_some_and(is_late) {
            self.late.count += 1;
            self.late.longest_ns = self.late.longest_ns.max(record.latency_ns());
        }
        if !self.is_in_window(received_ns) {
            return;
        }
        self.last_received_ns = self.last_received_ns.max(received_ns);
        let limit_ns = self.latency_limit_ns;
        self.script(record.script).add(record, limit_ns);
        if record.outcome != Outcome::Committed {
            return;
        }
        let latency_ns = record.latency_ns();
        self.latency.saturating_record(latency_ns);
        self.latency_sum_ns += u128::from(latency_ns);
        self.series.add(received_ns - self.start_ns, latency_ns);
    }

    fn script(&mut self, script: u32) -> &mut Tally {
        let script = script as usize;
        if self.scripts.len() <= script {
            self.scripts.resize_with(script + 1, Tally::default);
        }
        &mut self.scripts[script]
    }

    /// Successful transactions so far.
    pub fn transactions_count(&self) -> u64 {
        self.latency.len()
    }

    /// Closes the window at its last transaction, whatever end was planned.
    pub fn finish_at_last(mut self) -> Measured {
        self.end_ns = None;
        self.finish(None)
    }

    /// Closes the window: at its planned end, at `ended_ns` if that came first, and at the last
    /// transaction where neither is known.
    pub fn finish(self, ended_ns: Option<u64>) -> Measured {
        let end_ns = match (self.end_ns, ended_ns) {
            (Some(planned), Some(ended)) => planned.min(ended),
            (Some(end), None) | (None, Some(end)) => end,
            (None, None) => self.last_received_ns + 1,
        }
        .max(self.last_received_ns);
        let duration_ns = end_ns - self.start_ns;
        let transactions_count = self.transactions_count();
        let total = Tally::of_all(&self.scripts);
        let throughput = Throughput {
            tps: per_second(transactions_count, duration_ns),
            transactions_count,
            failed_count: total.failed_count(),
            ..Throughput::default()
        };
        let latency = self.latency();
        let late = self.late;
        let intervals = self.series.close(duration_ns);
        let histogram = histogram::buckets(&self.latency);
        let scripts = self.scripts;
        Measured { duration_ns, throughput, latency, intervals, late, total, scripts, histogram }
    }

    fn latency(&self) -> Option<Latency> {
        let count = u128::from(self.latency.len());
        let mean = self.latency_sum_ns.checked_div(count)?;
        let quantile = |quantile| self.latency.value_at_quantile(quantile);
        Some(Latency {
            mean: u64::try_from(mean).unwrap_or(u64::MAX),
            stddev: self.latency.stdev() as u64,
            p50: quantile(0.5),
            p90: quantile(0.9),
            p95: quantile(0.95),
            p99: quantile(0.99),
            p999: quantile(0.999),
            p9999: Some(quantile(0.9999)),
            max: self.latency.max(),
        })
    }
}

fn new_histogram() -> Histogram<u64> {
    // These bounds are constants that the library accepts; its own default grows as needed.
    Histogram::new_with_bounds(1, LATENCY_MAX_NS, SIGNIFICANT_DIGITS)
        .unwrap_or_else(|_| unreachable!("constant histogram bounds"))
}

fn per_second(count: u64, duration_ns: u64) -> f64 {
    if duration_ns == 0 { 0.0 } else { count as f64 * NS_PER_SECOND / duration_ns as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    fn record(received_ns: u64, latency_ns: u64) -> TransactionRecord {
        TransactionRecord {
            client: 0,
            backend_pid: 1,
            script: 0,
            outcome: Outcome::Committed,
            retries_count: 0,
            sequence: 0,
            scheduled_ns: received_ns - latency_ns,
            sent_ns: received_ns - latency_ns,
            received_ns,
        }
    }

    #[test]
    fn only_what_ends_in_the_window_counts() {
        let mut measurement = Measurement::new(10 * S, Some(12 * S), S);
        for received_ns in [10 * S - 1, 10 * S, 12 * S - 1, 12 * S] {
            measurement.record(&record(received_ns, 1000));
        }
        let measured = measurement.finish(None);
        assert_eq!(measured.throughput.transactions_count, 2);
        assert_eq!(measured.throughput.tps, 1.0);
        assert_eq!(measured.duration_ns, 2 * S);
    }

    #[test]
    fn what_outlasts_the_window_is_told_apart() {
        let mut measurement = Measurement::new(0, Some(S), S);
        measurement.record(&record(S / 2, 1000));
        measurement.record(&record(S + 5, 10));
        measurement.record(&record(3 * S, 2 * S + 7));
        measurement.record(&record(4 * S, 1000));
        let measured = measurement.finish(None);
        assert_eq!(measured.throughput.transactions_count, 1);
        assert_eq!(measured.late, Late { count: 2, longest_ns: 2 * S + 7 });
    }

    #[test]
    fn failed_transactions_count_apart_and_have_no_latency() {
        let mut measurement = Measurement::new(0, Some(S), S);
        measurement.record(&TransactionRecord { outcome: Outcome::Deadlock, ..record(5, 1) });
        let measured = measurement.finish(None);
        assert_eq!(measured.throughput.failed_count, 1);
        assert_eq!(measured.latency, None);
    }

    #[test]
    fn an_interrupted_window_is_as_long_as_it_was() {
        let mut measurement = Measurement::new(0, Some(10 * S), S);
        measurement.record(&record(S / 2, 1000));
        let measured = measurement.finish(Some(2 * S + S / 2));
        assert_eq!(measured.throughput.tps, 0.4);
        let lengths: Vec<_> = measured.intervals.iter().map(|i| i.duration_ns).collect();
        assert_eq!(lengths, [S, S, S / 2]);
        assert_eq!(measured.intervals[1].latency_ns, None);
    }

    #[test]
    fn without_a_planned_end_the_last_transaction_ends_the_window() {
        let mut measurement = Measurement::new(0, None, S);
        measurement.record(&record(S, 1000));
        measurement.record(&record(2 * S - 1, 1000));
        assert_eq!(measurement.finish(None).duration_ns, 2 * S);
    }

    #[test]
    fn quantiles_and_the_mean_are_those_of_the_records() {
        let mut measurement = Measurement::new(0, Some(20 * S), S);
        for index in 1..=1000 {
            measurement.record(&record(10 * S + index, index * 1000));
        }
        let latency = measurement.finish(None).latency.unwrap();
        assert_eq!(latency.mean, 500_500);
        for (found, expected) in
            [(latency.p50, 500_000), (latency.p99, 990_000), (latency.max, 1_000_000)]
        {
            assert!(found.abs_diff(expected) * 1000 <= expected, "{found} {expected}");
        }
    }
}
