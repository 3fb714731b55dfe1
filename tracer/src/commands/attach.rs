//! `lockscope attach`: traces what others run.

mod client;
mod outcome;
mod roles;
mod server;
mod target;
mod trace;
mod view;

use std::path::PathBuf;

use super::Exit;
use super::output::{OutputError, OutputFile};
use super::possible::{NotPossible, Possible, attach_options};
use crate::attach::command::CommandError;
use crate::attach::servers::NoSuchServer;
use crate::cli::AttachArgs;
use crate::load::TargetError;
use crate::load::server::ControlError;
use crate::probe::TraceError;
use crate::session;
use crate::signals::Interrupt;
use client::{Client, sessions_before_load};
use roles::Roles;
use trace::Trace;

/// Room for this many tasks at least, and for as many again that come.
const TASKS_LEAST: u32 = 4096;

/// Nothing to attach to, or it cannot be traced.
#[derive(Debug, thiserror::Error)]
pub enum AttachError {
    /// No target.
    #[error(
        "attach to what? Name a server (--postgres PORT), tasks (--pid, --tid, --comm, --cgroup, --container), the whole machine (--all) or a command (-- pgbench …)\n{0}"
    )]
    NoTarget(String),
    /// A command, and several servers that it may be for.
    #[error("which server does the command use? Name it with --postgres PORT|DIR|PID\n{0}")]
    WhichServer(String),
    /// `--postgres` names none.
    #[error(transparent)]
    Server(#[from] NoSuchServer),
    /// `--postgres` names one twice.
    #[error("--postgres names the server {0} twice; name each once")]
    SameServer(String),
    /// More servers than there is room for.
    #[error("--postgres names {given} servers; at most {most} can be traced at once")]
    TooManyServers {
        /// As given.
        given: usize,
        /// Room.
        most: usize,
    },
    /// Filters that no task passes.
    #[error("no task passes {0} now; give what runs already, or widen the filter")]
    NobodyPasses(String),
    /// The kernel does not tell who is connected.
    #[error("cannot find the server's clients: {0}")]
    Peers(std::io::Error),
    /// The command.
    #[error(transparent)]
    Command(CommandError),
    /// The file of `--progress-from`.
    #[error(
        "--progress-from {path}: {source}; give the file that the benchmark's output is written to",
        path = .path.display()
    )]
    Progress {
        /// As given.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The connection string of `--dsn`.
    #[error(transparent)]
    Target(#[from] TargetError),
    /// The session of `--dsn`.
    #[error("--dsn: {0}")]
    View(#[from] ControlError),
    /// It is not possible on this machine, or not now.
    #[error(transparent)]
    NotPossible(#[from] NotPossible),
    /// The programs.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// The file of `-o`.
    #[error(transparent)]
    Output(#[from] OutputError),
    /// Signals cannot be asked for.
    #[error("cannot prepare the trace: {0}")]
    Io(#[from] std::io::Error),
}

/// Traces until the time is over, the command or target has ended or the user ends it, and reports.
pub fn attach(args: &AttachArgs) -> Result<Exit, AttachError> {
    let servers = target::servers(args)?;
    let output = args.output.output.as_deref().map(OutputFile::create).transpose()?;
    let Possible { plan, filter, warnings, only: _only } =
        Possible::find(&args.programs, &args.filter)?;
    filter.tasks.check_names().map_err(NotPossible::from)?;
    let servers = target::with_container(servers, args, &filter);
    let interrupt = Interrupt::install()?;
    let client = Client::prepare(args)?;
    let sessions = sessions_before_load(&args.client);
    let sets = u32::try_from(servers.len().max(1)).unwrap_or(u32::MAX);
    let mut roles = Roles::new(servers, client.started(), sessions > 0, !args.postgres.is_empty());
    let view = view::open(args)?;
    view::leave_out(view.as_ref(), &mut roles);
    let tasks = roles.tasks(&filter)?;
    let room = u32::try_from(2 * tasks.len()).unwrap_or(u32::MAX).max(TASKS_LEAST);
    if tasks.is_empty() && !args.all {
        return Err(AttachError::NobodyPasses(filter.words.join("; ")));
    }
    let mut options = attach_options(&args.programs, &filter, room);
    options.latency_sets = Some(sets);
    let session = session::attach(plan, &options)?;
    session.leave_out_sessions(sessions)?;
    session.trace_tasks(tasks)?;
    Trace::new(args, filter, session, roles, warnings).follow(&interrupt, client, view, output)
}
