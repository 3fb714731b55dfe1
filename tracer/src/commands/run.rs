//! `lockscope run`: a load against a Postgres server, and the report about it.

use std::sync::Arc;
use std::time::Duration;

use super::Exit;
use super::assemble::{abort_text, assemble};
use super::output::{OutputError, OutputFile, print_report};
use super::progress::{Progress, init_bar};
use super::roles::Load;
use super::tracing::{Tracing, TracingError};
use crate::cli::{LoadArgs, RunArgs};
use crate::kernel::environment::StealClock;
use crate::load::clock::monotonic_ns;
use crate::load::cpus::{CpuList, CpuListError};
use crate::load::measure::{Measured, Measurement};
use crate::load::server::{
    Control, ControlError, EmbeddedError, EmbeddedOptions, EmbeddedServer, SetupError,
    TableOptions, Tables,
};
use crate::load::workload::{Protocol, ProtocolFixed, Workload};
use crate::load::{
    AbortedClient, ConnectedLoad, LoadError, LoadPlan, RunningLoad, Target, TargetError,
};
use crate::model::{self, Run, Warning};
use crate::report::{json, text};
use crate::session::Findings;
use crate::signals::Interrupt;

const DEFAULT_WARMUP: Duration = Duration::from_secs(2);
/// How often records are drained and flags looked at.
const TICK_NS: u64 = 100_000_000;

/// A run that could not be made.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// `-M` contradicts the workload.
    #[error(transparent)]
    Protocol(#[from] ProtocolFixed),
    /// A CPU list names CPUs that are not there.
    #[error(transparent)]
    Cpus(#[from] CpuListError),
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
    /// Nobody was left to measure.
    #[error("all clients gave up before the measured part; {0}")]
    AllAborted(String),
}

/// What to run, decided before anything is touched.
pub(super) struct Settings {
    pub(super) workload: &'static Workload,
    pub(super) protocol: Protocol,
    pub(super) jobs: u32,
    pub(super) warmup_ns: u64,
    /// Measured time; absent where the number of transactions ends the run.
    pub(super) duration_ns: Option<u64>,
}

/// The server of the run, made for it or not.
struct Server {
    embedded: Option<EmbeddedServer>,
    target: Arc<Target>,
}

/// What set-up found and left.
pub(super) struct Prepared {
    pub(super) postgres: model::Postgres,
    pub(super) tables: Tables,
}

/// What ended the measured part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ended {
    AsPlanned,
    Interrupted,
    /// Every client gave up before the planned end.
    ClientsGone,
}

/// What the measured part yields.
pub(super) struct Measurements {
    pub(super) started_at: String,
    pub(super) measured: Measured,
    pub(super) ended: Ended,
    pub(super) aborted: Vec<AbortedClient>,
    pub(super) worker_cpu_ns: u64,
    pub(super) steal_ns: Option<u64>,
    /// When the measured part began, CLOCK_MONOTONIC.
    pub(super) start_ns: u64,
    pub(super) findings: Option<Findings>,
    pub(super) trace_warnings: Vec<Warning>,
}

/// Runs the load and reports.
pub fn run(args: &RunArgs) -> Result<Exit, RunError> {
    let settings = Settings::new(&args.load)?;
    let output = args.output.output.as_deref().map(OutputFile::create).transpose()?;
    let interrupt = Interrupt::install()?;

    let server = Server::open(args, &interrupt)?;
    let prepared = prepare(args, &settings, &server, &interrupt)?;
    let connected = plan(args, &settings, &server, &prepared).connect(&interrupt)?;

    // The server's processes, the clients' backends and the worker threads exist, nothing runs yet.
    let tracing = Tracing::attach(&args.trace, &load_of(&server, &connected))?;

    let result = measure(args, &settings, connected, tracing, &interrupt)?;
    let run = assemble(args, &settings, prepared, &result);
    drop(server);
    report(args, &run, output, result.aborted.is_empty())
}

fn load_of<'a>(server: &'a Server, connected: &'a ConnectedLoad) -> Load<'a> {
    Load {
        target: &server.target,
        backend_pids: connected.backend_pids(),
        worker_tids: connected.worker_tids(),
    }
}

impl Settings {
    fn new(args: &LoadArgs) -> Result<Self, RunError> {
        let workload = args.workload();
        let available = CpuList::available()?;
        for cpus in [&args.pin_client, &args.pin_server].into_iter().flatten() {
            cpus.check(&available)?;
        }
        let usable = args.pin_client.as_ref().unwrap_or(&available).count();
        let jobs = args.jobs.unwrap_or(u32::try_from(usable).unwrap_or(u32::MAX));
        let by_count = args.transactions.is_some();
        let default_warmup = if by_count { Duration::ZERO } else { DEFAULT_WARMUP };
        Ok(Self {
            workload,
            protocol: workload.protocol(args.protocol)?,
            jobs: jobs.clamp(1, args.client),
            warmup_ns: nanoseconds(args.warmup.unwrap_or(default_warmup)),
            duration_ns: (!by_count).then(|| nanoseconds(args.time)),
        })
    }
}

impl Server {
    fn open(args: &RunArgs, interrupt: &Interrupt) -> Result<Self, RunError> {
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
        };
        let embedded = EmbeddedServer::start(&options, interrupt)?;
        let target = Arc::new(embedded.target().clone());
        Ok(Self { embedded: Some(embedded), target })
    }
}

