//! The command line.
//!
//! Options that pgbench users know keep pgbench's letters, long names and meaning.

mod ab;
mod attach;
mod compare;
mod explain;
mod filter;
mod init;
mod load;
mod log;
mod output;
mod profile;
mod scripts;
mod server;
mod sweep;
mod sysbench;
mod trace;
mod values;
mod vm;

use clap::{ArgAction, Args, Parser, Subcommand};

pub use self::ab::{AbArgs, Reset, SideArgs, SideError, side_args};
pub use self::attach::AttachArgs;
pub use self::compare::CompareArgs;
pub use self::explain::ExplainArgs;
pub use self::filter::FilterArgs;
pub use self::init::InitArgs;
pub use self::load::LoadArgs;
pub use self::log::{LogArgs, LogArgsError};
pub use self::output::{OutputArgs, ResultArgs, SeriesArgs};
pub use self::profile::ProfileArgs;
pub use self::scripts::{BUILTINS, Chosen, ScriptArgs, Shown};
pub use self::server::{ConnectionArgs, ServerArgs, TableArgs};
pub use self::sweep::SweepArgs;
pub use self::sysbench::{NotSysbench, SysbenchArgs};
pub use self::trace::{ProgramArgs, TraceArgs};
pub use self::vm::{Accel, FileSystem, VmArgs};
use crate::commands::Exit;
use crate::commands::doctor::DoctorArgs;
use crate::commands::report::{ReportArgs, TasksArgs};
use crate::commands::workloads::WorkloadsArgs;

/// eBPF lock contention tracer for Postgres benchmarks.
#[derive(Debug, Parser)]
#[command(name = "lockscope", version, disable_help_flag = true, disable_help_subcommand = true)]
#[command(propagate_version = true, arg_required_else_help = true)]
// As in pgbench, the last of several wins.
#[command(args_override_self = true)]
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

impl Cli {
    /// How lockscope ends when it fails.
    pub fn failure(&self) -> Exit {
        match &self.command {
            Command::Attach(args) if !args.client.is_empty() => Exit::CommandNotTraced,
            _ => Exit::Failed,
        }
    }
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run a pgbench-style load and report where the kernel's locks made it wait.
    Run(Box<RunArgs>),
    /// Run a pgbench-style load alone: no tracing, no root.
    Load(Box<LoadCommand>),
    /// Trace what runs already: a server with its clients, some tasks, or the whole machine.
    Attach(Box<AttachArgs>),
    /// Make pgbench's tables, as pgbench -i does.
    Init(Box<InitArgs>),
    /// List the built-in workloads, or show one with its script.
    Workloads(WorkloadsArgs),
    /// Tell what can be traced on this machine, how, and what would improve it.
    Doctor(DoctorArgs),
    /// Show a saved run again, as text or JSON.
    Report(ReportArgs),
    /// Run at several client counts, or values of other options, and tell where it stops to scale.
    Sweep(Box<SweepArgs>),
    /// Measure two targets in turns, in rounds, and compare them.
    Ab(Box<AbArgs>),
    /// Compare saved runs: what differs, how sure that is, and which state and lock it comes from.
    Compare(Box<CompareArgs>),
    /// Explain a saved run, or what changed between two sides: in sentences, with known regressions.
    Explain(Box<ExplainArgs>),
    /// Run a command of lockscope's on another kernel, in a virtual machine with this root.
    Vm(Box<VmArgs>),
}

/// `lockscope run`.
#[derive(Debug, Args)]
#[command(mut_args = values::allow_negative)]
pub struct RunArgs {
    /// The load.
    #[command(flatten)]
    pub job: JobArgs,
    /// How to trace meanwhile.
    #[command(flatten)]
    pub trace: TraceArgs,
    /// What to narrow the trace to.
    #[command(flatten)]
    pub filter: FilterArgs,
    /// Whom the report lists.
    #[command(flatten)]
    pub tasks: TasksArgs,
}

/// `lockscope load`.
#[derive(Debug, Args)]
#[command(mut_args = values::allow_negative)]
pub struct LoadCommand {
    /// The load.
    #[command(flatten)]
    pub job: JobArgs,
}

/// A load and the report about it.
#[derive(Debug, Args)]
pub struct JobArgs {
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
    /// What to log of each transaction.
    #[command(flatten)]
    pub log: LogArgs,
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use clap::CommandFactory as _;

    use super::*;
    use crate::load::{Database, Secret};

