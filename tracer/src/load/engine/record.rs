//! One record a transaction, and its way out of the hot path.
//!
//! A worker fills a buffer and hands it over when it is full or old; the consumer hands emptied
//! buffers back. A worker allocates a buffer only when the consumer holds all the others, so memory
//! follows the consumer's lag, not the length of the run.

use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};

/// Records a buffer holds; at 100,000 transactions a second it lasts 40 ms.
const BUFFER_RECORDS: usize = 4096;

/// How a transaction ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Every statement succeeded.
    Committed,
    /// SQLSTATE 40001.
    SerializationFailure,
    /// SQLSTATE 40P01.
    Deadlock,
    /// Another SQLSTATE, where the clients go on all the same (`--continue-on-error`).
    OtherFailure(SqlState),
    /// Never begun: under a rate limit it was already later than the latency limit allows.
    Skipped,
}

impl Outcome {
    /// Begun, and not committed.
    pub fn is_failure(self) -> bool {
        self.sqlstate().is_some()
    }

    /// Of a failure.
    pub fn sqlstate(self) -> Option<SqlState> {
        match self {
            Self::Committed | Self::Skipped => None,
            Self::SerializationFailure => Some(SqlState(*b"40001")),
            Self::Deadlock => Some(SqlState(*b"40P01")),
            Self::OtherFailure(sqlstate) => Some(sqlstate),
        }
    }
}

/// A SQLSTATE: five characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SqlState([u8; 5]);

impl SqlState {
    /// Of the five ASCII characters that a server sent; anything else becomes `?????`.
    pub fn new(text: &str) -> Self {
        let bytes = text.as_bytes().try_into().ok().filter(|bytes: &[u8; 5]| bytes.is_ascii());
        Self(bytes.unwrap_or(*b"?????"))
    }

    /// The five characters.
    pub fn as_str(&self) -> &str {
        str::from_utf8(&self.0).unwrap_or("?????")
    }
}

impl std::fmt::Display for SqlState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// One transaction. Times are on CLOCK_MONOTONIC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransactionRecord {
    /// Number of its client, from 0.
    pub client: u32,
    /// Process id of its backend, in the server's pid namespace.
    pub backend_pid: u32,
    /// Number of its script, from 0.
    pub script: u32,
    /// How it ended.
    pub outcome: Outcome,
    /// Attempts after the first.
    pub retries_count: u32,
    /// Number of the transaction on its client, from 0.
    pub sequence: u64,
    /// When it was due: its begin, unless a rate limit says otherwise.
    pub scheduled_ns: u64,
    /// When it began: just before its first request was made and sent.
    pub sent_ns: u64,
    /// Just after its last reply was received.
    pub received_ns: u64,
}

impl TransactionRecord {
    /// Client-side latency.
    pub fn latency_ns(&self) -> u64 {
        self.received_ns.saturating_sub(self.scheduled_ns)
    }

    /// How much later than due it began.
    pub fn lag_ns(&self) -> u64 {
        self.sent_ns.saturating_sub(self.scheduled_ns)
    }
}

type Buffer = Vec<TransactionRecord>;

/// The worker's end.
#[derive(Debug)]
pub(crate) struct RecordWriter {
    current: Buffer,
    full: Sender<Buffer>,
    empty: Receiver<Buffer>,
}

/// The consumer's end.
#[derive(Debug)]
pub(crate) struct RecordReader {
    full: Receiver<Buffer>,
    empty: Sender<Buffer>,
}

/// A worker's end and its consumer's end.
pub(crate) fn record_channel() -> (RecordWriter, RecordReader) {
    let (full_sender, full_receiver) = channel();
    let (empty_sender, empty_receiver) = channel();
    let current = Vec::with_capacity(BUFFER_RECORDS);
    (
        RecordWriter { current, full: full_sender, empty: empty_receiver },
        RecordReader { full: full_receiver, empty: empty_sender },
    )
}

impl RecordWriter {
    #[inline]
    pub(crate) fn push(&mut self, record: TransactionRecord) {
        self.current.push(record);
        if self.current.len() == BUFFER_RECORDS {
            self.hand_over();
        }
    }

    /// Gives what there is to the consumer.
    pub(crate) fn hand_over(&mut self) {
        if self.current.is_empty() {
            return;
        }
        let next = self.empty.try_recv().unwrap_or_else(|_| Vec::with_capacity(BUFFER_RECORDS));
        let filled = std::mem::replace(&mut self.current, next);
        // Without a consumer nobody misses the records.
        drop(self.full.send(filled));
    }
}

impl Drop for RecordWriter {
    fn drop(&mut self) {
        self.hand_over();
    }
}

impl RecordReader {
    /// Calls `on_record` for everything that was handed over; returns false once the worker is gone
    /// and nothing is left.
    pub(crate) fn drain(&mut self, on_record: &mut dyn FnMut(&TransactionRecord)) -> bool {
        loop {
            match self.full.try_recv() {
                Ok(mut buffer) => {
                    buffer.iter().for_each(&mut *on_record);
                    buffer.clear();
                    // A worker that has ended needs no buffer.
                    drop(self.empty.send(buffer));
                }
                Err(TryRecvError::Empty) => return true,
                Err(TryRecvError::Disconnected) => return false,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(sequence: u64) -> TransactionRecord {
        TransactionRecord {
            client: 0,
            backend_pid: 1,
            script: 0,
            outcome: Outcome::Committed,
            retries_count: 0,
            sequence,
            scheduled_ns: 10,
            sent_ns: 20,
            received_ns: 50,
        }
    }

    #[test]
    fn every_record_arrives_once_and_in_order() {
        let (mut writer, mut reader) = record_channel();
        let total = 3 * BUFFER_RECORDS as u64 + 7;
        let mut seen = Vec::new();
        for sequence in 0..total {
            writer.push(record(sequence));
            if sequence % 5000 == 0 {
                assert!(reader.drain(&mut |record| seen.push(record.sequence)));
            }
        }
        drop(writer);
        assert!(!reader.drain(&mut |record| seen.push(record.sequence)));
        assert_eq!(seen, (0..total).collect::<Vec<_>>());
    }

    #[test]
    fn buffers_are_used_again() {
        let (mut writer, mut reader) = record_channel();
        let mut addresses = std::collections::BTreeSet::new();
        for sequence in 0..20 * BUFFER_RECORDS as u64 {
            writer.push(record(sequence));
            addresses.insert(writer.current.as_ptr());
            reader.drain(&mut |_| {});
        }
        assert!(addresses.len() <= 2, "{} buffers", addresses.len());
    }

    #[test]
    fn latency_counts_from_the_schedule() {
        assert_eq!(record(0).latency_ns(), 40);
    }
}
