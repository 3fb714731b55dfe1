//! A line a transaction:
//! `client transaction time script epoch_seconds epoch_microseconds [lag] [retries]`.

use std::io::{self, Write};

use super::{LogOptions, NS_PER_US};
use crate::load::engine::{Outcome, TransactionRecord};

/// Writes the line of a transaction that ended at `ended_us` of Unix time.
pub(super) fn line(
    record: &TransactionRecord,
    ended_us: u64,
    options: &LogOptions,
    out: &mut impl Write,
) -> io::Result<()> {
    write!(out, "{} {} ", record.client, record.sequence + 1)?;
    match word(record.outcome, options) {
        None => write!(out, "{}", record.latency_ns() / NS_PER_US)?,
        Some(word) => write!(out, "{word}")?,
    }
    write!(out, " {} {} {}", record.script, ended_us / 1_000_000, ended_us % 1_000_000)?;
    if options.throttled {
        // Only what succeeded has a lag.
        let committed = record.outcome == Outcome::Committed;
        write!(out, " {}", if committed { record.lag_ns() / NS_PER_US } else { 0 })?;
    }
    if options.retried {
        write!(out, " {}", record.retries_count)?;
    }
    writeln!(out)
}

/// What stands in the place of the time.
fn word(outcome: Outcome, options: &LogOptions) -> Option<&'static str> {
    match outcome {
        Outcome::Committed => None,
        Outcome::Skipped => Some("skipped"),
        _ if !options.failures_detailed => Some("failed"),
        Outcome::SerializationFailure => Some("serialization"),
        Outcome::Deadlock => Some("deadlock"),
        Outcome::OtherFailure(_) => Some("other"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::engine::SqlState;

    fn of(outcome: Outcome, options: &LogOptions) -> String {
        let record = TransactionRecord {
            client: 3,
            backend_pid: 1,
            script: 2,
            outcome,
            retries_count: 4,
            sequence: 198,
            scheduled_ns: 1_000_000,
            sent_ns: 1_007_999,
            received_ns: 3_241_000,
        };
        let mut out = Vec::new();
        line(&record, 1_175_850_568_000_598, options, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    /// The columns of pgbench 15's manual and of its own logs.
    #[test]
    fn columns_come_with_their_options() {
        let plain = LogOptions::default();
        assert_eq!(of(Outcome::Committed, &plain), "3 199 2241 2 1175850568 598\n");
        assert_eq!(of(Outcome::Deadlock, &plain), "3 199 failed 2 1175850568 598\n");
        let all = LogOptions {
            throttled: true,
            retried: true,
            failures_detailed: true,
            ..LogOptions::default()
        };
        let other = Outcome::OtherFailure(SqlState::new("22012"));
        for (outcome, time, lag) in [
            (Outcome::Committed, "2241", 7),
            (Outcome::Deadlock, "deadlock", 0),
            (Outcome::SerializationFailure, "serialization", 0),
            (other, "other", 0),
            (Outcome::Skipped, "skipped", 0),
        ] {
            assert_eq!(of(outcome, &all), format!("3 199 {time} 2 1175850568 598 {lag} 4\n"));
        }
    }
}
