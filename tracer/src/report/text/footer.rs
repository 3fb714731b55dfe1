//! How it was measured: probes, losses, own cost, warnings.

use lockscope_ebpf::Loss;

use super::page::Page;
use crate::analyse::units::{bytes, count, duration, percent, plural, significant};
use crate::model::{OwnCost, Run};

pub(super) fn render(run: &Run, page: &mut Page) {
    page.heading("Measurement", "");
    probes(run, page);
    losses(run, page);
    own_cost(&run.own_cost, page);
    warnings(run, page);
}

fn probes(run: &Run, page: &mut Page) {
    if run.probes.is_empty() {
        page.labelled("probes", "none attached");
        return;
    }
    let attached: Vec<String> = run
        .probes
        .iter()
        .filter(|probe| probe.method != "none")
        .map(|probe| format!("{} {}", probe.capability, probe.method))
        .collect();
    let attached =
        if attached.is_empty() { "none attached".to_owned() } else { attached.join(", ") };
    page.labelled("probes", &attached);
    for probe in &run.probes {
        if probe.method == "none" || probe.lost.is_some() {
            let lost = probe.lost.as_deref().unwrap_or("nothing else shows it");
            let text =
                format!("{} ({}): {}; lost: {lost}", probe.capability, probe.method, probe.reason);
            page.hanging("              - ", 16, &text);
        }
    }
}

/// What was lost, and apart from it what was left out on purpose.
fn losses(run: &Run, page: &mut Page) {
    if run.losses.is_empty() {
        return;
    }
    let on_purpose = [Loss::SelfInflicted.name(), Loss::CutByGate.name()];
    let (set_aside, lost): (Vec<_>, Vec<_>) = run
        .losses
        .iter()
        .filter(|(_, number)| **number > 0)
        .map(|(kind, number)| (kind.as_str(), format!("{} {}", kind, count(*number))))
        .partition(|(kind, _)| on_purpose.contains(kind));
    let join = |list: Vec<(&str, String)>| {
        list.into_iter().map(|(_, text)| text).collect::<Vec<_>>().join(", ")
    };
    let mut text = match lost.is_empty() {
        true => format!("none, of {} kinds counted", run.losses.len()),
        false => join(lost),
    };
    if !set_aside.is_empty() {
        text += &format!("; left out on purpose: {}", join(set_aside));
    }
    page.labelled("losses", &text);
}

fn own_cost(cost: &OwnCost, page: &mut Page) {
    let mut parts = Vec::new();
    if let Some(ratio) = cost.tps_ratio {
        let mut text = format!("tps with tracing {ratio:.3} x without");
        if let (Some(low), Some(high)) = (cost.tps_ratio_low, cost.tps_ratio_high) {
            text += &format!(" (95 % interval {low:.3} to {high:.3}");
            if let Some(pairs) = cost.slice_pairs_count {
                text += &format!(", {} of slices", plural(pairs, "pair"));
            }
            text.push(')');
        }
        parts.push(text);
    }
    if let Some(ratio) = cost.latency_ratio {
        parts.push(format!("latency {ratio:.3} x"));
    }
    if let Some(ns) = cost.bpf_ns_per_event {
        let programs = dearest_programs(cost).map_or(String::new(), |text| format!(": {text}"));
        parts.push(format!("{} an event{programs}", duration(ns)));
    }
    if let Some(share) = cost.bpf_cpu_percent {
        parts.push(format!("programs {} % of the machine's CPU time", significant(share)));
    }
    if let Some(ns) = cost.load_cpu_ns_per_transaction {
        parts.push(format!("load generator {} CPU a transaction", duration(ns as f64)));
    }
    if let Some(size) = cost.map_bytes {
        parts.push(format!("maps {}", bytes(size)));
    }
    let text = if parts.is_empty() { "not measured".to_owned() } else { parts.join("; ") };
    page.labelled("own cost", &text);
}

/// The programs that took most, when they were measured.
fn dearest_programs(cost: &OwnCost) -> Option<String> {
    let total: u64 = cost.bpf_programs.iter().map(|program| program.run_ns).sum();
    let mut programs: Vec<_> = cost.bpf_programs.iter().filter(|p| p.run_count > 0).collect();
    programs.sort_by(|left, right| right.run_ns.cmp(&left.run_ns).then(left.name.cmp(&right.name)));
    let texts: Vec<String> = programs
        .iter()
        .take(3)
        .map(|program| {
            let mean = program.run_ns as f64 / program.run_count as f64;
            let share = percent(program.run_ns as f64 / total.max(1) as f64);
            format!("{} {} ({share})", program.name, duration(mean))
        })
        .collect();
    (!texts.is_empty()).then(|| format!("most by {}", texts.join(", ")))
}

pub(super) fn warnings(run: &Run, page: &mut Page) {
    if run.warnings.is_empty() {
        return;
    }
    page.heading("Warnings", "");
    for warning in &run.warnings {
        page.hanging(&format!("  {}: ", warning.code), 4, &warning.text);
        if let Some(remedy) = &warning.remedy {
            page.hanging("    -> ", 7, remedy);
        }
    }
}
