//! A server with its tables, on which one run is made, or several.

use std::sync::Arc;

use super::RunError;
use super::describe::describe;
use super::measure::measure;
use super::roles::Load;
use super::settings::Settings;
use super::tracing::{Tracing, TracingError, possible};
use crate::cli::{FilterArgs, JobArgs, TraceArgs};
use crate::commands::possible::Possible;
use crate::commands::progress::init_bar;
use crate::load::log::Logs;
use crate::load::server::{Control, EmbeddedOptions, EmbeddedServer, TableOptions, Tables};
use crate::load::workload::Workload;
use crate::load::{AbortedClient, ConnectedLoad, LoadPlan, Target, deal};
use crate::model::{self, Run};
use crate::signals::Interrupt;

/// A server with its tables. A throw-away server goes with it.
pub(in crate::commands) struct Stage {
    pub(super) server: Server,
    pub(super) prepared: Prepared,
}

/// The server of the run, made for it or not.
pub(super) struct Server {
    pub(super) embedded: Option<EmbeddedServer>,
    pub(super) target: Arc<Target>,
}

/// What set-up found and left.
pub(super) struct Prepared {
    pub(super) postgres: model::Postgres,
    pub(super) tables: Tables,
}

/// How a run is to be traced, found possible before anything is touched.
pub(in crate::commands) struct TracerPlan<'a> {
    args: Option<&'a TraceArgs>,
    possible: Option<Possible>,
}

/// A run that was made.
pub(in crate::commands) struct Performed {
    pub(in crate::commands) run: Run,
    /// Clients that gave up.
    pub(in crate::commands) aborted: Vec<AbortedClient>,
}

impl<'a> TracerPlan<'a> {
    /// No arguments: no tracing.
    pub(in crate::commands) fn new(
        args: Option<(&'a TraceArgs, &FilterArgs)>,
    ) -> Result<Self, TracingError> {
        let possible = args.map(|(trace, filter)| possible(trace, filter)).transpose()?.flatten();
        Ok(Self { args: args.map(|(trace, _)| trace), possible })
    }
}

impl Stage {
    /// Starts the server, if it is to be a throw-away one, with room for so many clients, and makes the
    /// tables ready.
    pub(in crate::commands) fn set(
        args: &JobArgs,
        settings: &Settings,
        most_clients: u32,
        interrupt: &Interrupt,
    ) -> Result<Self, RunError> {
        let server = Server::open(args, settings, most_clients, interrupt)?;
        let prepared = prepare(args, settings, &server, interrupt)?;
        Ok(Self { server, prepared })
    }

    /// Makes one run. `args` may differ from those of [`Stage::set`] in all but server and tables.
    pub(in crate::commands) fn perform(
        &self,
        args: &JobArgs,
        settings: &Settings,
        tracer: TracerPlan<'_>,
        interrupt: &Interrupt,
    ) -> Result<Performed, RunError> {
        let Self { server, prepared } = self;
        let workers = deal(args.load.client, settings.jobs);
        let logs =
            settings.log.clone().map(|options| Logs::create(options, &workers)).transpose()?;
        let connected = plan(args, settings, server, prepared).connect(interrupt)?;

        // The server's processes, the clients' backends and the worker threads exist, nothing runs yet.
        let tracing = match tracer.args {
            Some(trace) => Tracing::attach(tracer.possible, trace, &load_of(server, &connected))?,
            None => Tracing::none(),
        };
        let result = measure(args, settings, connected, tracing, logs, interrupt)?;
        let run = describe(args, settings, server, prepared, &result);
        Ok(Performed { run, aborted: result.aborted })
    }
}

fn load_of<'a>(server: &'a Server, connected: &'a ConnectedLoad) -> Load<'a> {
    Load {
        target: &server.target,
        backend_pids: connected.backend_pids(),
        worker_tids: connected.worker_tids(),
    }
}

impl Server {
    fn open(
        args: &JobArgs,
        settings: &Settings,
        most_clients: u32,
        interrupt: &Interrupt,
    ) -> Result<Self, RunError> {
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
            clients: most_clients,
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
/// left as it is, and so is any with `--no-init`; the scale is what the user says.
fn tables(
    args: &JobArgs,
    settings: &Settings,
    server: &Server,
    control: &Control,
) -> Result<Tables, RunError> {
    let workload = settings.scripts.workload();
    let leave = server.embedded.is_none() || args.tables.no_init;
    if workload.is_none() && leave && !args.tables.force_init {
        let tables = Tables::none(args.tables.scale.unwrap_or(1));
        if args.tables.vacuum_all {
            tables.vacuum_all(control)?;
        }
        return Ok(tables);
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
