//! `lockscope doctor`: what can be traced on this machine, how, and what would improve it.

use std::collections::BTreeMap;
use std::io::{self, Write};

use clap::Args;
use serde::Serialize;
use thiserror::Error;

use super::Exit;
use crate::kernel::Features;
use crate::kernel::features::Check;
use crate::kernel::spinlocks::Spinlocks;
use crate::model::Warning;
use crate::probe::{
    AttachPlan, Capability, Method, PlanError, PlannedProbe, ProbeArgs, choices, notes, plan,
};

/// Terminals and e-mails hold this much.
const WIDTH: usize = 100;
/// Column at which values begin.
const INDENT: usize = 21;

/// Options of `lockscope doctor`.
#[derive(Args, Clone, Debug, Default)]
pub struct DoctorArgs {
    /// Print JSON: the kernel's features, the plan and the notes.
    #[arg(long)]
    pub json: bool,
    /// The same options as for a run: the plan shown is the one that a run would use.
    #[command(flatten)]
    pub probes: ProbeArgs,
}

/// Why there is no diagnosis.
#[derive(Debug, Error)]
pub enum DoctorError {
    /// `--probe` asks for what cannot be.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// It cannot be put into words.
    #[error("cannot write the diagnosis: {0}")]
    Write(#[from] io::Error),
}

/// Everything that doctor found.
#[derive(Clone, Debug, Serialize)]
pub struct Diagnosis {
    /// lockscope's own version.
    pub lockscope_version: &'static str,
    /// Whether any lock can be traced.
    pub can_trace: bool,
    /// The kernel and this process's rights.
    pub features: Features,
    /// How each capability would be attached.
    #[serde(flatten)]
    pub plan: AttachPlan,
    /// Every method that `--probe` can ask for here, best first.
    pub choices: BTreeMap<Capability, Vec<Method>>,
    /// What to know before believing a number.
    pub notes: Vec<Warning>,
}

impl Diagnosis {
    /// Concludes from features, without looking at the machine.
    pub fn new(features: Features, args: &DoctorArgs) -> Result<Self, PlanError> {
        let plan = plan(&features, &args.probes.options())?;
        Ok(Diagnosis {
            lockscope_version: env!("CARGO_PKG_VERSION"),
            can_trace: plan.sees_locks(),
            notes: notes(&features, &plan),
            choices: choices(&features),
            features,
            plan,
        })
    }
}

/// The diagnosis as it is printed. The exit code is 0 when locks can be traced, in whatever way, else 2:
/// the code that a run would end with.
pub fn doctor(args: &DoctorArgs) -> Result<(String, Exit), DoctorError> {
    let diagnosis = Diagnosis::new(Features::probe(), args)?;
    let mut out = Vec::new();
    if args.json {
        let json = serde_json::to_string_pretty(&diagnosis).map_err(io::Error::from)?;
        writeln!(out, "{json}")?;
    } else {
        print(&diagnosis, &mut out)?;
    }
    let exit = if diagnosis.can_trace { Exit::Done } else { Exit::Failed };
    Ok((String::from_utf8_lossy(&out).into_owned(), exit))
}

fn print(diagnosis: &Diagnosis, out: &mut impl Write) -> io::Result<()> {
    print_kernel(&diagnosis.features, out)?;
    writeln!(out, "\nProbes")?;
    for probe in &diagnosis.plan.probes {
        print_probe(probe, &diagnosis.choices[&probe.capability], out)?;
    }
    if !diagnosis.notes.is_empty() {
        writeln!(out, "\nNotes")?;
    }
    for note in &diagnosis.notes {
        field(out, "  *", 4, &note.text)?;
        if let Some(remedy) = &note.remedy {
            field(out, "", 4, &format!("Remedy: {remedy}"))?;
        }
    }
    let attached = diagnosis.plan.probes.iter().filter(|probe| probe.is_attached()).count();
    let total = diagnosis.plan.probes.len();
    writeln!(out)?;
    match diagnosis.can_trace {
        true => writeln!(out, "Locks can be traced; {attached} of {total} capabilities attach."),
        false => {
            writeln!(out, "Nothing can be traced; lockscope still measures throughput and latency.")
        }
    }
}

fn print_kernel(features: &Features, out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "Linux {} {}", features.release, features.machine)?;
    let mut line = |name: &str, value: &str| field(out, &format!("  {name}"), INDENT, value);
    line("build", &features.version)?;
    line("privileges", &privileges(features))?;
    line("BPF", &checked(&features.bpf))?;
    line("BTF", &checked(&features.btf))?;
    line("tp_btf", &checked(&features.tp_btf))?;
    line("fentry", &checked(&features.fentry))?;
    line("kprobes", &checked(&features.kprobes))?;
    line("perf events", &checked(&features.perf_events))?;
    line("ring buffer", &checked(&features.ring_buffer))?;
    line("lockdown", features.lockdown.as_deref().unwrap_or("could not be seen"))?;
    line("kallsyms", &kallsyms(features))?;
    line("hypervisor", features.hypervisor.as_deref().unwrap_or("none"))?;
    line("spinlocks", &spinlocks(features))
}

