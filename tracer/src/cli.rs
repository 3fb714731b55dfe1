//! The command line.
//!
//! Options that pgbench users know keep pgbench's letters, long names and meaning.

use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgAction, Args, Parser, Subcommand};

use crate::commands::doctor::DoctorArgs;
use crate::commands::report::{LayoutArgs, ReportArgs};
use crate::load::cpus::CpuList;
use crate::load::workload::{Protocol, Workload};
use crate::load::{Secret, ServerOptions};
use crate::probe::ProbeArgs;

/// Longest time that an option takes; clocks count nanoseconds in 64 bits.
const MAX_SECONDS: f64 = 365.0 * 24.0 * 3600.0;

/// eBPF lock contention tracer for Postgres benchmarks.
#[derive(Debug, Parser)]
#[command(name = "lockscope", version, disable_help_flag = true, disable_help_subcommand = true)]
#[command(propagate_version = true, arg_required_else_help = true)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
    /// Print debug messages to standard error.
    #[arg(long, global = true)]
    pub debug: bool,
    /// Print help.
    #[arg(long, global = true, action = ArgAction::Help)]
    help: Option<bool>,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run a pgbench-style load and report where the kernel's locks made it wait.
    Run(Box<RunArgs>),
    /// Tell what can be traced on this machine, how, and what would improve it.
    Doctor(DoctorArgs),
    /// Show a saved run again, as text or JSON.
    Report(ReportArgs),
}

/// `lockscope run`.
#[derive(Debug, Args)]
pub struct RunArgs {
    /// What to run.
    #[command(flatten)]
    pub load: LoadArgs,
    /// Where to run it.
    #[command(flatten)]
    pub server: ServerArgs,
    /// The tables.
    #[command(flatten)]
    pub tables: TableArgs,
    /// What to print and save.
    #[command(flatten)]
    pub output: OutputArgs,
    /// How to trace meanwhile.
    #[command(flatten)]
    pub trace: TraceArgs,
}

/// How to trace.
#[derive(Debug, Args)]
#[command(next_help_heading = "Tracing")]
pub struct TraceArgs {
    /// Measure the load only, without eBPF.
    #[arg(long)]
    pub no_trace: bool,
    /// Which hooks to use.
    #[command(flatten)]
    pub probes: ProbeArgs,
    /// Trace this process too, with an account for each thread (may be repeated): a pooler, a
    /// noisy neighbour.
    #[arg(long, value_name = "PID")]
    pub also_pid: Vec<u32>,
    /// Keep the programs on all the time: lockscope's own cost is then not measured.
    #[arg(long)]
    pub no_control: bool,
    /// Print what the eBPF programs log: tasks that join and leave, and what has no room.
    #[arg(long)]
    pub bpf_log: bool,
    /// Take the stack of every wait of at least this many microseconds.
    #[arg(long, value_name = "US", default_value = "20", value_parser = microseconds)]
    pub sample_above: Duration,
    /// Of shorter waits, take the stack of one in this many (0: of none).
    #[arg(long, value_name = "N", default_value = "16")]
    pub sample_every: u32,
    /// Room for this many traced tasks [default: 4096, more for more clients].
    #[arg(long, value_name = "N", value_parser = at_least_one)]
    pub max_tasks: Option<u32>,
    /// Room for this many contended locks, by class and side [default: 8192, less on many CPUs].
    #[arg(long, value_name = "N", value_parser = at_least_one)]
    pub max_locks: Option<u32>,
    /// Bytes of the buffer in which samples wait to be read, a power of two of at least 4096
    /// [default: 1048576].
    #[arg(long, value_name = "BYTES", value_parser = ring_bytes)]
    pub ring_bytes: Option<u32>,
}

/// What to run.
#[derive(Debug, Args)]
#[command(next_help_heading = "Load")]
pub struct LoadArgs {
    /// Built-in workload: select-prepared, select-simple, select-extended, tpcb-like (the default)
    /// or simple-update.
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
    /// Seconds to run before measuring [default: 2; with -t none].
    #[arg(long, value_name = "SECONDS", conflicts_with = "transactions", value_parser = seconds)]
    pub warmup: Option<Duration>,
    /// Seed of the random values: a number, `time` or `rand`.
    #[arg(long, value_name = "SEED", default_value = "rand", value_parser = random_seed)]
    pub random_seed: u64,
    /// CPUs for the worker threads, as in 0,2-3.
    #[arg(long, value_name = "CPUS")]
    pub pin_client: Option<CpuList>,
    /// CPUs for the embedded server.
    #[arg(long, value_name = "CPUS")]
    pub pin_server: Option<CpuList>,
}

