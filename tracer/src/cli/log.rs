//! Log files of transactions, as pgbench writes them.

use std::time::Duration;

use clap::Args;

use super::values::{at_least_one, sampling_rate};

/// Log files of transactions, as pgbench writes them.
#[derive(Debug, Args)]
#[command(next_help_heading = "Transaction logs (pgbench's formats)")]
pub struct LogArgs {
    /// Write a line a transaction to PREFIX.PID, and PREFIX.PID.N for worker N.
    #[arg(short, long)]
    pub log: bool,
    /// Prefix of the log files' names [default: pgbench_log].
    #[arg(long, value_name = "PREFIX", requires = "log")]
    pub log_prefix: Option<String>,
    /// Log this share of the transactions, more than 0 and at most 1.
    #[arg(long, value_name = "SHARE", requires = "log", conflicts_with = "aggregate_interval", value_parser = sampling_rate)]
    pub sampling_rate: Option<f64>,
    /// Log a line for this many seconds instead of one a transaction.
    #[arg(long, value_name = "SECONDS", requires = "log", value_parser = at_least_one)]
    pub aggregate_interval: Option<u32>,
}

/// Options that contradict each other.
#[derive(Debug, thiserror::Error)]
pub enum LogArgsError {
    /// Not one interval would be complete.
    #[error(
        "--aggregate-interval {interval} is longer than the run (-T {time}): not one interval would be logged; use a shorter one"
    )]
    Longer {
        /// Seconds.
        interval: u32,
        /// Seconds.
        time: f64,
    },
    /// The last interval would be cut.
    #[error(
        "-T {time} is not a multiple of --aggregate-interval {interval}: the last interval would be cut short; change one of them"
    )]
    NoMultiple {
        /// Seconds.
        interval: u32,
        /// Seconds.
        time: f64,
    },
}

impl LogArgs {
    /// Beginning of the files' names.
    pub fn prefix(&self) -> &str {
        self.log_prefix.as_deref().unwrap_or("pgbench_log")
    }

    /// Refuses intervals that do not fit `duration`, as pgbench does.
    pub fn check(&self, duration: Option<Duration>) -> Result<(), LogArgsError> {
        let (Some(interval), Some(duration)) = (self.aggregate_interval, duration) else {
            return Ok(());
        };
        let length = Duration::from_secs(interval.into());
        let time = duration.as_secs_f64();
        if length > duration {
            return Err(LogArgsError::Longer { interval, time });
        }
        if duration.as_nanos() % length.as_nanos() != 0 {
            return Err(LogArgsError::NoMultiple { interval, time });
        }
        Ok(())
    }
}
