//! The search for a way to attach a capability: hooks best first, methods cheapest first.

use super::capability::{Capability, Method};
use super::facts::Hooks;
use super::obstacle::{Obstacle, obstacle};
use super::plan::{PlanError, PlannedProbe};
use crate::kernel::Features;

/// Why no way was found, in the order of trying.
pub(super) struct Failure(Vec<(Method, Obstacle)>);

impl Failure {
    /// Methods that fail for the same reason are named together.
    pub(super) fn reason(&self) -> String {
        let mut grouped: Vec<(Vec<Method>, &str)> = Vec::new();
        for (method, obstacle) in &self.0 {
            match grouped.iter_mut().find(|(_, why)| *why == obstacle.why) {
                Some((methods, _)) if methods.contains(method) => {}
                Some((methods, _)) => methods.push(*method),
                None => grouped.push((vec![*method], &obstacle.why)),
            }
        }
        if let [(_, why)] = grouped.as_slice() {
            return (*why).to_owned();
        }
        let named = grouped.iter().map(|(methods, why)| {
            let methods: Vec<_> = methods.iter().map(|method| method.name()).collect();
            format!("{}: {why}", methods.join("/"))
        });
        named.collect::<Vec<_>>().join("; ")
    }

    pub(super) fn remedy(&self, capability: Capability) -> Option<String> {
        let general = self.0.iter().find_map(|(_, obstacle)| obstacle.remedy);
        general.or(capability.facts().remedy).map(str::to_owned)
    }

    pub(super) fn into_error(self, capability: Capability, requested: String) -> PlanError {
        let (reason, remedy) = (self.reason(), self.remedy(capability));
        PlanError::Impossible { capability, requested, reason, remedy }
    }
}

/// The first of the capability's hooks, then the first of the methods, that has no obstacle.
pub(super) fn search(
    features: &Features,
    capability: Capability,
    methods: &[Method],
) -> Result<PlannedProbe, Failure> {
    let mut failure = Failure(Vec::new());
    for hooks in capability.facts().hooks {
        let functions = !matches!(hooks, Hooks::Tracepoints(_));
        for method in methods.iter().filter(|method| method.is_for_functions() == functions) {
            match try_hooks(features, *method, hooks) {
                Ok(targets) => {
                    return Ok(PlannedProbe {
                        capability,
                        method: *method,
                        lost: loss_of(&targets),
                        targets,
                        reason: reason_for(*method, &failure),
                        remedy: None,
                    });
                }
                Err(obstacle) => failure.0.push((*method, obstacle)),
            }
        }
    }
    if failure.0.is_empty() {
        let why = format!("{capability} has no hook of this kind");
        let obstacle = Obstacle { why, remedy: None, absent: false };
        failure.0.extend(methods.iter().map(|method| (*method, obstacle.clone())));
    }
    // Another kernel's name for the same thing is no news where this kernel's own is there.
    if failure.0.iter().any(|(_, obstacle)| !obstacle.absent) {
        failure.0.retain(|(_, obstacle)| !obstacle.absent);
    }
    Err(failure)
}

/// The targets to attach to, or the first obstacle.
fn try_hooks(features: &Features, method: Method, hooks: &Hooks) -> Result<Vec<String>, Obstacle> {
    let (Hooks::Tracepoints(names) | Hooks::AllFunctions(names) | Hooks::AnyFunction(names)) =
        hooks;
    let outcomes: Vec<_> =
        names.iter().map(|name| (name, obstacle(features, method, name))).collect();
    let free: Vec<String> = outcomes
        .iter()
        .filter(|(_, obstacle)| obstacle.is_none())
        .map(|(name, _)| (**name).to_owned())
        .collect();
    let enough = match hooks {
        Hooks::AnyFunction(_) => !free.is_empty(),
        _ => free.len() == names.len(),
    };
    match outcomes.into_iter().find_map(|(_, obstacle)| obstacle) {
        Some(obstacle) if !enough => Err(obstacle),
        _ => Ok(free),
    }
}

fn reason_for(method: Method, failure: &Failure) -> String {
    let good = match method {
        Method::TpBtf => "tracepoint with typed arguments: the cheapest hook",
        Method::RawTracepoint => "raw tracepoint: as cheap, arguments untyped",
        Method::Tracepoint => "classic tracepoint, through a perf event",
        Method::Fentry => "function entry and exit through a trampoline",
        Method::Kprobe => "function entry and exit through kprobes",
        Method::None => "",
    };
    match failure.0.is_empty() {
        true => good.to_owned(),
        false => format!("{good} ({})", failure.reason()),
    }
}

/// What even an attached hook costs the reader.
fn loss_of(targets: &[String]) -> Option<String> {
    targets.iter().any(|target| target.starts_with("syscalls:")).then(|| {
        "speed: every system call of the machine takes its slow entry path meanwhile".to_owned()
    })
}
