//! A line an interval. The columns are those of pgbench 15 to 18, always all fifteen:
//! `start count sum sum2 min max lag_sum lag_sum2 lag_min lag_max skipped retried retries
//! serialization deadlock`; pgbench 19 adds `other`. Times are microseconds.

use std::io::{self, Write};

use super::{LogOptions, NS_PER_US};
use crate::load::engine::{Outcome, TransactionRecord};
use crate::load::tally::Sum;

const US_PER_S: u64 = 1_000_000;

#[derive(Debug, Default)]
pub(super) struct Aggregate {
    start_s: u64,
    seconds: u64,
    counts: Counts,
}

#[derive(Debug, Default)]
struct Counts {
    latency: Sum,
    lag: Sum,
    skipped: u64,
    retried: u64,
    retries: u64,
    serialization: u64,
    deadlock: u64,
    other: u64,
}

impl Aggregate {
    /// Intervals of `seconds` from `start_s` of Unix time on.
    pub(super) fn new(start_s: u64, seconds: u64) -> Self {
        Self { start_s, seconds: seconds.max(1), counts: Counts::default() }
    }

    /// Writes the intervals that have ended by `now_us`; those without a transaction too.
    pub(super) fn end_intervals(
        &mut self,
        now_us: u64,
        options: &LogOptions,
        out: &mut impl Write,
    ) -> io::Result<()> {
        while (self.start_s + self.seconds) * US_PER_S <= now_us {
            let counts = std::mem::take(&mut self.counts);
            counts.write(self.start_s, options, out)?;
            self.start_s += self.seconds;
        }
        Ok(())
    }

    /// Counts a transaction.
    pub(super) fn add(&mut self, record: &TransactionRecord) {
        let counts = &mut self.counts;
        if record.outcome != Outcome::Skipped && record.retries_count > 0 {
            counts.retried += 1;
            counts.retries += u64::from(record.retries_count);
        }
        match record.outcome {
            Outcome::Committed => {
                counts.latency.add((record.latency_ns() / NS_PER_US) as f64);
                counts.lag.add((record.lag_ns() / NS_PER_US) as f64);
            }
            Outcome::Skipped => counts.skipped += 1,
            Outcome::SerializationFailure => counts.serialization += 1,
            Outcome::Deadlock => counts.deadlock += 1,
            Outcome::OtherFailure(_) => counts.other += 1,
        }
    }
}

impl Counts {
    /// A column whose option was not given is 0.
    fn write(&self, start_s: u64, options: &LogOptions, out: &mut impl Write) -> io::Result<()> {
        let only_if = |wanted: bool, count: u64| if wanted { count } else { 0 };
        let lag = if options.throttled { self.lag } else { Sum::default() };
        write!(out, "{start_s} {}", self.latency.count)?;
        for sum in [self.latency, lag] {
            let Sum { sum, squares, min, max, .. } = sum;
            write!(out, " {sum:.0} {squares:.0} {min:.0} {max:.0}")?;
        }
        let detailed = options.failures_detailed;
        let columns = [
            only_if(options.latency_limited, self.skipped),
            only_if(options.retried, self.retried),
            only_if(options.retried, self.retries),
            only_if(detailed, self.serialization),
            only_if(detailed, self.deadlock),
        ];
        for column in columns {
            write!(out, " {column}")?;
        }
        if options.other_failures {
            write!(out, " {}", only_if(detailed, self.other))?;
        }
        writeln!(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(outcome: Outcome, latency_us: u64, retries_count: u32) -> TransactionRecord {
        TransactionRecord {
            client: 0,
            backend_pid: 1,
            script: 0,
            outcome,
            retries_count,
            sequence: 0,
            scheduled_ns: 1000,
            sent_ns: 3000,
            received_ns: 1000 + latency_us * 1000,
        }
    }

    fn lines(options: &LogOptions) -> Vec<String> {
        let mut aggregate = Aggregate::new(100, 2);
        let mut out = Vec::new();
        let mut at = |seconds: u64, record: TransactionRecord| {
            aggregate.end_intervals(seconds * US_PER_S, options, &mut out).unwrap();
            aggregate.add(&record);
        };
        at(100, record(Outcome::Committed, 10, 0));
        at(101, record(Outcome::Committed, 30, 3));
        at(101, record(Outcome::Deadlock, 30, 1));
        at(101, record(Outcome::Skipped, 0, 0));
        // Nothing ended in 102 and 103.
        at(104, record(Outcome::Committed, 7, 0));
        aggregate.end_intervals(105 * US_PER_S, options, &mut out).unwrap();
        String::from_utf8(out).unwrap().lines().map(str::to_owned).collect()
    }

    #[test]
    fn each_interval_has_a_line_and_the_last_that_is_not_over_has_none() {
        let plain = LogOptions::default();
        assert_eq!(
            lines(&plain),
            ["100 2 40 1000 10 30 0 0 0 0 0 0 0 0 0", "102 0 0 0 0 0 0 0 0 0 0 0 0 0 0"]
        );
    }

    #[test]
    fn options_fill_their_columns() {
        let all = LogOptions {
            throttled: true,
            latency_limited: true,
            retried: true,
            failures_detailed: true,
            other_failures: true,
            ..LogOptions::default()
        };
        assert_eq!(lines(&all)[0], "100 2 40 1000 10 30 4 8 2 2 1 2 4 0 1 0");
    }
}