fn print_probe(probe: &PlannedProbe, choices: &[Method], out: &mut impl Write) -> io::Result<()> {
    let method = match probe.is_attached() {
        true => format!("{} on {}", probe.method, probe.targets.join(", ")),
        false => "not attached".to_owned(),
    };
    field(out, &format!("  {}", probe.capability), INDENT, &method)?;
    field(out, "", INDENT, &format!("Why: {}", probe.reason))?;
    let others: Vec<&str> = choices
        .iter()
        .filter(|method| **method != probe.method)
        .map(|other| other.name())
        .collect();
    if !others.is_empty() {
        field(out, "", INDENT, &format!("Or by --probe: {}", others.join(", ")))?;
    }
    if let Some(lost) = &probe.lost {
        field(out, "", INDENT, &format!("Lost: {lost}"))?;
    }
    match &probe.remedy {
        Some(remedy) => field(out, "", INDENT, &format!("Remedy: {remedy}")),
        None => Ok(()),
    }
}

fn checked(check: &Check) -> String {
    match check {
        Check::Yes => "yes".into(),
        Check::No(why) => format!("no: {why}"),
        Check::Unknown(why) => format!("could not be seen: {why}"),
    }
}

fn privileges(features: &Features) -> String {
    let rights = &features.privileges;
    let held: Vec<&str> = [
        (rights.cap_bpf, "CAP_BPF"),
        (rights.cap_perfmon, "CAP_PERFMON"),
        (rights.cap_sys_admin, "CAP_SYS_ADMIN"),
        (rights.cap_sys_resource, "CAP_SYS_RESOURCE"),
    ]
    .into_iter()
    .filter_map(|(held, name)| held.then_some(name))
    .collect();
    let held = if held.is_empty() { "no capability for tracing".into() } else { held.join(" ") };
    format!("uid {}, {held}", rights.euid)
}

fn kallsyms(features: &Features) -> String {
    let kallsyms = &features.kallsyms;
    let restrict = features.kptr_restrict.map_or("?".into(), |level| level.to_string());
    let shown = match (kallsyms.readable, kallsyms.addresses, kallsyms.data_symbols) {
        (false, ..) => "absent",
        (true, false, _) => "names without addresses",
        (true, true, false) => "functions, no variables",
        (true, true, true) => "functions and variables",
    };
    format!("{shown} (kptr_restrict={restrict})")
}

fn spinlocks(features: &Features) -> String {
    let finding = &features.spinlocks;
    let kind = match finding.kind {
        Spinlocks::Queued => "queued",
        Spinlocks::Paravirtual => "queued, paravirtual",
        Spinlocks::TestAndSet => "test-and-set",
    };
    let sure = if finding.certain { "" } else { "probably " };
    format!("{sure}{kind} ({})", finding.reason)
}

