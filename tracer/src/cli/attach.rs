//! What to attach to.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::values::{interval, positive_seconds, secret};
use super::{FilterArgs, OutputArgs, ProgramArgs};
use crate::commands::report::TasksArgs;
use crate::load::Secret;

/// `lockscope attach`.
#[derive(Debug, Args)]
#[command(mut_args = super::values::allow_negative)]
pub struct AttachArgs {
    /// Trace the whole machine; filters narrow it.
    #[arg(long)]
    pub all: bool,
    /// Trace this Postgres server, found by its port, its data directory or the pid of one of its
    /// processes, and the clients on this machine that are connected to it. May be given several
    /// times.
    #[arg(long, value_name = "PORT|DIR|PID", conflicts_with = "all")]
    pub postgres: Vec<String>,
    /// Seconds to trace [default: until Ctrl-C, or the end of the command or target].
    #[arg(short = 'T', long, value_name = "SECONDS", value_parser = positive_seconds)]
    pub time: Option<Duration>,
    /// Read pgbench's or sysbench's progress lines from this file as it grows, and compare.
    #[arg(long, value_name = "FILE", conflicts_with = "client")]
    pub progress_from: Option<PathBuf>,
    /// Look at pg_stat_activity and pg_stat_statements meanwhile, in a session of this connection
    /// string that only reads.
    #[arg(long, value_name = "DSN", value_parser = secret)]
    pub dsn: Option<Secret>,
    /// Seconds between two looks at pg_stat_activity, at least 0.1.
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = interval, requires = "dsn")]
    pub view_interval: Duration,
    /// What to narrow the trace to.
    #[command(flatten)]
    pub filter: FilterArgs,
    /// The programs.
    #[command(flatten)]
    pub programs: ProgramArgs,
    /// What to print and save.
    #[command(flatten)]
    pub output: OutputArgs,
    /// Whom the report lists.
    #[command(flatten)]
    pub tasks: TasksArgs,
    /// Start this command as the user who called sudo, trace it from its first instruction to its
    /// end, and exit with its code. The report goes to standard error.
    #[arg(last = true, value_name = "COMMAND", conflicts_with_all = ["pid", "tid", "comm", "cgroup", "container"])]
    pub client: Vec<String>,
}