/// Asks the server what it is and makes the tables ready.
fn prepare(
    args: &RunArgs,
    settings: &Settings,
    server: &Server,
    interrupt: &Interrupt,
) -> Result<Prepared, RunError> {
    let control = Control::connect(&server.target, interrupt)?;
    let mut postgres = control.describe_server()?;
    postgres.embedded = server.embedded.is_some();
    control.check_connections(args.load.client)?;
    let options = TableOptions {
        scale: args.tables.scale,
        no_init: args.tables.no_init,
        force_init: args.tables.force_init,
    };
    let tables = Tables::prepare(&control, options, &mut init_bar())?;
    if settings.workload.writes && !args.tables.no_vacuum {
        tables.vacuum_before_run(&control)?;
    }
    Ok(Prepared { postgres, tables })
}

fn plan(args: &RunArgs, settings: &Settings, server: &Server, prepared: &Prepared) -> LoadPlan {
    LoadPlan {
        target: Arc::clone(&server.target),
        workload: settings.workload,
        protocol: settings.protocol,
        scale: prepared.tables.scale,
        clients: args.load.client,
        jobs: settings.jobs,
        transactions_per_client: args.load.transactions.map(u64::from),
        seed: args.load.random_seed,
        cpus: args.load.pin_client.clone(),
    }
}

/// Warm-up and the measured part.
fn measure(
    args: &RunArgs,
    settings: &Settings,
    load: ConnectedLoad,
    mut tracing: Tracing,
    interrupt: &Interrupt,
) -> Result<Measurements, RunError> {
    let now_ns = monotonic_ns();
    let start_ns = now_ns + settings.warmup_ns;
    let end_ns = settings.duration_ns.map(|duration| start_ns + duration);
    let interval_ns = nanoseconds(args.output.interval);
    let mut measurement = Measurement::new(start_ns, end_ns, interval_ns);
    let period_ns = if args.output.quiet { 0 } else { nanoseconds(args.output.progress) };
    let mut progress = Progress::new(period_ns, now_ns, start_ns);
    let mut load = load.start();

    if settings.warmup_ns > 0 {
        let ended = Driver {
            load: &mut load,
            tracing: &mut tracing,
            measurement: &mut measurement,
            progress: &mut progress,
        }
        .drive(Some(start_ns), interrupt)?;
        if ended == Ended::Interrupted {
            return Err(RunError::InterruptedEarly(interrupt.name()));
        }
    }
    progress.begin_measured_part();
    let started_at = jiff::Timestamp::now().to_string();
    let cpu_before_ns = load.cpu_ns();
    let steal = StealClock::start();
    tracing.begin(start_ns, settings.duration_ns, interval_ns, !args.trace.no_control)?;
    let mut driver = Driver {
        load: &mut load,
        tracing: &mut tracing,
        measurement: &mut measurement,
        progress: &mut progress,
    };
    let mut ended = driver.drive(end_ns, interrupt)?;
    // The backends leave when the clients do: their accounts are read before.
    tracing.stop()?;
    load.stop();
    let ended_ns = monotonic_ns();
    let steal_ns = steal.elapsed_ns();
    let worker_cpu_ns = load.cpu_ns() - cpu_before_ns;
    let aborted = load
        .finish(&mut |record| {
            measurement.record(record);
            tracing.record(record);
        })?
        .aborted;
    let (findings, trace_warnings) = tracing.finish()?;

    let all_aborted = aborted.len() == args.load.client as usize;
    if ended == Ended::ClientsGone && !all_aborted && args.load.transactions.is_some() {
        ended = Ended::AsPlanned;
    }
    if all_aborted && measurement.transactions_count() == 0 {
        return Err(RunError::AllAborted(abort_text(&aborted, args.load.client)));
    }
    // A run that lost all its clients lasted up to the last transaction.
    let cut_ns = (ended == Ended::Interrupted).then_some(ended_ns);
    let measured = match ended {
        Ended::ClientsGone => measurement.finish_at_last(),
        _ => measurement.finish(cut_ns),
    };
    Ok(Measurements {
        started_at,
        measured,
        ended,
        aborted,
        worker_cpu_ns,
        steal_ns,
        start_ns,
        findings,
        trace_warnings,
    })
}

/// All that has to be kept going while the load runs.
struct Driver<'a> {
    load: &'a mut RunningLoad,
    tracing: &'a mut Tracing,
    measurement: &'a mut Measurement,
    progress: &'a mut Progress,
}

impl Driver<'_> {
    /// Drains records until `end_ns`, an interrupt, or until no client is left.
    fn drive(&mut self, end_ns: Option<u64>, interrupt: &Interrupt) -> Result<Ended, RunError> {
        loop {
            self.load.drain(&mut |record| {
                self.measurement.record(record);
                self.progress.record(record);
                self.tracing.record(record);
            });
            if let Some(note) = self.tracing.tick(monotonic_ns())? {
                self.progress.annotate(Some(note));
            }
            let now_ns = monotonic_ns();
            self.progress.tick(now_ns);
            if interrupt.is_set() {
                return Ok(Ended::Interrupted);
            }
            if end_ns.is_some_and(|end| now_ns >= end) {
                return Ok(Ended::AsPlanned);
            }
            if self.load.active_clients() == 0 {
                return Ok(Ended::ClientsGone);
            }
            let next_ns = end_ns.unwrap_or(u64::MAX).min(self.tracing.next_tick_ns());
            let rest_ns = next_ns.saturating_sub(now_ns).min(TICK_NS);
            std::thread::sleep(Duration::from_nanos(rest_ns));
        }
    }
}

/// Prints first: a full disk must not cost the report.
fn report(
    args: &RunArgs,
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

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
