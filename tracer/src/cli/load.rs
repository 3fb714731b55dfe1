//! What to run.

use std::time::Duration;

use clap::Args;

use super::scripts::{ScriptArgs, Shown, shown};
use super::sysbench::SysbenchArgs;
use super::values::{
    at_least_one, latency_limit, milliseconds, positive_seconds, random_seed, rate, seconds,
};
use crate::load::Io;
use crate::load::cpus::CpuList;
use crate::load::script::Definition;
use crate::load::workload::Protocol;

/// What to run.
#[derive(Debug, Args)]
#[command(next_help_heading = "Load")]
pub struct LoadArgs {
    /// Which scripts.
    #[command(flatten)]
    pub scripts: ScriptArgs,
    /// How statements travel; simple unless the workload's name says otherwise.
    #[arg(short = 'M', long, value_name = "PROTOCOL")]
    pub protocol: Option<Protocol>,
    /// Concurrent connections.
    #[arg(short, long, value_name = "N", default_value = "1", value_parser = at_least_one)]
    pub client: u32,
    /// Worker threads; by default one a CPU that they may use, at most one a client.
    #[arg(short, long, value_name = "N", value_parser = at_least_one)]
    pub jobs: Option<u32>,
    /// Measured time in seconds.
    #[arg(short = 'T', long, value_name = "SECONDS", default_value = "10", value_parser = positive_seconds)]
    pub time: Duration,
    /// Transactions each client runs, instead of a time.
    #[arg(short, long, value_name = "N", conflicts_with = "time", value_parser = at_least_one)]
    pub transactions: Option<u32>,
    /// A new connection for each transaction.
    #[arg(short = 'C', long)]
    pub connect: bool,
    /// Transactions a second that all clients together begin, at irregular times; latency counts
    /// from when a transaction is due.
    #[arg(short = 'R', long, value_name = "TPS", value_parser = rate)]
    pub rate: Option<f64>,
    /// Count transactions that take longer than this many milliseconds; with -R skip those that
    /// are later than that before they begin.
    #[arg(short = 'L', long, value_name = "MS", value_parser = latency_limit)]
    pub latency_limit: Option<Duration>,
    /// Pause of each client between two transactions, in milliseconds.
    #[arg(long, value_name = "MS", value_parser = milliseconds, conflicts_with = "rate")]
    pub think_time: Option<Duration>,
    /// Let the clients begin one after another in the course of this many seconds.
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub ramp: Option<Duration>,
    /// Seconds to run before measuring [default: 2 for run, 0 for load and with -t].
    #[arg(long, value_name = "SECONDS", conflicts_with = "transactions", value_parser = seconds)]
    pub warmup: Option<Duration>,
    /// Define a variable of the scripts (may be repeated).
    #[arg(short = 'D', long = "define", value_name = "NAME=VALUE")]
    pub definitions: Vec<Definition>,
    /// Try transactions that fail with a serialization failure or a deadlock up to so many times; 0
    /// for as long as -T or -L allow.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub max_tries: u32,
    /// Let clients survive any error of a statement; its transaction counts as failed.
    #[arg(long)]
    pub continue_on_error: bool,
    /// Tell failures by kind, in the report and in the logs.
    #[arg(long)]
    pub failures_detailed: bool,
    /// Tell each error of a statement on standard error.
    #[arg(long)]
    pub verbose_errors: bool,
    /// Report the latency and the failures of each command of the scripts.
    #[arg(short = 'r', long, visible_alias = "report-latencies")]
    pub report_per_command: bool,
    /// Let scripts run shell commands (\\shell, \\setshell).
    #[arg(long)]
    pub allow_shell: bool,
    /// Unix time in progress lines, instead of the time since the beginning.
    #[arg(long, conflicts_with = "quiet", help_heading = "Output")]
    pub progress_timestamp: bool,
    /// Print a built-in script, or the list of them, and do nothing else.
    #[arg(long, value_name = "NAME|list", value_parser = shown)]
    pub show_script: Option<Shown>,
    /// End the run as soon as a client gives up.
    #[arg(long)]
    pub exit_on_abort: bool,
    /// Seed of the random values: a number, `time` or `rand`.
    #[arg(long, value_name = "SEED", default_value = "rand", value_parser = random_seed)]
    pub random_seed: u64,
    /// How sockets are driven: `epoll` (exact times of sending; the default of run), `uring`
    /// (io_uring: less CPU time; the default of load where the kernel has it).
    #[arg(long, value_name = "DRIVER")]
    pub io: Option<Io>,
    /// CPUs for the worker threads, as in 0,2-3.
    #[arg(long, value_name = "CPUS")]
    pub pin_client: Option<CpuList>,
    /// CPUs for the embedded server.
    #[arg(long, value_name = "CPUS")]
    pub pin_server: Option<CpuList>,
    /// The tables of sysbench's workloads.
    #[command(flatten)]
    pub sysbench: SysbenchArgs,
}

impl LoadArgs {
    /// What to print instead of a run.
    pub fn shown(&self) -> Option<Shown> {
        self.show_script.or(self.scripts.list.then_some(Shown::List))
    }
}