    fn run(arguments: &str) -> Result<JobArgs, clap::Error> {
        let words =
            |command| ["lockscope", command].into_iter().chain(arguments.split_whitespace());
        let load = Cli::try_parse_from(words("load"));
        Cli::try_parse_from(words("run")).map(|cli| {
            let Command::Run(run) = cli.command else { panic!("not a run") };
            // Both commands take the same options, but for the tracing's.
            let is_trace = ["--max-tasks", "--ring-bytes"].iter().any(|o| arguments.contains(o));
            assert!(is_trace || load.is_ok(), "{arguments}: {load:?}");
            run.job
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
        assert_eq!(run.load.scripts.chosen, [Chosen::Builtin { name: "select-only", weight: 1 }]);
        assert_eq!((run.load.client, run.load.jobs), (32, Some(4)));
        assert_eq!(run.load.time, Duration::from_secs(30));
        assert_eq!(run.tables.scale, Some(10));
        assert!(run.tables.no_vacuum);
        assert_eq!(run.server.connection.host.as_deref(), Some("/tmp"));
        assert_eq!(run.server.connection.dbname.as_ref(), Some(&Database::new("db")));
    }

    #[test]
    fn the_letters_of_a_pgbench_command_line_are_all_there() {
        let run = run(
            "-c 8 -j 2 -T 60 -f a.sql@2 -b tpcb@3 -D x=1 -D y= -r -C -R 100 -L 5.5 -l -v \
                       --max-tries 3 --failures-detailed --exit-on-abort --sampling-rate 0.1 bench",
        );
        let run = run.unwrap();
        assert_eq!(run.load.scripts.chosen.len(), 2);
        assert_eq!(run.load.definitions.len(), 2);
        assert_eq!(run.load.latency_limit, Some(Duration::from_micros(5500)));
        assert!(run.load.report_per_command && run.load.connect && run.tables.vacuum_all);
        assert_eq!(run.server.options().database, Some(Database::new("bench")));
    }

    #[test]
    fn of_an_option_that_is_repeated_the_last_counts() {
        let run =
            run("-c 8 -c 4 -T 1 -T 2 -p 1 -p 2 -S -S -n -n --dsn x --dsn y -M simple -M prepared");
        let run = run.unwrap();
        assert_eq!((run.load.client, run.load.time), (4, Duration::from_secs(2)));
        assert_eq!(run.server.connection.port, [2]);
        assert_eq!(run.server.connection.dsn, Some(Secret::new("y")));
    }

    #[test]
    fn a_refused_number_is_answered_with_what_it_must_be() {
        for arguments in ["-c -1", "-T -1", "-R -5", "-p -1", "--interval -1", "-s -3"] {
            let error = run(arguments).unwrap_err().to_string();
            assert!(!error.contains("-- -"), "{arguments}: {error}");
        }
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
            ("-T -1", "not be negative"),
            ("-c -1", "at least 1"),
            ("-c 1.5", "whole number"),
            ("-c 5000000000", "at most"),
            ("--max-tries -1", "-1 is not in"),
            ("--warmup NaN", "a number of seconds"),
            ("--think-time -0.5", "not be negative"),
            ("-T 1e15", "a year"),
            ("-T NaN", "a number of seconds"),
            ("-t 0", "at least 1"),
            ("--interval 0.01", "at least 0.1"),
            ("--workload tpcc", "select-prepared"),
            ("-t 5 -T 5", "cannot be used with"),
            ("--no-trace --comm postgres", "cannot be used with"),
            ("--no-trace --probe osq=off", "cannot be used with"),
            ("--pin-client x", "0,2-3"),
            ("--max-tasks 0", "at least 1"),
            ("--ring-bytes 5000", "power of two"),
            ("--ring-bytes 512", "at least"),
            ("-P 0.05", "at least 0.1"),
            ("-R 0", "more than 0"),
            ("-R inf", "finite"),
            ("-R NaN", "a number of transactions"),
            ("-L 0", "more than 0"),
            ("-L x", "milliseconds"),
            ("-R 10 --think-time 5", "cannot be used with"),
            ("--sampling-rate 0.5", "--log"),
            ("--aggregate-interval 5", "--log"),
            ("--log-prefix x", "--log"),
            ("-l --sampling-rate 0", "more than 0"),
            ("-l --sampling-rate 1.5", "at most 1"),
            ("-l --aggregate-interval 0", "at least 1"),
            ("-l --sampling-rate 0.5 --aggregate-interval 1", "cannot be used with"),
            ("--io aio", "uring"),
            ("-D 1x=2", "variable name"),
            ("-D x", "NAME=VALUE"),
            ("-b nothing", "tpcb-like"),
            ("-f x@y", "weight"),
            ("--show-script s", "several"),
        ] {
            let error = run(arguments).unwrap_err().to_string();
            assert!(error.contains(word), "{arguments}: {error}");
        }
    }
}
