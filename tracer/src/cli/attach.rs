//! What to attach to.

use std::time::Duration;

use clap::Args;

use super::values::positive_seconds;
use super::{FilterArgs, OutputArgs, ProgramArgs};

/// `lockscope attach`.
#[derive(Debug, Args)]
#[command(mut_args = super::values::allow_negative)]
pub struct AttachArgs {
    /// Trace the whole machine; filters narrow it.
    #[arg(long)]
    pub all: bool,
    /// Trace this Postgres server, found by its port, its data directory or the pid of one of its
    /// processes, and the clients on this machine that are connected to it.
    #[arg(long, value_name = "PORT|DIR|PID", conflicts_with = "all")]
    pub postgres: Option<String>,
    /// Seconds to trace [default: until Ctrl-C].
    #[arg(short = 'T', long, value_name = "SECONDS", value_parser = positive_seconds)]
    pub time: Option<Duration>,
    /// What to narrow the trace to.
    #[command(flatten)]
    pub filter: FilterArgs,
    /// The programs.
    #[command(flatten)]
    pub programs: ProgramArgs,
    /// What to print and save.
    #[command(flatten)]
    pub output: OutputArgs,
}
