//! `lockscope run`: a load against a Postgres server, and the report about it.

mod describe;
mod load_part;
mod logging;
mod measure;
mod roles;
mod scripts;
mod settings;
mod stage;
mod tracing;

use describe::abort_text;
pub(super) use settings::Settings;
pub(super) use stage::{Performed, Stage, TracerPlan};
use tracing::TracingError;

use super::Exit;
use super::output::{OutputError, OutputFile, print_report, say};
use super::report::TasksArgs;
use crate::cli::{FilterArgs, JobArgs, LogArgsError, RunArgs, TraceArgs};
use crate::load::cpus::CpuListError;
use crate::load::log::LogError;
use crate::load::script::{ScriptError, SourceError};
use crate::load::server::{ControlError, EmbeddedError, SetupError};
use crate::load::workload::ProtocolFixed;
use crate::load::{LoadError, TargetError};
use crate::model::Run;
use crate::report::text::TextOptions;
use crate::report::{json, text};
use crate::signals::Interrupt;

/// A run that could not be made.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// sysbench's options without one of its workloads.
    #[error(transparent)]
    NotSysbench(#[from] crate::cli::NotSysbench),
    /// `-M` contradicts the workload.
    #[error(transparent)]
    Protocol(#[from] ProtocolFixed),
    /// A script cannot be read.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// A script is wrong.
    #[error(transparent)]
    Script(#[from] ScriptError),
    /// Nothing would end the tries.
    #[error(
        "--max-tries 0 (without limit) and -t leave nothing to end the tries of a transaction that always fails; add -L, or use -T"
    )]
    EndlessTries,
    /// Nothing would show the time stamps.
    #[error(
        "--progress-timestamp is for progress lines, of which -P 0 leaves none; leave one of them away"
    )]
    NoProgress,
    /// A CPU list names CPUs that are not there.
    #[error(transparent)]
    Cpus(#[from] CpuListError),
    /// The options of the logs contradict the run.
    #[error(transparent)]
    LogArgs(#[from] LogArgsError),
    /// A log file cannot be made.
    #[error("{0}; name another place with --log-prefix")]
    Log(#[from] LogError),
    /// io_uring was asked for and cannot be used.
    #[error("--io uring cannot be used: {0}; leave it away, or use --io epoll")]
    NoUring(String),
    /// Pinning somebody else's server.
    #[error(
        "--pin-server pins the throw-away server only: lockscope does not move a server that it did not start; use taskset -p on its postmaster before connecting"
    )]
    PinServer,
    /// A directory for a server that is not made.
    #[error(
        "--data-dir is for the throw-away server, but the options or PG* variables name another; leave one of them away"
    )]
    DataDir,
    /// Signals or CPUs cannot be asked for.
    #[error("cannot prepare the run: {0}")]
    Io(#[from] std::io::Error),
    /// The file of `-o`.
    #[error(transparent)]
    Output(#[from] OutputError),
    /// The address of the server.
    #[error(transparent)]
    Target(#[from] TargetError),
    /// The throw-away server.
    #[error(transparent)]
    Embedded(#[from] EmbeddedError),
    /// The control connection.
    #[error(transparent)]
    Control(#[from] ControlError),
    /// The tables.
    #[error(transparent)]
    Setup(#[from] SetupError),
    /// The load.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// The kernel side.
    #[error(transparent)]
    Tracing(#[from] TracingError),
    /// The measured part never began.
    #[error("interrupted by {0} before the measured part: nothing to report")]
    InterruptedEarly(&'static str),
    /// Nobody was left to measure, and nothing was measured.
    #[error(
        "all clients gave up before a transaction ended well, so there is nothing to report; {0}"
    )]
    AllAborted(String),
}

/// Runs the load, traces meanwhile, and reports.
pub fn run(args: &RunArgs) -> Result<Exit, RunError> {
    perform(&args.job, Some((&args.trace, &args.filter)), args.tasks)
}

/// Runs the load and reports; `trace` is absent for `lockscope load`.
pub(super) fn perform(
    args: &JobArgs,
    trace: Option<(&TraceArgs, &FilterArgs)>,
    tasks: TasksArgs,
) -> Result<Exit, RunError> {
    if let Some(shown) = args.load.shown() {
        print_report(&scripts::text_of(shown))?;
        return Ok(Exit::Done);
    }
    let settings = Settings::new(args, trace.map(|(trace, _)| trace))?;
    let output = args.output.output.as_deref().map(OutputFile::create).transpose()?;
    let tracer = TracerPlan::new(trace)?;
    let interrupt = Interrupt::install()?;
    let stage = Stage::set(args, &settings, args.load.client, &interrupt)?;
    let Performed { run, aborted } = stage.perform(args, &settings, tracer, &interrupt)?;
    drop(stage);
    if !aborted.is_empty() {
        say(&format!("lockscope: {}", abort_text(&aborted, args.load.client)));
    }
    let options = tasks.text_options(&args.output.series.layout);
    report(args, &run, output, &options)?;
    Ok(if aborted.is_empty() { Exit::Done } else { Exit::ClientsAborted })
}

/// One run on a stage of its own, for commands that make several.
pub(super) fn run_once(args: &RunArgs, interrupt: &Interrupt) -> Result<Performed, RunError> {
    let settings = Settings::new(&args.job, Some(&args.trace))?;
    let tracer = TracerPlan::new(Some((&args.trace, &args.filter)))?;
    Stage::set(&args.job, &settings, args.job.load.client, interrupt)?
        .perform(&args.job, &settings, tracer, interrupt)
}

/// Prints first: a full disk must not cost the report, nor a closed output the file.
fn report(
    args: &JobArgs,
    run: &Run,
    output: Option<OutputFile>,
    options: &TextOptions,
) -> Result<(), OutputError> {
    let json = json::render(run);
    let text = || text::render(run, options);
    let printed = print_report(&if args.output.json { json.clone() } else { text() });
    printed.and(output.map_or(Ok(()), |output| output.save(json.as_bytes())))
}