/// A name, then its value from column `indent` on, wrapped.
fn field(out: &mut impl Write, name: &str, indent: usize, value: &str) -> io::Result<()> {
    let mut line = format!("{name:indent$}");
    let mut empty = true;
    for word in value.split_whitespace() {
        if !empty && line.chars().count() + 1 + word.chars().count() > WIDTH {
            writeln!(out, "{line}")?;
            line = " ".repeat(indent);
            empty = true;
        }
        if !empty {
            line.push(' ');
        }
        line.push_str(word);
        empty = false;
    }
    writeln!(out, "{}", line.trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host() -> Features {
        serde_json::from_str(include_str!("../probe/fixtures/host-6.18.json")).unwrap()
    }

    fn text(features: Features) -> String {
        let diagnosis = Diagnosis::new(features, &DoctorArgs::default()).unwrap();
        let mut out = Vec::new();
        print(&diagnosis, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn fits_a_terminal_and_an_email() {
        let text = text(host());
        for line in text.lines() {
            assert!(line.len() <= WIDTH && line.is_ascii(), "{line}");
            assert_eq!(line, line.trim_end());
        }
        for capability in Capability::ALL {
            assert!(text.contains(&format!("\n  {capability} ")), "{capability}");
        }
        assert!(text.contains("Locks can be traced"));
    }

    #[test]
    fn says_why_what_is_lost_and_the_remedy() {
        let text = text(host());
        let osq = text.split("\n  osq ").nth(1).and_then(|rest| rest.split("\n  mutex").next());
        let osq = osq.unwrap();
        for part in
            ["not attached", "Why: fentry: the kernel refuses it", "Lost: osq", "Remedy: use"]
        {
            assert!(osq.contains(part), "{part}: {osq}");
        }
    }

    #[test]
    fn the_unprivileged_get_an_answer_too() {
        let mut features = host();
        features.privileges = Default::default();
        features.bpf = Check::Unknown("not permitted".into());
        features.lockdown = None;
        let text = text(features);
        assert!(text.contains("uid 0, no capability for tracing"), "{text}");
        assert!(text.contains("could not be seen") && text.contains("sudo"), "{text}");
        assert!(text.contains("Nothing can be traced"), "{text}");
    }

    #[test]
    fn json_holds_features_plan_and_notes() {
        let (out, _) = doctor(&DoctorArgs { json: true, ..Default::default() }).unwrap();
        let json: serde_json::Value = serde_json::from_str(&out).unwrap();
        assert!(json["can_trace"].is_boolean());
        assert_eq!(json["probes"].as_array().unwrap().len(), Capability::ALL.len());
        assert!(json["notes"].is_array());
        assert!(json["choices"]["osq"].is_array());
        let features: Features = serde_json::from_value(json["features"].clone()).unwrap();
        assert!(!features.release.is_empty());
    }

    #[test]
    fn every_choice_can_be_asked_for_and_nothing_else() {
        let (features, choices) = (host(), choices(&host()));
        assert!(!choices[&Capability::LockWaits].is_empty());
        for capability in Capability::ALL {
            for method in Method::ATTACHING {
                let probes = vec![format!("{capability}={method}").parse().unwrap()];
                let probes = ProbeArgs { probes, ..Default::default() };
                let args = DoctorArgs { probes, ..Default::default() };
                let works = Diagnosis::new(features.clone(), &args).is_ok();
                assert_eq!(choices[&capability].contains(&method), works, "{capability}={method}");
            }
        }
        assert!(text(features).contains("Or by --probe: raw_tracepoint, tracepoint"));
    }

    #[test]
    fn an_impossible_request_is_an_error() {
        let args = DoctorArgs {
            probes: ProbeArgs { probes: vec!["osq=kprobe".parse().unwrap()], ..Default::default() },
            ..Default::default()
        };
        let error = Diagnosis::new(host(), &args).unwrap_err();
        assert!(error.to_string().contains("CONFIG_KPROBES"), "{error}");
    }
}
