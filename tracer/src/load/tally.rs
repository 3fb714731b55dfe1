//! What is counted of a run, or of one script in it, in pgbench's categories.

use std::collections::BTreeMap;

use super::engine::{Outcome, SqlState, TransactionRecord};

/// Transactions by how they ended. Times are nanoseconds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tally {
    /// Failures by SQLSTATE.
    pub failures: BTreeMap<SqlState, u64>,
    /// Never begun, for they were too late already.
    pub skipped_count: u64,
    /// Tried more than once, however they ended.
    pub retried_count: u64,
    /// Tries after each first one.
    pub retries_count: u64,
    /// Successful, and longer than the latency limit.
    pub late_count: u64,
    /// Latencies of the successful ones.
    pub latency: Sum,
    /// How much later than due the successful ones began.
    pub lag: Sum,
}

/// Sums of some values.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sum {
    /// How many.
    pub count: u64,
    /// Their sum.
    pub sum: f64,
    /// The sum of their squares.
    pub squares: f64,
    /// The smallest, 0 of none.
    pub min: f64,
    /// The largest, 0 of none.
    pub max: f64,
}

impl Tally {
    /// Counts a transaction.
    pub fn add(&mut self, record: &TransactionRecord, latency_limit_ns: Option<u64>) {
        if record.outcome == Outcome::Skipped {
            self.skipped_count += 1;
            return;
        }
        if record.retries_count > 0 {
            self.retried_count += 1;
            self.retries_count += u64::from(record.retries_count);
        }
        if let Some(sqlstate) = record.outcome.sqlstate() {
            *self.failures.entry(sqlstate).or_default() += 1;
            return;
        }
        self.latency.add(record.latency_ns() as f64);
        self.lag.add(record.lag_ns() as f64);
        if latency_limit_ns.is_some_and(|limit_ns| record.latency_ns() > limit_ns) {
            self.late_count += 1;
        }
    }

    /// All of several tallies.
    pub fn of_all(tallies: &[Self]) -> Self {
        let mut all = Self::default();
        for tally in tallies {
            for (sqlstate, count) in &tally.failures {
                *all.failures.entry(*sqlstate).or_default() += count;
            }
            all.skipped_count += tally.skipped_count;
            all.retried_count += tally.retried_count;
            all.retries_count += tally.retries_count;
            all.late_count += tally.late_count;
            all.latency.add_all(&tally.latency);
            all.lag.add_all(&tally.lag);
        }
        all
    }

    /// Successful transactions.
    pub fn committed_count(&self) -> u64 {
        self.latency.count
    }

    /// Failed ones.
    pub fn failed_count(&self) -> u64 {
        self.failures.values().sum()
    }
}

impl Sum {
    /// Adds a value.
    pub fn add(&mut self, value: f64) {
        if self.count == 0 || value < self.min {
            self.min = value;
        }
        if self.count == 0 || value > self.max {
            self.max = value;
        }
        self.count += 1;
        self.sum += value;
        self.squares += value * value;
    }

    /// Adds the values of another sum.
    fn add_all(&mut self, other: &Self) {
        if other.count == 0 {
            return;
        }
        let is_first = self.count == 0;
        self.min = if is_first { other.min } else { self.min.min(other.min) };
        self.max = if is_first { other.max } else { self.max.max(other.max) };
        self.count += other.count;
        self.sum += other.sum;
        self.squares += other.squares;
    }

    /// Their mean, of any.
    pub fn mean(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum / self.count as f64)
    }

    /// Their standard deviation, of any.
    pub fn stddev(&self) -> Option<f64> {
        let mean = self.mean()?;
        Some((self.squares / self.count as f64 - mean * mean).max(0.0).sqrt())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(outcome: Outcome, latency_ns: u64, retries_count: u32) -> TransactionRecord {
        TransactionRecord {
            client: 0,
            backend_pid: 1,
            script: 0,
            outcome,
            retries_count,
            sequence: 0,
            scheduled_ns: 100,
            sent_ns: 130,
            received_ns: 100 + latency_ns,
        }
    }

    #[test]
    fn several_tallies_are_one() {
        let records = [
            record(Outcome::Committed, 7, 0),
            record(Outcome::Deadlock, 1, 2),
            record(Outcome::Committed, 3, 1),
            record(Outcome::Skipped, 0, 0),
            record(Outcome::Deadlock, 1, 0),
        ];
        let (mut whole, mut parts) = (Tally::default(), [const { Vec::new() }; 3]);
        for (index, record) in records.iter().enumerate() {
            whole.add(record, Some(5));
            parts[index % 2].push(record);
        }
        let parts = parts.map(|records: Vec<&TransactionRecord>| {
            let mut tally = Tally::default();
            records.into_iter().for_each(|record| tally.add(record, Some(5)));
            tally
        });
        assert_eq!(Tally::of_all(&parts), whole);
    }

    #[test]
    fn everything_is_counted_once_in_pgbench_s_categories() {
        let mut tally = Tally::default();
        let other = Outcome::OtherFailure(SqlState::new("22012"));
        for (outcome, latency_ns, retries) in [
            (Outcome::Committed, 1000, 0),
            (Outcome::Committed, 3000, 2),
            (Outcome::Deadlock, 900, 3),
            (Outcome::SerializationFailure, 900, 0),
            (other, 900, 0),
            (other, 900, 0),
            (Outcome::Skipped, 0, 0),
        ] {
            tally.add(&record(outcome, latency_ns, retries), Some(2000));
        }
        assert_eq!((tally.committed_count(), tally.failed_count()), (2, 4));
        assert_eq!((tally.skipped_count, tally.late_count), (1, 1));
        assert_eq!((tally.retried_count, tally.retries_count), (2, 5));
        let failures: Vec<_> = tally.failures.iter().map(|(s, n)| (s.as_str(), *n)).collect();
        assert_eq!(failures, [("22012", 2), ("40001", 1), ("40P01", 1)]);
        assert_eq!(tally.latency.mean(), Some(2000.0));
        assert_eq!(tally.latency.stddev(), Some(1000.0));
        assert_eq!((tally.latency.min, tally.latency.max), (1000.0, 3000.0));
        assert_eq!(tally.lag.mean(), Some(30.0));
    }

    #[test]
    fn nothing_has_no_mean() {
        assert_eq!((Sum::default().mean(), Sum::default().stddev()), (None, None));
    }
}
