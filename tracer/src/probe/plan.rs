//! The attach plan: for each capability the best way that a kernel with these features offers.
//!
//! Pure: what a plan says about any kernel can be tested without that kernel.

use std::collections::BTreeMap;

use lockscope_ebpf::LockClass;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::capability::{Capability, Method};
use super::options::{Choice, Depth, PlanOptions, Prefer};
use super::programs::{Hook, ProgramSpec, programs};
use super::search::search;
use crate::kernel::Features;
use crate::model;

/// A request that cannot be met. The command ends with exit code 2.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum PlanError {
    /// No such capability.
    #[error("unknown capability `{given}`; {suggestion}")]
    UnknownCapability {
        /// As given.
        given: String,
        /// A near miss, or the known names.
        suggestion: String,
    },
    /// No such method.
    #[error("unknown method `{given}`; {suggestion}")]
    UnknownMethod {
        /// As given.
        given: String,
        /// A near miss, or the known names.
        suggestion: String,
    },
    /// Not of the form `CAPABILITY=METHOD`.
    #[error(
        "`{0}` is not CAPABILITY=METHOD; for example `--probe osq=kprobe` or `--probe osq=off`"
    )]
    Form(String),
    /// The requested method does not work here.
    #[error("--probe {capability}={requested} cannot work here: {reason}{}", remedy_clause(remedy))]
    Impossible {
        /// Which.
        capability: Capability,
        /// `on` or the method's name.
        requested: String,
        /// Why not.
        reason: String,
        /// What would help.
        remedy: Option<String>,
    },
}

fn remedy_clause(remedy: &Option<String>) -> String {
    remedy.as_ref().map(|remedy| format!(". Remedy: {remedy}")).unwrap_or_default()
}

/// How one capability is attached, or why not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlannedProbe {
    /// Which.
    pub capability: Capability,
    /// How.
    pub method: Method,
    /// Tracepoints (`lock:contention_begin`) or functions to attach to.
    pub targets: Vec<String>,
    /// Why this method, or why none.
    pub reason: String,
    /// What the report lacks because of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lost: Option<String>,
    /// What to do about that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
}

impl PlannedProbe {
    /// Whether anything is attached.
    pub fn is_attached(&self) -> bool {
        self.method != Method::None
    }
}

impl From<&PlannedProbe> for model::Probe {
    fn from(probe: &PlannedProbe) -> Self {
        model::Probe {
            capability: probe.capability.to_string(),
            method: probe.method.to_string(),
            targets: probe.targets.clone(),
            reason: probe.reason.clone(),
            lost: probe.lost.clone(),
        }
    }
}

/// One entry a capability, in the order of [`Capability::ALL`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttachPlan {
    /// The entries.
    pub probes: Vec<PlannedProbe>,
}

impl AttachPlan {
    /// The entry of a capability.
    pub fn probe(&self, capability: Capability) -> Option<&PlannedProbe> {
        self.probes.iter().find(|probe| probe.capability == capability)
    }

    /// Whether a capability is attached.
    pub fn has(&self, capability: Capability) -> bool {
        self.probe(capability).is_some_and(PlannedProbe::is_attached)
    }

    /// The programs to attach, each with its probe; none for a variant of a function that this kernel
    /// does not have. Where scheduling is attached, its program takes
    /// the holders' stacks too: one event, one program.
    pub(super) fn programs(&self) -> impl Iterator<Item = (&PlannedProbe, ProgramSpec)> {
        let is_shared = |probe: &&PlannedProbe| {
            probe.capability == Capability::HolderStack && self.has(Capability::Scheduling)
        };
        let own = self.probes.iter().filter(move |probe| !is_shared(probe));
        own.flat_map(|probe| {
            let specs = programs(probe.capability, probe.method).into_iter();
            let has_target = |spec: &ProgramSpec| match spec.hook {
                Hook::Function(index) => index < probe.targets.len(),
                Hook::Tracepoint(..) => true,
            };
            specs.filter(has_target).map(move |spec| (probe, spec))
        })
    }

    /// The lock classes that the attached probes tell. `knows_run_queues`: the addresses of the
    /// run-queue locks are known, without which they are plain spinlocks.
    pub fn measured_classes(&self, knows_run_queues: bool) -> Vec<LockClass> {
        let is_measured = |class: &LockClass| match class {
            LockClass::Osq => self.has(Capability::Osq),
            LockClass::MutexOwner => self.has(Capability::MutexOwner),
            LockClass::RwsemOwner => self.has(Capability::RwsemOwner),
            LockClass::Qspinlock => self.sees(Capability::Qspinlock),
            LockClass::Rq => self.sees(Capability::Qspinlock) && knows_run_queues,
            LockClass::MutexSpin | LockClass::Mutex => self.sees(Capability::MutexWaits),
            LockClass::Rwlock => self.sees(Capability::RwlockWaits),
            LockClass::Rwsem => self.sees(Capability::RwsemWaits),
            LockClass::PercpuRwsem => self.sees(Capability::PercpuRwsemWaits),
            LockClass::Semaphore => self.sees(Capability::SemaphoreWaits),
            LockClass::RtMutex => self.has(Capability::LockWaits),
        };
        LockClass::ALL.into_iter().filter(is_measured).collect()
    }

