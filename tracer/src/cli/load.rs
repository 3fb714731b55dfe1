//! What to run.

use std::time::Duration;

use clap::Args;

use super::sysbench::SysbenchArgs;
use super::values::{
    at_least_one, latency_limit, milliseconds, positive_seconds, random_seed, rate, seconds,
};
use crate::load::Io;
use crate::load::cpus::CpuList;
use crate::load::workload::{Protocol, Workload};

/// What to run.
#[derive(Debug, Args)]
#[command(next_help_heading = "Load")]
pub struct LoadArgs {
    /// Built-in workload, tpcb-like by default; `lockscope workloads` lists them.
    #[arg(long, value_name = "NAME", value_parser = str::parse::<&'static Workload>)]
    pub workload: Option<&'static Workload>,
    /// Select-only workload, as pgbench -S.
    #[arg(short = 'S', long, conflicts_with = "workload")]
    pub select_only: bool,
    /// The simple-update workload, as pgbench -N.
    #[arg(short = 'N', long, conflicts_with_all = ["workload", "select_only"])]
    pub skip_some_updates: bool,
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
    /// The workload that the options name.
    pub fn workload(&self) -> &'static Workload {
        if self.select_only {
            return Workload::select(self.protocol.unwrap_or(Protocol::Simple));
        }
        let default =
            if self.skip_some_updates { Workload::SIMPLE_UPDATE } else { Workload::TPCB_LIKE };
        self.workload.unwrap_or(default).with_sysbench_options(&self.sysbench.options())
    }
}
