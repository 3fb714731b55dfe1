//! `lockscope run`: a load against a Postgres server, and the report about it.

mod describe;
mod load_part;
mod logging;
mod measure;
mod roles;
mod scripts;
mod settings;
mod tracing;

use std::sync::Arc;

use describe::{abort_text, describe};
use measure::measure;
use roles::Load;
use settings::Settings;
use tracing::{Tracing, TracingError, possible};

use super::Exit;
use super::output::{OutputError, OutputFile, print_report, say};
use super::progress::init_bar;
use crate::cli::{FilterArgs, JobArgs, LogArgsError, RunArgs, TraceArgs};
use crate::load::cpus::CpuListError;
use crate::load::log::{LogError, Logs};
use crate::load::script::{ScriptError, SourceError};
use crate::load::server::{
    Control, ControlError, EmbeddedError, EmbeddedOptions, EmbeddedServer, SetupError,
    TableOptions, Tables,
};
use crate::load::workload::{ProtocolFixed, Workload};
use crate::load::{ConnectedLoad, LoadError, LoadPlan, Target, TargetError, deal};
use crate::model::{self, Run};
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
    #[error("all clients gave up before a transaction ended well, so there is nothing to report; {0}")]
    AllAborted(String),
}

/// The server of the run, made for it or not.
struct Server {
    embedded: Option<EmbeddedServer>,
    target: Arc<Target>,
}

/// What set-up found and left.
struct Prepared {
    postgres: model::Postgres,
    tables: Tables,
}

/// Runs the load, traces meanwhile, and reports.
pub fn run(args: &RunArgs) -> Result<Exit, RunError> {
    perform(&args.job, Some((&args.trace, &args.filter)))
}

/// Runs the load and reports; `trace` is absent for `lockscope load`.
pub(super) fn perform(
    args: &JobArgs,
    trace: Option<(&TraceArgs, &FilterArgs)>,
) -> Result<Exit, RunError> {
    if let Some(shown) = args.load.shown() {
        print_report(&scripts::text_of(shown))?;
        return Ok(Exit::Done);
    }
    let settings = Settings::new(args, trace.map(|(trace, _)| trace))?;
    let output = args.output.output.as_deref().map(OutputFile::create).transpose()?;
    let possible = trace.map(|(trace, filter)| possible(trace, filter)).transpose()?.flatten();
    let interrupt = Interrupt::install()?;

    let server = Server::open(args, &settings, &interrupt)?;
    let prepared = prepare(args, &settings, &server, &interrupt)?;
    let workers = deal(args.load.client, settings.jobs);
    let logs = settings.log.clone().map(|options| Logs::create(options, &workers)).transpose()?;
    let connected = plan(args, &settings, &server, &prepared).connect(&interrupt)?;

    // The server's processes, the clients' backends and the worker threads exist, nothing runs yet.
    let tracing = match trace {
        Some((trace, _)) => Tracing::attach(possible, trace, &load_of(&server, &connected))?,
        None => Tracing::none(),
    };

    let result = measure(args, &settings, connected, tracing, logs, &interrupt)?;
    let run = describe(args, &settings, &server, prepared, &result);
    drop(server);
    if !result.aborted.is_empty() {
        say(&format!("lockscope: {}", abort_text(&result.aborted, args.load.client)));
    }
    report(args, &run, output, result.aborted.is_empty())
}

fn load_of<'a>(server: &'a Server, connected: &'a ConnectedLoad) -> Load<'a> {
    Load {
        target: &server.target,
        backend_pids: connected.backend_pids(),
        worker_tids: connected.worker_tids(),
    }
}

impl Server {
    fn open(args: &JobArgs, settings: &Settings, interrupt: &Interrupt) -> Result<Self, RunError> {
        let options = args.server.options();
        if options.names_a_server() {
            if args.load.pin_server.is_some() {
                return Err(RunError::PinServer);
            }
            if args.server.data_dir.is_some() {
                return Err(RunError::DataDir);
            }
            let target = Arc::new(Target::resolve(&options)?);
            return Ok(Self { embedded: None, target });
        }
        let options = EmbeddedOptions {
            parent: args.server.data_dir.clone(),
            clients: args.load.client,
            cpus: args.load.pin_server.clone(),
            settings: settings.scripts.workload().map_or(&[], |workload| workload.server_settings),
        };
        let embedded = EmbeddedServer::start(&options, interrupt)?;
        let target = Arc::new(embedded.target().clone());
        Ok(Self { embedded: Some(embedded), target })
    }
}

/// Asks the server what it is and makes the tables ready.
fn prepare(
    args: &JobArgs,
    settings: &Settings,
    server: &Server,
    interrupt: &Interrupt,
) -> Result<Prepared, RunError> {
    let control = Control::connect(&server.target, interrupt)?;
    let mut postgres = control.describe_server()?;
    postgres.embedded = server.embedded.is_some();
    control.check_connections(args.load.client)?;
    let tables = tables(args, settings, server, &control)?;
    Ok(Prepared { postgres, tables })
}

/// Pgbench's tables. Scripts of the user's own need not use them: then a server that is not ours is
/// left as it is, and the scale is what the user says.
fn tables(
    args: &JobArgs,
    settings: &Settings,
    server: &Server,
    control: &Control,
) -> Result<Tables, RunError> {
    let workload = settings.scripts.workload();
    if workload.is_none() && server.embedded.is_none() && !args.tables.force_init {
        return Ok(Tables::none(args.tables.scale.unwrap_or(1)));
    }
    let workload = workload.unwrap_or(Workload::TPCB_LIKE);
    let options = TableOptions {
        schema: workload.schema,
        usual_scale: workload.usual_scale,
        scale: args.tables.scale,
        no_init: args.tables.no_init,
        force_init: args.tables.force_init,
    };
    let tables = Tables::prepare(control, options, &mut init_bar())?;
    if settings.scripts.write() && !args.tables.no_vacuum {
        tables.vacuum_before_run(control)?;
    }
    if args.tables.vacuum_all {
        tables.vacuum_all(control)?;
    }
    Ok(tables)
}

fn plan(args: &JobArgs, settings: &Settings, server: &Server, prepared: &Prepared) -> LoadPlan {
    let scripts = settings.scripts.list.iter();
    LoadPlan {
        target: Arc::clone(&server.target),
        scripts: scripts.map(|script| (script.script.clone(), script.weight)).collect(),
        definitions: args.load.definitions.clone(),
        failures: settings.failures,
        protocol: settings.scripts.protocol,
        scale: prepared.tables.scale,
        clients: args.load.client,
        jobs: settings.jobs,
        timing: settings.timing.clone(),
        io: settings.io,
        seed: args.load.random_seed,
        cpus: args.load.pin_client.clone(),
    }
}

/// Prints first: a full disk must not cost the report.
fn report(
    args: &JobArgs,
    run: &Run,
    output: Option<OutputFile>,
    all_clients_ended_well: bool,
) -> Result<Exit, RunError> {
    let json = json::render(run);
    let options = args.output.layout.text_options();
    print_report(&if args.output.json { json.clone() } else { text::render(run, &options) })?;
    if let Some(output) = output {
        output.save(json.as_bytes())?;
    }
    Ok(if all_clients_ended_well { Exit::Done } else { Exit::ClientsAborted })
}
