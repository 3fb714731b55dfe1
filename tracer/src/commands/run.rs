//! `lockscope run`: a load against a Postgres server, and the report about it.

use std::sync::Arc;
use std::time::Duration;

use super::Exit;
use super::output::{OutputError, OutputFile, print_report};
use super::progress::{Progress, init_bar};
use crate::cli::{LoadArgs, RunArgs};
use crate::load::clock::monotonic_ns;
use crate::load::cpus::{CpuList, CpuListError};
use crate::load::measure::{Measured, Measurement};
use crate::load::server::{
    Control, ControlError, EmbeddedError, EmbeddedOptions, EmbeddedServer, SetupError,
    TableOptions, Tables,
};
use crate::load::workload::{Protocol, ProtocolFixed, Workload};
use crate::load::{
    AbortedClient, LoadError, LoadPlan, RunningLoad, Target, TargetError, scrub_arguments,
};
use crate::model::{self, Run, SCHEMA_VERSION, Warning};
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
    /// The measured part never began.
    #[error("interrupted by {0} before the measured part: nothing to report")]
    InterruptedEarly(&'static str),
    /// Nobody was left to measure.
    #[error("all clients gave up before the measured part; {0}")]
    AllAborted(String),
    /// The model cannot be encoded.
    #[error("cannot encode the run: {0}")]
    Encode(#[from] serde_json::Error),
}

/// What to run, decided before anything is touched.
struct Settings {
    workload: &'static Workload,
    protocol: Protocol,
    jobs: u32,
    warmup_ns: u64,
    /// Measured time; absent where the number of transactions ends the run.
    duration_ns: Option<u64>,
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

/// What ended the measured part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ended {
    AsPlanned,
    Interrupted,
    /// Every client gave up before the planned end.
    ClientsGone,
}

/// What the load itself yields.
struct LoadResult {
    started_at: String,
    measured: Measured,
    ended: Ended,
    aborted: Vec<AbortedClient>,
    worker_cpu_ns: u64,
}

/// Runs the load and reports.
pub fn run(args: &RunArgs) -> Result<Exit, RunError> {
    let settings = Settings::new(&args.load)?;
    let output = args.output.output.as_deref().map(OutputFile::create).transpose()?;
    let interrupt = Interrupt::install()?;

    let server = Server::open(args, &interrupt)?;
    let prepared = prepare(args, &settings, &server, &interrupt)?;
    let connected = plan(args, &settings, &server, &prepared).connect(&interrupt)?;

    // Here the server's processes, the clients' backends and the worker threads exist and nothing
    // runs yet: the place to attach the tracer.

    let result = measure(args, &settings, connected.start(), &interrupt)?;
    let run = describe(args, &settings, &server, prepared, &result);
    drop(server);
    report(args, &run, output, result.aborted.is_empty())
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
    mut load: RunningLoad,
    interrupt: &Interrupt,
) -> Result<LoadResult, RunError> {
    let now_ns = monotonic_ns();
    let start_ns = now_ns + settings.warmup_ns;
    let end_ns = settings.duration_ns.map(|duration| start_ns + duration);
    let mut measurement = Measurement::new(start_ns, end_ns, nanoseconds(args.output.interval));
    let period_ns = if args.output.quiet { 0 } else { nanoseconds(args.output.progress) };
    let mut progress = Progress::new(period_ns, now_ns, start_ns);

    if settings.warmup_ns > 0 {
        let ended = drive(&mut load, Some(start_ns), interrupt, &mut measurement, &mut progress);
        if ended == Ended::Interrupted {
            return Err(RunError::InterruptedEarly(interrupt.name()));
        }
    }
    progress.begin_measured_part();
    let started_at = jiff::Timestamp::now().to_string();
    let cpu_before_ns = load.cpu_ns();
    let mut ended = drive(&mut load, end_ns, interrupt, &mut measurement, &mut progress);
    load.stop();
    let ended_ns = monotonic_ns();
    let worker_cpu_ns = load.cpu_ns() - cpu_before_ns;
    let aborted = load.finish(&mut |record| measurement.record(record))?.aborted;

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
    Ok(LoadResult { started_at, measured, ended, aborted, worker_cpu_ns })
}

/// Drains records until `end_ns`, an interrupt, or until no client is left.
fn drive(
    load: &mut RunningLoad,
    end_ns: Option<u64>,
    interrupt: &Interrupt,
    measurement: &mut Measurement,
    progress: &mut Progress,
) -> Ended {
    loop {
        load.drain(&mut |record| {
            measurement.record(record);
            progress.record(record);
        });
        let now_ns = monotonic_ns();
        progress.tick(now_ns);
        if interrupt.is_set() {
            return Ended::Interrupted;
        }
        if end_ns.is_some_and(|end| now_ns >= end) {
            return Ended::AsPlanned;
        }
        if load.active_clients() == 0 {
            return Ended::ClientsGone;
        }
        let rest_ns = end_ns.map_or(TICK_NS, |end| end - now_ns);
        std::thread::sleep(Duration::from_nanos(rest_ns.min(TICK_NS)));
    }
}

/// The run in the model's words.
fn describe(
    args: &RunArgs,
    settings: &Settings,
    server: &Server,
    prepared: Prepared,
    result: &LoadResult,
) -> Run {
    let mut throughput = result.measured.throughput.clone();
    throughput.aborted_clients_count = result.aborted.len() as u64;
    let mut run = Run {
        schema_version: SCHEMA_VERSION,
        lockscope_version: env!("CARGO_PKG_VERSION").to_owned(),
        started_at: result.started_at.clone(),
        command: scrub_arguments(std::env::args()),
        interrupted: result.ended != Ended::AsPlanned,
        workload: model::Workload {
            name: settings.workload.name.to_owned(),
            protocol: settings.protocol.to_string(),
            clients: args.load.client,
            jobs: settings.jobs,
            scale: prepared.tables.scale,
            duration_ns: result.measured.duration_ns,
            warmup_ns: settings.warmup_ns,
            pin_server: args.load.pin_server.as_ref().map(ToString::to_string),
            pin_client: args.load.pin_client.as_ref().map(ToString::to_string),
        },
        latency_ns: result.measured.latency.clone(),
        intervals: result.measured.intervals.clone(),
        warnings: warnings(args, &prepared, result),
        ..Run::default()
    };
    run.own_cost.load_cpu_ns_per_transaction =
        result.worker_cpu_ns.checked_div(throughput.transactions_count);
    run.throughput = throughput;
    run.environment.postgres = Some(prepared.postgres);
    if let Some(embedded) = &server.embedded {
        log::debug!("embedded server settings: {:?}", embedded.settings());
    }
    run
}

fn warnings(args: &RunArgs, prepared: &Prepared, result: &LoadResult) -> Vec<Warning> {
    let mut warnings = Vec::new();
    let mut warn = |code: &str, text: String, remedy: &str| {
        warnings.push(Warning { code: code.to_owned(), text, remedy: Some(remedy.to_owned()) });
    };
    if let Some(wanted) = args.tables.scale.filter(|wanted| *wanted != prepared.tables.scale) {
        let scale = prepared.tables.scale;
        let text = format!("-s {wanted} was not used: the tables have scale {scale}");
        warn("scale-ignored", text, "leave --no-init away to make tables of another scale");
    }
    if result.ended == Ended::Interrupted {
        let seconds = result.measured.duration_ns as f64 / 1e9;
        let text = format!("the run was interrupted after {seconds:.1} s of the measured part");
        warn("interrupted", text, "the numbers are those of the time that was measured");
    }
    if !result.aborted.is_empty() {
        let text = abort_text(&result.aborted, args.load.client);
        warn(
            "clients-aborted",
            text,
            "look into the server's log; fewer clients than asked for made the load",
        );
    }
    warnings
}

/// How many clients gave up, and the distinct reasons.
fn abort_text(aborted: &[AbortedClient], clients: u32) -> String {
    let mut reasons: Vec<String> = aborted.iter().map(|client| client.reason.to_string()).collect();
    reasons.sort();
    reasons.dedup();
    format!("{} of {clients} clients gave up: {}", aborted.len(), reasons.join("; "))
}

/// Prints first: a full disk must not cost the report.
fn report(
    args: &RunArgs,
    run: &Run,
    output: Option<OutputFile>,
    all_clients_ended_well: bool,
) -> Result<Exit, RunError> {
    let json = serde_json::to_string_pretty(run)? + "\n";
    // Until the text report exists, both forms are JSON.
    let _ = args.output.json;
    print_report(&json)?;
    for warning in &run.warnings {
        eprintln!("warning: {}", warning.text);
    }
    if let Some(output) = output {
        output.save(json.as_bytes())?;
    }
    Ok(if all_clients_ended_well { Exit::Done } else { Exit::ClientsAborted })
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
