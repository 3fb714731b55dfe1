//! Log files of transactions in pgbench's formats.
//!
//! They are written from the records, by the thread that counts them: the hot loop knows nothing of
//! files. One file a worker, as pgbench writes one a thread: `PREFIX.PID`, `PREFIX.PID.1`, …

mod aggregate;
mod line;

use std::fs::File;
use std::io::{self, BufWriter, Write as _};
use std::ops::Range;
use std::path::PathBuf;

use super::engine::TransactionRecord;
use crate::clock::{Epoch, monotonic_ns};
use aggregate::Aggregate;
use line::line;

const NS_PER_US: u64 = 1_000;

/// What is logged, and which columns the other options add.
#[derive(Clone, Debug, Default)]
pub struct LogOptions {
    /// Beginning of the files' names.
    pub prefix: String,
    /// Share of the transactions that is logged; all if absent.
    pub sampling_rate: Option<f64>,
    /// A line for this many seconds instead of one a transaction.
    pub aggregate_seconds: Option<u32>,
    /// Under a rate limit: the column `schedule_lag`.
    pub throttled: bool,
    /// Under a latency limit: numbers of skipped transactions.
    pub latency_limited: bool,
    /// Transactions may be tried again: the column `retries`.
    pub retried: bool,
    /// Failures by kind instead of `failed`.
    pub failures_detailed: bool,
    /// Other failures have a column of their own among the aggregates, as pgbench 19 writes them.
    pub other_failures: bool,
}

/// A log that cannot be written.
#[derive(Debug, thiserror::Error)]
#[error("cannot write the transaction log {path}: {source}", path = .path.display())]
pub struct LogError {
    /// The file.
    pub path: PathBuf,
    /// Why.
    pub source: io::Error,
}

/// The log files of a run.
#[derive(Debug)]
pub struct Logs {
    options: LogOptions,
    /// Clients by worker.
    workers: Vec<Range<u32>>,
    files: Vec<LogFile>,
    random: fastrand::Rng,
    epoch: Epoch,
}

#[derive(Debug)]
struct LogFile {
    path: PathBuf,
    /// Absent once it could not be written.
    out: Option<BufWriter<File>>,
    aggregate: Option<Aggregate>,
}

impl Logs {
    /// Creates the files; `workers` are the clients of each.
    pub fn create(options: LogOptions, workers: &[Range<u32>]) -> Result<Self, LogError> {
        let pid = std::process::id();
        let path = |worker: usize| match worker {
            0 => PathBuf::from(format!("{}.{pid}", options.prefix)),
            worker => PathBuf::from(format!("{}.{pid}.{worker}", options.prefix)),
        };
        let files: Result<_, _> =
            (0..workers.len()).map(|worker| LogFile::create(path(worker))).collect();
        let (random, epoch) = (fastrand::Rng::new(), Epoch::now());
        Ok(Self { options, workers: workers.to_vec(), files: files?, random, epoch })
    }

    /// The measured part begins.
    pub fn begin(&mut self, start_ns: u64) {
        let Some(seconds) = self.options.aggregate_seconds else { return };
        // As pgbench does: intervals begin at a whole second.
        let start_s = self.epoch.unix_us(start_ns) / 1_000_000;
        for file in &mut self.files {
            file.aggregate = Some(Aggregate::new(start_s, seconds.into()));
        }
    }

    /// Logs a transaction. A log that cannot be written is given up; nothing else is lost by it.
    pub fn record(&mut self, record: &TransactionRecord) -> Result<(), LogError> {
        if self.options.sampling_rate.is_some_and(|rate| self.random.f64() > rate) {
            return Ok(());
        }
        let client = record.client;
        let Some(worker) = self.workers.iter().position(|clients| clients.contains(&client)) else {
            return Ok(());
        };
        let ended_us = self.epoch.unix_us(record.received_ns);
        let options = &self.options;
        self.files[worker].write(|out, aggregate| match aggregate {
            Some(aggregate) => {
                aggregate.end_intervals(ended_us, options, out)?;
                aggregate.add(record);
                Ok(())
            }
            None => line(record, ended_us, options, out),
        })
    }

