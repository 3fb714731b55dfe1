//! The traced half of a run: attaches before the load starts, follows it, and hands over what was
//! found. Without tracing every call is a no-op, so that the run reads the same either way.

use lockscope_ebpf::Side;

use super::roles::{Load, Roles};
use crate::analyse::units;
use crate::attach::server::ServerError;
use crate::attach::{Addresses, ProcessTable, addresses, encrypted_status};
use crate::cli::{FilterArgs, TraceArgs};
use crate::commands::possible::{NotPossible, Possible, attach_options};
use crate::filter::Filter;
use crate::kernel::task;
use crate::load::{Outcome, TransactionRecord};
use crate::model::Warning;
use crate::probe::{Capability, TraceError, TracedTask};
use crate::session::{self, Findings, OnlyTracer, Session};

/// Room for this many tasks at least.
const TASKS_LEAST: u32 = 4096;

/// Tracing that was wanted and cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum TracingError {
    /// It is not possible on this machine, or not now.
    #[error(transparent)]
    NotPossible(#[from] NotPossible),
    /// The server's processes cannot be found.
    #[error(transparent)]
    Server(#[from] ServerError),
    /// `--also-pid` names nothing.
    #[error("--also-pid {pid}: cannot list the threads of this process: {source}")]
    AlsoPid {
        /// As given.
        pid: u32,
        /// What the system said.
        source: std::io::Error,
    },
    /// The programs.
    #[error(transparent)]
    Trace(#[from] TraceError),
}

/// `None` where no tracing is wanted.
pub(super) fn possible(
    args: &TraceArgs,
    filter: &FilterArgs,
) -> Result<Option<Possible>, TracingError> {
    if args.no_trace {
        return Ok(None);
    }
    let possible = Possible::find(&args.programs, filter)?;
    for pid in &args.also_pid {
        threads(*pid)?;
    }
    Ok(Some(possible))
}

/// The traced half, if there is one.
pub(super) struct Tracing {
    active: Option<Active>,
    filter: Filter,
    warnings: Vec<Warning>,
}

/// What tracing yields.
pub(super) struct Traced {
    /// Absent without tracing.
    pub(super) findings: Option<Findings>,
    pub(super) filter: Filter,
    pub(super) warnings: Vec<Warning>,
}

struct Active {
    session: Session,
    roles: Roles,
    /// Held until the end: two tracers would measure each other.
    _only: OnlyTracer,
    interval_ns: u64,
    next_interval_ns: u64,
    interval_began_ns: u64,
}

impl Tracing {
    /// No tracing at all.
    pub(super) fn none() -> Self {
        Self { active: None, filter: Filter::default(), warnings: Vec::new() }
    }

    /// Attaches, with the gate shut, and starts the accounts of all that exists now.
    pub(super) fn attach(
        possible: Option<Possible>,
        args: &TraceArgs,
        load: &Load<'_>,
    ) -> Result<Tracing, TracingError> {
        let Some(Possible { plan, filter, mut warnings, only }) = possible else {
            return Ok(Tracing::none());
        };
        filter.tasks.check_names().map_err(NotPossible::from)?;
        // Backends may have parallel workers, and come and go between two readings.
        let tasks = TASKS_LEAST.max(4 * load.tasks_count());
        let options = attach_options(&args.programs, &filter, tasks);
        let session = session::attach(plan, &options)?;
        let roles = Roles::find(load, &mut warnings)?;
        let own_pid = std::process::id();
        let trace = |tasks: Vec<TracedTask>| {
            let passing = |task: &TracedTask| filter.tasks.passes(task.tid, task.tgid);
            session.trace_tasks(tasks.into_iter().filter(passing))
        };
        let workers = load.worker_tids.iter();
        trace(workers.map(|tid| thread(*tid, own_pid, Side::Client)).collect())?;
        let memory = server_memory(&roles, &session, &mut warnings);
        let server = |pid| TracedTask {
            wait_event_address: memory.wait_event,
            status_address: roles
                .own_pid(pid)
                .and_then(|own| encrypted_status(pid, own, memory.status_entry)),
            counted: u8::from(roles.own_pid(pid).is_some()),
            ..thread(pid, pid, Side::Server)
        };
        // The postmaster first: what it forks from now on joins by itself.
        trace(roles.postmaster.map(server).into_iter().collect())?;
        let processes = ProcessTable::read();
        let children = roles.postmaster.map(|pid| processes.children(pid)).unwrap_or_default();
        trace(children.iter().map(|child| server(child.pid)).collect())?;
        for pid in &args.also_pid {
            let tids = threads(*pid)?.into_iter();
            trace(tids.map(|tid| thread(tid, *pid, Side::Other)).collect())?;
        }
        let active = Active {
            session,
            roles,
            _only: only,
            interval_ns: 0,
            next_interval_ns: u64::MAX,
            interval_began_ns: 0,
        };
        Ok(Tracing { active: Some(active), filter, warnings })
    }

    /// The measured part begins.
    pub(super) fn begin(
        &mut self,
        start_ns: u64,
        duration_ns: Option<u64>,
        interval_ns: u64,
        control: bool,
    ) -> Result<(), TracingError> {
        let Some(active) = &mut self.active else { return Ok(()) };
        active.interval_began_ns = active.session.begin(&active.roles, duration_ns, control)?;
        active.interval_ns = interval_ns;
        active.next_interval_ns = start_ns + interval_ns;
        Ok(())
    }

    /// When `tick` wants to be called next.
    pub(super) fn next_tick_ns(&self) -> u64 {
        self.active
            .as_ref()
            .map_or(u64::MAX, |active| active.session.next_tick_ns().min(active.next_interval_ns))
    }

    /// A transaction of the load has ended.
    pub(super) fn record(&mut self, record: &TransactionRecord) {
        if let Some(active) = &mut self.active
            && record.outcome == Outcome::Committed
        {
            let backend = active.roles.backend(record.backend_pid);
            active.session.transaction(record.received_ns, record.latency_ns(), backend);
        }
    }

    /// Follows the schedule; at the end of an interval gives the live line's part.
    pub(super) fn tick(&mut self, now_ns: u64) -> Result<Option<String>, TracingError> {
        let Some(active) = &mut self.active else { return Ok(None) };
        active.session.tick(&active.roles)?;
        if now_ns < active.next_interval_ns {
            return Ok(None);
        }
        active.next_interval_ns += active.interval_ns;
        active.end_interval().map(Some)
    }

    /// The measured part has ended; the backends still live.
    pub(super) fn stop(&mut self) -> Result<(), TracingError> {
        let Some(active) = &mut self.active else { return Ok(()) };
        Ok(active.session.stop(&active.roles)?)
    }

    /// Detaches.
    pub(super) fn finish(self) -> Result<Traced, TracingError> {
        let findings = self.active.map(|active| active.session.finish()).transpose()?;
        Ok(Traced { findings, filter: self.filter, warnings: self.warnings })
    }
}

impl Active {
    fn end_interval(&mut self) -> Result<String, TracingError> {
        let interval = self.session.end_interval(&self.roles)?;
        // An interval in which no transaction ended has only a rate.
        let (divisor, unit) = match interval.transactions_count {
            0 => (self.interval_ns as f64 / 1e9, "s"),
            count => (count as f64, "tx"),
        };
        let mean = |ns: u64| units::duration(ns as f64 / divisor);
        let mut note = format!("spin {}/{unit}", mean(interval.spin_ns));
        if let Some((class, ns)) = interval.top {
            note.push_str(&format!(", top lock {} {}/{unit}", class.name(), mean(ns)));
        }
        Ok(note)
    }
}

fn thread(tid: u32, tgid: u32, side: Side) -> TracedTask {
    // The load's threads are all there before it starts; what its scripts' shell commands do is not its.
    TracedTask { followed: side != Side::Client, ..TracedTask::plain(tid, tgid, side) }
}

/// Where the server's processes keep what they tell of themselves; that it is not known is said.
fn server_memory(roles: &Roles, session: &Session, warnings: &mut Vec<Warning>) -> Addresses {
    let unknown = Addresses { wait_event: None, status_entry: None };
    let Some(postmaster) = roles.postmaster.filter(|_| session.plan().has(Capability::Scheduling))
    else {
        return unknown;
    };
    let (found, why) = match addresses(postmaster) {
        Ok(found) => (found, "this server has no `my_wait_event_info`".to_owned()),
        Err(error) => (unknown, error.to_string()),
    };
    if found.wait_event.is_none() {
        warnings.push(Warning {
            code: "wait-classes-unknown".to_owned(),
            text: format!("Postgres's waits are shown as `unknown`: {why}"),
            remedy: Some("Postgres 14 and newer tell what a backend waits for".to_owned()),
        });
    }
    found
}

fn threads(pid: u32) -> Result<Vec<u32>, TracingError> {
    let tids = task::tids(pid).map_err(|source| TracingError::AlsoPid { pid, source })?;
    Ok(tids.collect())
}