    /// Whether the waits that a capability stands in for are told, by it or by the tracepoints.
    fn sees(&self, capability: Capability) -> bool {
        self.has(Capability::LockWaits) || self.has(capability)
    }

    /// Whether any sleeping lock is observed whose holder can be known.
    pub(super) fn sees_holders(&self) -> bool {
        self.sees(Capability::MutexWaits) || self.sees(Capability::RwsemWaits)
    }

    /// Whether any lock is observed: without that there is nothing to trace.
    pub fn sees_locks(&self) -> bool {
        use Capability::{LockWaits, MutexOwner, Osq, RwsemOwner};
        let tells = |capability: &Capability| {
            [LockWaits, Osq, MutexOwner, RwsemOwner].contains(capability)
                || capability.stands_in_for_lock_waits()
        };
        Capability::ALL.iter().filter(|capability| tells(capability)).any(|lock| self.has(*lock))
    }
}

/// Decides for every capability.
pub fn plan(features: &Features, options: &PlanOptions) -> Result<AttachPlan, PlanError> {
    let mut plan = AttachPlan { probes: Vec::with_capacity(Capability::ALL.len()) };
    for capability in Capability::ALL {
        let probe = match options.choice(capability) {
            Choice::Off => unattached(capability, "off by --probe".into(), None),
            Choice::Auto => match left_out(features, options, capability, &plan) {
                Some(probe) => probe,
                None => automatic(features, options, capability),
            },
            Choice::On => search(features, capability, &methods(options.prefer))
                .map_err(|failure| failure.into_error(capability, "on".into()))?,
            Choice::Method(method) => search(features, capability, &[method])
                .map_err(|failure| failure.into_error(capability, method.to_string()))?,
        };
        plan.probes.push(probe);
    }
    Ok(plan)
}

/// Every method that a capability can be attached by: what `--probe` can ask for on this kernel.
pub fn choices(features: &Features) -> BTreeMap<Capability, Vec<Method>> {
    let works = |capability, method: &Method| search(features, capability, &[*method]).is_ok();
    let methods_of = |capability| {
        Method::ATTACHING.into_iter().filter(move |method| works(capability, method)).collect()
    };
    Capability::ALL.into_iter().map(|capability| (capability, methods_of(capability))).collect()
}

/// What is not attached although it could be.
fn left_out(
    features: &Features,
    options: &PlanOptions,
    capability: Capability,
    so_far: &AttachPlan,
) -> Option<PlannedProbe> {
    if matches!(capability, Capability::HoldEnd | Capability::HolderStack) && !so_far.sees_holders()
    {
        let reason = "no wait for a mutex or rw_semaphore is seen, and so none of their holders";
        let remedy = so_far.probe(Capability::LockWaits).and_then(|waits| waits.remedy.clone());
        return Some(unattached(capability, reason.to_owned(), remedy));
    }
    let served = capability.stands_in_for_lock_waits() && so_far.has(Capability::LockWaits);
    let deep = matches!(capability, Capability::Scheduling | Capability::Requests);
    let shallow = capability == Capability::Scheduling && options.depth == Depth::Locks;
    let (reason, lost) = match capability.facts().only_on_request {
        _ if shallow => ("left out by --depth locks", capability.facts().lost),
        _ if served && capability == Capability::Qspinlock => (
            "lock-waits sees spinlocks too",
            "spins that end on the pending bit, before they queue",
        ),
        _ if served => ("lock-waits sees the same", "nothing that lock-waits does not tell"),
        Some(reason) if !deep || options.depth == Depth::Locks => (reason, capability.facts().lost),
        _ => return None,
    };
    let (reason, remedy) = match search(features, capability, &methods(options.prefer)) {
        Ok(_) => (reason.to_owned(), Some(format!("--probe {capability}=on"))),
        Err(failure) if served => (reason.to_owned(), failure.remedy(capability)),
        Err(failure) => (failure.reason(), failure.remedy(capability)),
    };
    Some(PlannedProbe { lost: Some(lost.into()), ..unattached(capability, reason, remedy) })
}

fn automatic(features: &Features, options: &PlanOptions, capability: Capability) -> PlannedProbe {
    search(features, capability, &methods(options.prefer)).unwrap_or_else(|failure| {
        let mut probe = unattached(capability, failure.reason(), failure.remedy(capability));
        if capability == Capability::Qspinlock {
            probe.lost = Some("contention of spinlocks, run-queue locks included".into());
        }
        probe
    })
}

fn unattached(capability: Capability, reason: String, remedy: Option<String>) -> PlannedProbe {
    PlannedProbe {
        capability,
        method: Method::None,
        targets: Vec::new(),
        reason,
        lost: Some(capability.facts().lost.into()),
        remedy,
    }
}

/// Every method in the order of trying.
fn methods(prefer: Prefer) -> [Method; 5] {
    let mut order = Method::ATTACHING;
    if prefer == Prefer::Kprobe {
        order.swap(3, 4);
    }
    order
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