    /// Writes out what is left; the first error of each file that has not been told yet.
    pub fn finish(mut self) -> Vec<LogError> {
        let now_us = self.epoch.unix_us(monotonic_ns());
        let options = &self.options;
        let finish = |file: &mut LogFile| {
            let written = file.write(|out, aggregate| {
                if let Some(aggregate) = aggregate {
                    aggregate.end_intervals(now_us, options, out)?;
                }
                out.flush()
            });
            written.err()
        };
        self.files.iter_mut().filter_map(finish).collect()
    }
}

impl LogFile {
    fn create(path: PathBuf) -> Result<Self, LogError> {
        match File::create(&path) {
            Ok(file) => Ok(Self { path, out: Some(BufWriter::new(file)), aggregate: None }),
            Err(source) => Err(LogError { path, source }),
        }
    }

    fn write(
        &mut self,
        write: impl FnOnce(&mut BufWriter<File>, Option<&mut Aggregate>) -> io::Result<()>,
    ) -> Result<(), LogError> {
        let Some(out) = &mut self.out else { return Ok(()) };
        write(out, self.aggregate.as_mut()).map_err(|source| {
            // What is in the buffer would be tried again when it is dropped.
            if let Some(out) = self.out.take() {
                drop(out.into_parts());
            }
            LogError { path: self.path.clone(), source }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::deal;
    use crate::load::engine::Outcome;

    fn record(client: u32, received_ns: u64) -> TransactionRecord {
        TransactionRecord {
            client,
            backend_pid: 1,
            script: 0,
            outcome: Outcome::Committed,
            retries_count: 0,
            sequence: 0,
            scheduled_ns: received_ns - 5000,
            sent_ns: received_ns - 5000,
            received_ns,
        }
    }

    #[test]
    fn each_worker_has_its_file_in_pgbench_s_name() {
        let directory = tempfile::tempdir().unwrap();
        let prefix = directory.path().join("log").display().to_string();
        let options = LogOptions { prefix: prefix.clone(), ..LogOptions::default() };
        let mut logs = Logs::create(options, &deal(3, 2)).unwrap();
        for client in [0, 1, 2] {
            logs.record(&record(client, monotonic_ns())).unwrap();
        }
        assert!(logs.finish().is_empty());
        let pid = std::process::id();
        let read = |path: String| std::fs::read_to_string(path).unwrap();
        let lines = |path| read(path).lines().map(|line| line[..8].to_owned()).collect::<Vec<_>>();
        assert_eq!(lines(format!("{prefix}.{pid}")), ["0 1 5 0 ", "1 1 5 0 "]);
        assert_eq!(lines(format!("{prefix}.{pid}.1")), ["2 1 5 0 "]);
    }

    #[test]
    fn a_full_disk_is_told_once() {
        let options = LogOptions { prefix: "/dev/full".to_owned(), ..LogOptions::default() };
        let file = LogFile::create("/dev/full".into()).unwrap();
        let (workers, files) = (deal(1, 1), vec![file]);
        let (random, epoch) = (fastrand::Rng::new(), Epoch::now());
        let mut logs = Logs { options, workers, files, random, epoch };
        let errors: Vec<_> =
            (0..10_000).filter_map(|_| logs.record(&record(0, monotonic_ns())).err()).collect();
        let [error] = &errors[..] else { panic!("{errors:?}") };
        assert!(error.to_string().contains("/dev/full: No space left"), "{error}");
        assert!(logs.finish().is_empty());
    }

    #[test]
    fn sampling_logs_about_the_share_asked_for() {
        let directory = tempfile::tempdir().unwrap();
        let prefix = directory.path().join("log").display().to_string();
        let sampling_rate = Some(0.25);
        let options = LogOptions { prefix: prefix.clone(), sampling_rate, ..LogOptions::default() };
        let mut logs = Logs::create(options, &deal(1, 1)).unwrap();
        logs.random = fastrand::Rng::with_seed(7);
        for _ in 0..4000 {
            logs.record(&record(0, monotonic_ns())).unwrap();
        }
        logs.finish();
        let text = std::fs::read_to_string(format!("{prefix}.{}", std::process::id())).unwrap();
        let lines = text.lines().count();
        assert!((900..1100).contains(&lines), "{lines}");
    }

    #[test]
    fn a_place_that_cannot_be_written_is_named() {
        let options = LogOptions { prefix: "/nonexistent/log".to_owned(), ..LogOptions::default() };
        let error = Logs::create(options, &deal(1, 1)).unwrap_err().to_string();
        assert!(error.contains("/nonexistent/log."), "{error}");
    }
}
