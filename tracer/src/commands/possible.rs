//! Whether tracing can be had at all: found out, and claimed, before anything is made for it.

use crate::cli::{FilterArgs, ProgramArgs};
use crate::filter::{Filter, FilterError};
use crate::kernel::Features;
use crate::model::Warning;
use crate::probe::{AttachPlan, Capability, Choice, PlanError, PlanOptions, notes, plan};
use crate::session::{AttachOptions, OnlyTracer, OnlyTracerError};

/// Tracing that was wanted and cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum NotPossible {
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
    /// A filter that names nothing.
    #[error(transparent)]
    Filter(#[from] FilterError),
}

/// Tracing that can be had.
pub(super) struct Possible {
    pub(super) plan: AttachPlan,
    pub(super) filter: Filter,
    pub(super) warnings: Vec<Warning>,
    /// Held until the end: two tracers would measure each other.
    pub(super) only: OnlyTracer,
}

impl Possible {
    /// Looks at the options, the kernel and other tracers.
    pub(super) fn find(
        programs: &ProgramArgs,
        filter: &FilterArgs,
    ) -> Result<Possible, NotPossible> {
        let filter = Filter::find(&filter.options())?;
        let only = OnlyTracer::acquire()?;
        let features = Features::probe();
        let options = programs.probes.options();
        let plan = plan(&features, &options)?;
        if !plan.sees_locks() {
            return Err(blind(&plan, &options));
        }
        Ok(Possible { warnings: notes(&features, &plan), plan, filter, only })
    }
}

/// Why no lock can be seen.
fn blind(plan: &AttachPlan, options: &PlanOptions) -> NotPossible {
    let probe = plan.probes.iter().find(|probe| probe.remedy.is_some()).or(plan.probes.first());
    let reason = probe.map(|probe| probe.reason.clone()).unwrap_or_default();
    if options.choices.get(&Capability::LockWaits) == Some(&Choice::Off) {
        return NotPossible::LeftOut { reason };
    }
    let remedy = probe.and_then(|probe| probe.remedy.clone()).unwrap_or_default();
    NotPossible::Blind { reason, remedy }
}

/// What the command line says about the programs; room for `tasks` unless it says otherwise.
pub(super) fn attach_options(programs: &ProgramArgs, filter: &Filter, tasks: u32) -> AttachOptions {
    AttachOptions {
        sample_threshold_ns: Some(programs.sample_above.as_nanos().try_into().unwrap_or(u64::MAX)),
        sample_every: Some(programs.sample_every),
        bpf_log: programs.bpf_log,
        tasks: Some(programs.max_tasks.unwrap_or(tasks)),
        locks: programs.max_locks,
        ring_bytes: programs.ring_bytes,
        latency_sets: None,
        only_tasks: !filter.tasks.is_empty(),
        waits: filter.waits.clone(),
        sampling_hz: programs.profile.sampling_hz(),
        counters: !programs.profile.no_counters,
    }
}