/// Where to run it. Without any of these and without PG* variables lockscope makes a throw-away
/// server.
#[derive(Debug, Args)]
#[command(next_help_heading = "Server (without these and PG* variables: a throw-away one)")]
pub struct ServerArgs {
    /// Connection string: key=value pairs or a URL.
    #[arg(long, value_name = "DSN", value_parser = secret, conflicts_with_all = ["host", "port", "username", "dbname"])]
    pub dsn: Option<Secret>,
    /// Host name, or directory of the server's socket.
    #[arg(short, long)]
    pub host: Option<String>,
    /// Port.
    #[arg(short, long)]
    pub port: Option<u16>,
    /// User name.
    #[arg(short = 'U', long, value_name = "NAME")]
    pub username: Option<String>,
    /// Database.
    #[arg(short, long, value_name = "NAME")]
    pub dbname: Option<String>,
    /// Directory to make the throw-away server in [default: the temporary directory].
    #[arg(long, value_name = "DIR")]
    pub data_dir: Option<PathBuf>,
}

/// The tables.
#[derive(Debug, Args)]
#[command(next_help_heading = "Tables")]
pub struct TableArgs {
    /// Scale factor [default: that of the tables, 1 for new ones].
    #[arg(short, long, value_name = "N", value_parser = at_least_one)]
    pub scale: Option<u32>,
    /// Use the tables that are there, make none.
    #[arg(long, conflicts_with = "force_init")]
    pub no_init: bool,
    /// Make the tables anew, even if those that are there are not lockscope's.
    #[arg(long)]
    pub force_init: bool,
    /// Do not vacuum before the run.
    #[arg(short, long)]
    pub no_vacuum: bool,
}

/// What to print and save.
#[derive(Debug, Args)]
#[command(next_help_heading = "Output")]
pub struct OutputArgs {
    /// Save the run to this file.
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Print the report as JSON.
    #[arg(long)]
    pub json: bool,
    /// Step of the time series in seconds, at least 0.1.
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = interval)]
    pub interval: Duration,
    /// Seconds between progress lines on standard error, 0 for none.
    #[arg(short = 'P', long, value_name = "SECONDS", default_value = "1", value_parser = seconds)]
    pub progress: Duration,
    /// No progress lines.
    #[arg(short, long)]
    pub quiet: bool,
    /// The text report's layout.
    #[command(flatten)]
    pub layout: LayoutArgs,
}

impl LoadArgs {
    /// The workload that the options name.
    pub fn workload(&self) -> &'static Workload {
        if self.select_only {
            return Workload::select(self.protocol.unwrap_or(Protocol::Simple));
        }
        let default =
            if self.skip_some_updates { Workload::SIMPLE_UPDATE } else { Workload::TPCB_LIKE };
        self.workload.unwrap_or(default)
    }
}

impl ServerArgs {
    /// The same for the connection code.
    pub fn options(&self) -> ServerOptions {
        ServerOptions {
            dsn: self.dsn.clone(),
            host: self.host.clone(),
            port: self.port,
            user: self.username.clone(),
            database: self.dbname.clone(),
        }
    }
}

#[expect(clippy::unnecessary_wraps, reason = "clap's value parsers return a Result")]
fn secret(text: &str) -> Result<Secret, String> {
    Ok(Secret::new(text))
}

fn at_least_one(text: &str) -> Result<u32, String> {
    match text.parse() {
        Ok(0) => Err("it must be at least 1".to_owned()),
        Ok(number) => Ok(number),
        Err(error) => Err(error.to_string()),
    }
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| "it must be a number of seconds".to_owned())?;
    if seconds > MAX_SECONDS {
        return Err(format!("it must be at most {MAX_SECONDS} (a year)"));
    }
    Duration::try_from_secs_f64(seconds).map_err(|error| error.to_string())
}

