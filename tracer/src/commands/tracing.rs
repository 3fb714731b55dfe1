//! The traced half of a run: attaches before the load starts, follows it, and hands over what was
//! found. Without tracing every call is a no-op, so that the run reads the same either way.

use std::collections::HashSet;
use std::fs;

use lockscope_ebpf::{Side, TaskAccount};

use crate::analyse::units;
use crate::attach::{Located, ServerAddress, ConnectionFacts, find_postmaster, role, translate_pid};
use crate::attach::processes::children;
use crate::attach::server::ServerError;
use crate::cli::TraceArgs;
use crate::kernel::Features;
use crate::ledger::Group;
use crate::load::{Endpoint, Target};
use crate::model::{Interval, Warning};
use crate::probe::{PlanError, TraceError, notes, plan};
use crate::session::{self, AttachOptions, Classify, Findings, OnlyTracer, OnlyTracerError, Session};

/// Tracing that was wanted and cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum TracingError {
    /// `--probe` asks for what cannot be.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// No lock can be seen.
    #[error(
        "cannot trace: {reason}. {remedy}; `lockscope doctor` tells more, `--no-trace` measures the load alone"
    )]
    Blind {
        /// Why.
        reason: String,
        /// What would help.
        remedy: String,
    },
    /// Another lockscope is tracing.
    #[error(transparent)]
    NotAlone(#[from] OnlyTracerError),
    /// The server's processes cannot be found.
    #[error(transparent)]
    Server(#[from] ServerError),
    /// The programs.
    #[error(transparent)]
    Trace(#[from] TraceError),
}

/// The traced half, if there is one.
pub(super) struct Tracing {
    active: Option<Active>,
    warnings: Vec<Warning>,
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

/// Who is who among the traced tasks.
struct Roles {
    postmaster: Option<u32>,
    /// Backends that serve this run's clients.
    own_backends: HashSet<u32>,
}

/// What the load looks like to the tracer.
pub(super) struct Load<'a> {
    pub(super) target: &'a Target,
    /// As the server numbers them.
    pub(super) backend_pids: &'a [u32],
    pub(super) worker_tids: Vec<u32>,
}

impl Tracing {
    /// Attaches, with the gate shut, and starts the accounts of all that exists now.
    pub(super) fn attach(args: &TraceArgs, load: &Load<'_>) -> Result<Tracing, TracingError> {
        if args.no_trace {
            return Ok(Tracing { active: None, warnings: Vec::new() });
        }
        let only = OnlyTracer::acquire()?;
        let features = Features::probe();
        let plan = plan(&features, &args.probes.options())?;
        if !plan.sees_locks() {
            let blind = plan.probes.iter().find(|probe| probe.remedy.is_some());
            let probe = blind.or(plan.probes.first());
            return Err(TracingError::Blind {
                reason: probe.map(|probe| probe.reason.clone()).unwrap_or_default(),
                remedy: probe.and_then(|probe| probe.remedy.clone()).unwrap_or_default(),
            });
        }
        let mut warnings = notes(&features, &plan);
        let options = AttachOptions {
            sample_threshold_ns: Some(args.sample_above.as_nanos().try_into().unwrap_or(u64::MAX)),
            sample_every: Some(args.sample_every),
        };
        let session = session::attach(plan, options)?;
        let roles = Roles::find(load, &mut warnings)?;
        let own_pid = std::process::id();
        session.trace_tasks(load.worker_tids.iter().map(|tid| (*tid, own_pid)), Side::Client)?;
        // The postmaster first: what it forks from now on joins by itself.
        session.trace_tasks(roles.postmaster.map(|pid| (pid, pid)), Side::Server)?;
        let server = roles.postmaster.map(children).unwrap_or_default();
        session.trace_tasks(server.iter().map(|process| (process.pid, process.pid)), Side::Server)?;
        let active = Active {
            session,
            roles,
            _only: only,
            interval_ns: 0,
            next_interval_ns: u64::MAX,
            interval_began_ns: 0,
        };
        Ok(Tracing { active: Some(active), warnings })
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
        active.interval_began_ns = active.session.begin(duration_ns, control)?;
        active.interval_ns = interval_ns;
        active.next_interval_ns = start_ns + interval_ns;
        Ok(())
    }

    /// When `tick` wants to be called next.
    pub(super) fn next_tick_ns(&self) -> u64 {
        self.active.as_ref().map_or(u64::MAX, |active| {
            active.session.next_tick_ns().min(active.next_interval_ns)
        })
    }

    /// A transaction has ended.
    pub(super) fn transaction(&mut self, ended_ns: u64, latency_ns: u64) {
        if let Some(active) = &mut self.active {
            active.session.transaction(ended_ns, latency_ns);
        }
    }

    /// Follows the schedule; at the end of an interval gives the live line's part.
    pub(super) fn tick(&mut self, now_ns: u64) -> Result<Option<String>, TracingError> {
        let Some(active) = &mut self.active else { return Ok(None) };
        active.session.tick()?;
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

    /// Detaches. The findings are absent without tracing.
    pub(super) fn finish(self) -> Result<(Option<Findings>, Vec<Warning>), TracingError> {
        let findings = self.active.map(|active| active.session.finish()).transpose()?;
        Ok((findings, self.warnings))
    }
}

impl Active {
    fn end_interval(&mut self) -> Result<String, TracingError> {
        let spin = self.session.end_interval(&self.roles)?;
        let per_transaction = |ns: u64| ns as f64 / spin.transactions_count.max(1) as f64;
        let mut note = format!("spin {}/tx", units::duration(per_transaction(spin.spin_ns)));
        if let Some(top) = &spin.top_lock {
            let share = units::duration(per_transaction(top.total_ns));
            note.push_str(&format!(", top {} {} {share}/tx", top.side.name(), top.class.name()));
        }
        Ok(note)
    }
}

impl Roles {
    fn find(load: &Load<'_>, warnings: &mut Vec<Warning>) -> Result<Roles, TracingError> {
        let backend_pid = load.backend_pids.first().copied();
        let postmaster = match locate(load.target, backend_pid)? {
            Located::Postmaster(pid) => Some(pid),
            Located::OutOfSight(reason) => {
                warnings.push(out_of_sight(&reason));
                None
            }
        };
        let own_backends = postmaster.map(|postmaster| {
            let inside = load.backend_pids.iter();
            inside.filter_map(|pid| translate_pid(postmaster, *pid)).collect()
        });
        Ok(Roles { postmaster, own_backends: own_backends.unwrap_or_default() })
    }
}

/// The first of the target's places that leads to a postmaster.
fn locate(target: &Target, backend_pid: Option<u32>) -> Result<Located, TracingError> {
    let mut reason = "no address of it is known".to_owned();
    for endpoint in target.endpoints() {
        let server = match endpoint {
            Endpoint::Unix(path) => ServerAddress::Unix(path.clone()),
            Endpoint::Tcp(host, port) => match resolve(host, *port) {
                Some(address) => ServerAddress::Tcp(address),
                None => continue,
            },
        };
        match find_postmaster(&ConnectionFacts { server, client: None, backend_pid })? {
            Located::Postmaster(pid) => return Ok(Located::Postmaster(pid)),
            Located::OutOfSight(why) => reason = why,
        }
    }
    Ok(Located::OutOfSight(reason))
}

fn out_of_sight(reason: &str) -> Warning {
    Warning {
        code: "client-side-only".to_owned(),
        text: format!("the server's processes are not traced: {reason}"),
        remedy: Some("run lockscope on the server's machine to see the server's side".to_owned()),
    }
}

impl Classify for Roles {
    fn classify(&self, tid: u32, account: &TaskAccount) -> Option<(String, Group)> {
        if account.side == Side::Client as u8 {
            return Some(("load worker".to_owned(), Group::Client));
        }
        if Some(tid) == self.postmaster {
            return Some(("postmaster".to_owned(), Group::Background));
        }
        let title = fs::read(format!("/proc/{tid}/cmdline")).ok()?;
        let title = String::from_utf8_lossy(&title);
        let role = role::role_of_title(title.trim_end_matches('\0').trim_end());
        let own = self.own_backends.contains(&tid);
        let group = if own || role == "parallel worker" { Group::Backend } else { Group::Background };
        Some((role.to_owned(), group))
    }
}
