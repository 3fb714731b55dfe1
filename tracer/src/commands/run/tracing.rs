//! The traced half of a run: attaches before the load starts, follows it, and hands over what was
//! found. Without tracing every call is a no-op, so that the run reads the same either way.

use lockscope_ebpf::Side;

use super::roles::{Load, Roles};
use crate::analyse::units;
use crate::attach::server::ServerError;
use crate::attach::{children, wait_event_address};
use crate::cli::{FilterArgs, TraceArgs};
use crate::filter::{Filter, FilterError};
use crate::kernel::Features;
use crate::load::{Outcome, TransactionRecord};
use crate::model::Warning;
use crate::probe::{
    AttachPlan, Capability, Choice, PlanError, PlanOptions, TraceError, TracedTask, notes, plan,
};
use crate::session::{self, AttachOptions, Findings, OnlyTracer, OnlyTracerError, Session};

/// Room for this many tasks at least.
const TASKS_LEAST: u32 = 4096;

/// Tracing that was wanted and cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum TracingError {
    /// `--probe` asks for what cannot be.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// No lock can be seen.
    #[error(
        "cannot trace: {reason}; {remedy}; `lockscope doctor` tells more, `--no-trace` measures the load alone"
    )]
    Blind {
        /// Why.
        reason: String,
        /// What would help.
        remedy: String,
    },
    /// The user left nothing.
    #[error(
        "cannot trace: --probe lock-waits=off leaves no lock to see here ({reason}); leave it away, or measure the load alone with --no-trace"
    )]
    LeftOut {
        /// Why functions do not show any either.
        reason: String,
    },
    /// Another lockscope is tracing.
    #[error(transparent)]
    NotAlone(#[from] OnlyTracerError),
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
    /// A filter that names nothing.
    #[error(transparent)]
    Filter(#[from] FilterError),
    /// The programs.
    #[error(transparent)]
    Trace(#[from] TraceError),
}

/// Tracing that can be had: found out, and claimed, before a server is made for nothing.
pub(super) struct Possible {
    plan: AttachPlan,
    filter: Filter,
    warnings: Vec<Warning>,
    only: OnlyTracer,
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

impl Possible {
    /// Looks at the kernel; `None` where no tracing is wanted.
    pub(super) fn find(
        args: &TraceArgs,
        filter: &FilterArgs,
    ) -> Result<Option<Possible>, TracingError> {
        if args.no_trace {
            return Ok(None);
        }
        let filter = Filter::find(&filter.options())?;
        let only = OnlyTracer::acquire()?;
        let features = Features::probe();
        let options = args.programs.probes.options();
        let plan = plan(&features, &options)?;
        if !plan.sees_locks() {
            return Err(blind(&plan, &options));
        }
        for pid in &args.also_pid {
            threads(*pid)?;
        }
        Ok(Some(Possible { warnings: notes(&features, &plan), plan, filter, only }))
    }
}

/// Why no lock can be seen.
fn blind(plan: &AttachPlan, options: &PlanOptions) -> TracingError {
    let probe = plan.probes.iter().find(|probe| probe.remedy.is_some()).or(plan.probes.first());
    let reason = probe.map(|probe| probe.reason.clone()).unwrap_or_default();
    if options.choices.get(&Capability::LockWaits) == Some(&Choice::Off) {
        return TracingError::LeftOut { reason };
    }
    let remedy = probe.and_then(|probe| probe.remedy.clone()).unwrap_or_default();
    TracingError::Blind { reason, remedy }
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
        filter.tasks.check_names()?;
        let options = AttachOptions {
            sample_threshold_ns: Some(
                args.programs.sample_above.as_nanos().try_into().unwrap_or(u64::MAX),
            ),
            sample_every: Some(args.programs.sample_every),
            bpf_log: args.programs.bpf_log,
            // Backends may have parallel workers, and come and go between two readings.
            tasks: Some(
                args.programs.max_tasks.unwrap_or_else(|| TASKS_LEAST.max(4 * load.tasks_count())),
            ),
            locks: args.programs.max_locks,
            ring_bytes: args.programs.ring_bytes,
            only_tasks: !filter.tasks.is_empty(),
            waits: filter.waits.clone(),
        };
        let session = session::attach(plan, &options)?;
        let roles = Roles::find(load, &mut warnings)?;
        let own_pid = std::process::id();
        let trace = |tasks: Vec<TracedTask>| {
            let passing = |task: &TracedTask| filter.tasks.passes(task.tid, task.tgid);
            session.trace_tasks(tasks.into_iter().filter(passing))
        };
        let workers = load.worker_tids.iter();
        trace(workers.map(|tid| thread(*tid, own_pid, Side::Client)).collect())?;
        let wait_event_address = wait_events(&roles, &session, &mut warnings);
        let server = |pid| TracedTask { wait_event_address, ..thread(pid, pid, Side::Server) };
        // The postmaster first: what it forks from now on joins by itself.
        trace(roles.postmaster.map(server).into_iter().collect())?;
        let processes = roles.postmaster.map(children).unwrap_or_default();
        trace(processes.iter().map(|process| server(process.pid)).collect())?;
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
    TracedTask { tid, tgid, side, wait_event_address: None }
}

/// Where the server's processes keep what they wait for; that it is not known is said.
fn wait_events(roles: &Roles, session: &Session, warnings: &mut Vec<Warning>) -> Option<u64> {
    if !session.plan().has(Capability::Scheduling) {
        return None;
    }
    wait_event_address(roles.postmaster?)
        .map_err(|error| {
            warnings.push(Warning {
                code: "wait-classes-unknown".to_owned(),
                text: format!("Postgres's waits are shown as `unknown`: {error}"),
                remedy: Some("Postgres 14 and newer tell what a backend waits for".to_owned()),
            });
        })
        .ok()
}

fn threads(pid: u32) -> Result<Vec<u32>, TracingError> {
    let entries = std::fs::read_dir(format!("/proc/{pid}/task"))
        .map_err(|source| TracingError::AlsoPid { pid, source })?;
    let tid =
        |entry: std::fs::DirEntry| entry.file_name().to_str().and_then(|name| name.parse().ok());
    Ok(entries.filter_map(|entry| entry.ok().and_then(tid)).collect())
}