fn microseconds(text: &str) -> Result<Duration, String> {
    let number: f64 = text.parse().map_err(|_| "it must be a number of microseconds".to_owned())?;
    Duration::try_from_secs_f64(number / 1e6).map_err(|error| error.to_string())
}

fn positive_seconds(text: &str) -> Result<Duration, String> {
    let duration = seconds(text)?;
    if duration.is_zero() { Err("it must be more than 0".to_owned()) } else { Ok(duration) }
}

fn interval(text: &str) -> Result<Duration, String> {
    let duration = seconds(text)?;
    if duration < Duration::from_millis(100) {
        return Err("it must be at least 0.1".to_owned());
    }
    Ok(duration)
}

/// The kernel wants whole pages, and a power of two.
fn ring_bytes(text: &str) -> Result<u32, String> {
    let bytes: u32 = text.parse().map_err(|_| "it must be a number of bytes".to_owned())?;
    // SAFETY: takes a number and returns one.
    let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    let page = u32::try_from(page).unwrap_or(4096);
    if !bytes.is_power_of_two() || bytes < page {
        return Err(format!("it must be a power of two of at least {page}"));
    }
    Ok(bytes)
}

fn random_seed(text: &str) -> Result<u64, String> {
    match text {
        "rand" => Ok(fastrand::u64(..)),
        "time" => {
            let since_epoch = std::time::SystemTime::UNIX_EPOCH.elapsed();
            Ok(since_epoch.map_err(|error| error.to_string())?.as_micros() as u64)
        }
        number => number.parse().map_err(|_| "it must be a number, `time` or `rand`".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    fn run(arguments: &str) -> Result<RunArgs, clap::Error> {
        let words = ["lockscope", "run"].into_iter().chain(arguments.split_whitespace());
        Cli::try_parse_from(words).map(|cli| {
            let Command::Run(run) = cli.command else { panic!("not a run") };
            *run
        })
    }

    #[test]
    fn the_definition_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn pgbench_s_letters_keep_their_meaning() {
        let run = run("-S -M prepared -c 32 -j 4 -T 30 -s 10 -n -P 5 -h /tmp -p 5433 -U me -d db")
            .unwrap();
        assert_eq!(run.load.workload().name, "select-prepared");
        assert_eq!((run.load.client, run.load.jobs), (32, Some(4)));
        assert_eq!(run.load.time, Duration::from_secs(30));
        assert_eq!(run.tables.scale, Some(10));
        assert!(run.tables.no_vacuum);
        assert_eq!(run.server.host.as_deref(), Some("/tmp"));
        assert_eq!(run.server.dbname.as_deref(), Some("db"));
    }

    #[test]
    fn the_default_is_pgbench_s() {
        assert_eq!(run("").unwrap().load.workload().name, "tpcb-like");
        assert_eq!(run("-N").unwrap().load.workload().name, "simple-update");
        assert_eq!(run("-S").unwrap().load.workload().name, "select-simple");
    }

    #[test]
    fn a_password_in_the_dsn_is_not_in_the_debug_form() {
        let run = run("--dsn postgres://u:hunter2@h/d").unwrap();
        assert!(!format!("{run:?}").contains("hunter2"));
    }

    #[test]
    fn values_that_make_no_sense_are_refused() {
        for (arguments, word) in [
            ("-c 0", "at least 1"),
            ("-T 0", "more than 0"),
            ("-T -1", "-1"),
            ("-T 1e15", "a year"),
            ("-T NaN", "NaN"),
            ("-t 0", "at least 1"),
            ("--interval 0.01", "at least 0.1"),
            ("--workload tpcc", "select-prepared"),
            ("-t 5 -T 5", "cannot be used with"),
            ("--dsn x -h y", "cannot be used with"),
            ("--pin-client x", "0,2-3"),
            ("--max-tasks 0", "at least 1"),
            ("--ring-bytes 5000", "power of two"),
            ("--ring-bytes 512", "at least"),
        ] {
            let error = run(arguments).unwrap_err().to_string();
            assert!(error.contains(word), "{arguments}: {error}");
        }
    }
}
