//! What is attached on which kernel: the table of `docs/kernel-support.md`, made from the features
//! that `lockscope doctor --json` recorded on each.

use super::{AttachPlan, Capability, PlanError, PlanOptions, PlannedProbe, notes, plan};
use crate::kernel::Features;

/// The table in Markdown, a column for each recording in their order.
///
/// # Errors
/// The plan's; without options it has none.
pub fn support_table(recordings: &[Features]) -> Result<String, PlanError> {
    let plans = recordings.iter().map(|features| plan(features, &PlanOptions::default()));
    let plans = plans.collect::<Result<Vec<AttachPlan>, _>>()?;
    let mut table = row("capability", recordings.iter().map(title));
    table.push_str(&format!("|{}\n", "---|".repeat(recordings.len() + 1)));
    for capability in Capability::ALL {
        let cells = plans.iter().map(|plan| plan.probe(capability).map_or("-".to_owned(), cell));
        table.push_str(&row(&format!("`{capability}`"), cells));
    }
    let noted = recordings.iter().zip(&plans).map(|(features, plan)| codes(features, plan));
    table.push_str(&row("doctor's notes", noted));
    table.push_str(&row("recorded on", recordings.iter().map(|features| features.release.clone())));
    Ok(table)
}

fn row(name: &str, cells: impl Iterator<Item = String>) -> String {
    let cells: String = cells.map(|cell| format!(" {cell} |")).collect();
    format!("| {name} |{cells}\n")
}

/// `Debian 6.12 RT`.
fn title(features: &Features) -> String {
    let distribution = if features.version.contains("Debian") { "Debian " } else { "" };
    let version: Vec<&str> = features.release.split('.').take(2).collect();
    let flavour = match (features.preempt_rt, features.hypervisor.as_deref()) {
        (true, _) => " RT",
        (false, Some("xen")) => " under Xen",
        (false, _) => "",
    };
    format!("{distribution}{}{flavour}", version.join("."))
}

fn cell(probe: &PlannedProbe) -> String {
    let on_request = || probe.remedy.as_ref().is_some_and(|remedy| remedy.starts_with("--probe"));
    match probe.is_attached() {
        true => probe.method.to_string(),
        false if on_request() => "on request".to_owned(),
        false => "-".to_owned(),
    }
}

fn codes(features: &Features, plan: &AttachPlan) -> String {
    let codes: Vec<String> =
        notes(features, plan).iter().map(|note| format!("`{}`", note.code)).collect();
    if codes.is_empty() { "-".to_owned() } else { codes.join(", ") }
}
