//! A sweep as plain text: how throughput scales, and where the added latency goes.

use super::TextOptions;
use super::header::moment;
use super::page::Page;
use super::table::{Align, Column, Table, cell, share, time};
use crate::analyse::sweep::{STATE_GROUPS, StateGroup};
use crate::analyse::units::{count, percent, plural, signed_duration, significant};
use crate::model::{Curve, Estimate, Part, Scalability, Step, StepWithoutLock, Sweep, WithoutLock};

/// Parts of an added latency that are named.
const NAMED: usize = 3;
/// Parts of an added latency smaller than this share of it are not named.
const SMALL: f64 = 0.05;
/// Columns of the longest bar.
const BAR: f64 = 24.0;
/// A law that misses a step by more than this does not describe the curve.
const MISFIT: f64 = 0.1;
/// The sweep. No line is wider than asked for; without `utf8` it is plain ASCII.
pub fn render_sweep(sweep: &Sweep, options: &TextOptions) -> String {
    let mut page = Page::new(*options);
    let steps: usize = sweep.curves.iter().map(|curve| curve.steps.len()).sum();
    let state = if sweep.interrupted { " (INTERRUPTED)" } else { "" };
    page.paragraph(
        0,
        &format!(
            "lockscope {}: {} along {}{state}",
            sweep.lockscope_version,
            plural(steps as u64, "step"),
            sweep.along
        ),
    );
    page.hanging("", 2, &format!("{} $ {}", moment(&sweep.started_at), sweep.command.join(" ")));
    findings(sweep, &mut page);
    for curve in &sweep.curves {
        throughput(sweep, curve, &mut page);
        ledger(sweep, curve, &mut page);
    }
    page.finish()
}

fn findings(sweep: &Sweep, page: &mut Page) {
    page.heading("Findings", "");
    for curve in &sweep.curves {
        let label = if curve.values.is_empty() { "scaling".to_owned() } else { curve.name() };
        let measured = || curve.steps.iter().filter(|step| step.failure.is_none());
        let best = measured().max_by(|a, b| a.tps.value.total_cmp(&b.tps.value));
        let Some(best) = best else {
            page.labelled(&label, "no step could be measured");
            continue;
        };
        let along = &sweep.along;
        let mut text = format!(
            "highest at {along} {}: {} tps",
            best.value,
            count(best.tps.value.round() as u64)
        );
        if let Some(knee) = curve.knee.and_then(|knee| curve.steps.get(knee)) {
            text +=
                &format!("; from {along} {} on nothing more is gained (within 5 %)", knee.value);
        }
        page.labelled(&label, &text);
        for text in verdicts(along, curve) {
            page.labelled("verdict", &text);
        }
        for &dip in &curve.dips {
            page.labelled("dip", &self::dip(sweep, curve, dip));
        }
        if let Some(law) = &curve.scalability {
            page.labelled("law", &self::law(law));
        }
        if let Some(without) = &curve.without_lock {
            page.labelled("no lock", &without_lock(sweep, curve, without));
        }
    }
    for warning in &sweep.warnings {
        page.labelled("!", &warning.text);
    }
}

/// What the time was lost to, once for steps in a row that say the same.
fn verdicts(along: &str, curve: &Curve) -> Vec<String> {
    let told: Vec<(&str, &str)> = curve
        .steps
        .iter()
        .filter_map(|step| Some((step.value.as_str(), step.verdict.as_ref()?.text.as_str())))
        .collect();
    let alike = told.chunk_by(|(_, left), (_, right)| left == right);
    let words = |steps: &[(&str, &str)]| match steps {
        [] => None,
        [(value, text)] => Some(format!("{along} {value}: {text}")),
        [(first, text), .., (last, _)] => Some(format!("{along} {first} to {last}: {text}")),
    };
    alike.filter_map(words).collect()
}

fn dip(sweep: &Sweep, curve: &Curve, index: usize) -> String {
    let step = &curve.steps[index];
    let mut text = format!(
        "at {} {} throughput falls to {} tps, and rises again behind it",
        sweep.along,
        step.value,
        count(step.tps.value.round() as u64)
    );
    if let Some(part) = step.added.first().filter(|part| part.difference_ns > 0.0) {
        text += &format!("; what it adds is mostly {}", words(part));
    }
    text
}

/// The law in words, with what it is worth.
fn law(law: &Scalability) -> String {
    let mut text = format!(
        "one client alone {} tps, contention {}, coherency {}",
        plus_minus(&law.lambda_tps, |value| count(value.round() as u64)),
        plus_minus(&law.contention, percent),
        plus_minus(&law.coherency, significant),
    );
    text += &match (law.peak_clients, law.peak_tps) {
        (Some(clients), Some(tps)) => format!(
            "; peak at {clients:.0} clients with {} tps{}",
            count(tps.round() as u64),
            if law.is_peak_measured { "" } else { ", which is extrapolated" }
        ),
        _ => "; no peak: it never falls".to_owned(),
    };
    if law.worst_residual > MISFIT {
        text += &format!(
            "; but the law misses a step by {}: do not rely on it",
            percent(law.worst_residual)
        );
    }
    text
}

/// What the curve would be without its dominant lock, and the bounds of the step in which that changes most.
fn without_lock(sweep: &Sweep, curve: &Curve, without: &WithoutLock) -> String {
    let place = match &without.caller {
        Some(caller) if !without.name.contains(caller.as_str()) => format!(" <- {caller}"),
        _ => String::new(),
    };
    let mut text = format!("without the waits for {}{place}", without.name);
    let gain = |step: &StepWithoutLock| step.tps_rest_as_now / step.tps_low.max(1.0);
    let most = without.steps.iter().max_by(|left, right| gain(left).total_cmp(&gain(right)));
    if let Some((bounds, step)) = most.and_then(|most| Some((most, curve.steps.get(most.step)?))) {
        let tps = |value: f64| count(value.round() as u64);
        text += &format!(
            ", at {} {} at least {} tps, as now, {} if the rest stays as it is, at most {}",
            sweep.along,
            step.value,
            tps(bounds.tps_low),
            tps(bounds.tps_rest_as_now),
            tps(bounds.tps_high),
        );
    }
    if let (Some(law), Some(with)) = (&without.scalability, &curve.scalability) {
        text += &format!(
            "; if the rest stays as it is, contention is {} instead of {}",
            percent(law.contention.value),
            percent(with.contention.value),
        );
        if law.worst_residual > MISFIT {
            text += &format!(", but that law misses a step by {}", percent(law.worst_residual));
        }
    }
    text + " (bounds: docs/metrics.md)"
}

fn plus_minus(estimate: &Estimate, words: impl Fn(f64) -> String) -> String {
    match (estimate.low, estimate.high) {
        (Some(low), Some(high)) => {
            format!("{} ({} to {})", words(estimate.value), words(low), words(high))
        }
        _ => words(estimate.value),
    }
}

fn throughput(sweep: &Sweep, curve: &Curve, page: &mut Page) {
    let remark = "added: mean latency less that of the step before, and the states it went into";
    page.heading(&title("Throughput and latency", curve), remark);
    let mut table = Table::new(vec![
        Column::titled(sweep.along.clone(), Align::Right),
        Column::right("tps"),
        Column::right("+-"),
        Column::left("").expendable(2),
        Column::right("latency"),
        Column::right("p99").expendable(1),
        Column::right("added"),
        Column::left("of which"),
    ]);
    let highest = curve.steps.iter().map(|step| step.tps.value).fold(0.0, f64::max);
    for step in &curve.steps {
        table.row(throughput_row(step, highest));
    }
    page.table(&table);
}

fn throughput_row(step: &Step, highest: f64) -> Vec<String> {
    if let Some(reason) = &step.failure {
        let dash = || "-".to_owned();
        let failed = format!("FAILED: {reason}");
        return vec![
            step.value.clone(),
            dash(),
            dash(),
            String::new(),
            dash(),
            dash(),
            dash(),
            failed,
        ];
    }
    let half = step.tps.low.zip(step.tps.high).map(|(low, high)| (high - low) / 2.0);
    let bar = if highest > 0.0 { BAR * step.tps.value / highest } else { 0.0 };
    vec![
        step.value.clone(),
        count(step.tps.value.round() as u64),
        cell(half.filter(|_| step.tps.value > 0.0).map(|half| share(half / step.tps.value))),
        "#".repeat(bar.round() as usize),
        cell(step.latency_mean_ns.map(|ns| time(ns as f64))),
        cell(step.latency_p99_ns.map(|ns| time(ns as f64))),
        cell(step.added_latency_ns.map(|ns| signed_duration(ns).replace(' ', ""))),
        parts(step),
    ]
}

/// The largest parts of the added latency.
fn parts(step: &Step) -> String {
    let Some(whole) = step.added_latency_ns else { return String::new() };
    let named = step.added.iter().filter(|part| part.difference_ns.abs() >= SMALL * whole.abs());
    named.take(NAMED).map(words).collect::<Vec<_>>().join(", ")
}

fn words(part: &Part) -> String {
    let lock = part.lock.as_ref().map(|lock| match &lock.caller {
        Some(caller) => format!(" ({} <- {caller})", lock.name),
        None => format!(" ({})", lock.name),
    });
    let label = part.label.trim_start_matches("server ");
    let change = signed_duration(part.difference_ns).replace(' ', "");
    format!("{label}{} {change}", lock.unwrap_or_default())
}

fn ledger(sweep: &Sweep, curve: &Curve, page: &mut Page) {
    if curve.steps.iter().all(|step| step.states_ns.is_empty()) {
        return;
    }
    page.heading(&title("Time per transaction by state", curve), "the server's, and the rest");
    let mut columns = vec![Column::titled(sweep.along.clone(), Align::Right)];
    columns.extend(STATE_GROUPS.iter().map(|group| Column::right(group.title)));
    columns.push(Column::left("heaviest server lock"));
    let mut table = Table::new(columns);
    for step in curve.steps.iter().filter(|step| step.failure.is_none()) {
        let mut row = vec![step.value.clone()];
        row.extend(STATE_GROUPS.iter().map(|group| cell(sum(step, *group).map(time))));
        row.push(match (&step.top_lock, step.top_lock_ns) {
            (Some(lock), Some(ns)) => format!("{} {lock}", time(ns)),
            _ => "-".to_owned(),
        });
        table.row(row);
    }
    page.table(&table);
}

fn title(what: &str, curve: &Curve) -> String {
    if curve.values.is_empty() { what.to_owned() } else { format!("{what}: {}", curve.name()) }
}

/// Absent where none of its states was measured.
fn sum(step: &Step, group: StateGroup) -> Option<f64> {
    group.times_ns(step).reduce(|sum, ns| sum + ns)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::RunVerdict;

    #[test]
    fn steps_in_a_row_that_say_the_same_say_it_once() {
        let step = |value: &str, text: Option<&str>| Step {
            value: value.to_owned(),
            verdict: text.map(|text| RunVerdict { text: text.to_owned(), ..RunVerdict::default() }),
            ..Step::default()
        };
        let curve = |steps| Curve { steps, ..Curve::default() };
        let told = curve(vec![
            step("1", Some("cpu")),
            step("2", None),
            step("4", Some("no CPU")),
            step("8", Some("no CPU")),
        ]);
        assert_eq!(verdicts("client", &told), ["client 1: cpu", "client 4 to 8: no CPU"]);
        assert!(verdicts("client", &curve(vec![step("1", None)])).is_empty());
    }

    #[test]
    fn the_curve_without_its_lock_is_told_by_the_step_that_gains_most() {
        let step = |value: &str, tps: f64| Step {
            value: value.to_owned(),
            tps: Estimate { value: tps, ..Estimate::default() },
            ..Step::default()
        };
        let bounds = |step, low, rest, high| StepWithoutLock {
            step,
            tps_low: low,
            tps_rest_as_now: rest,
            tps_high: high,
        };
        let law = |contention| Scalability {
            contention: Estimate { value: contention, ..Estimate::default() },
            ..Scalability::default()
        };
        let without = WithoutLock {
            name: "pipe.mutex".to_owned(),
            caller: Some("pipe_write".to_owned()),
            steps: vec![bounds(0, 1e4, 1.1e4, 1.2e4), bounds(1, 2e4, 4e4, 6e4)],
            scalability: Some(law(0.02)),
        };
        let curve = Curve {
            steps: vec![step("1", 1e4), step("8", 2e4)],
            scalability: Some(law(0.123)),
            without_lock: Some(without),
            ..Curve::default()
        };
        let sweep = Sweep { along: "client".to_owned(), curves: vec![curve], ..Sweep::default() };
        let text = render_sweep(&sweep, &TextOptions { width: 400, ..TextOptions::default() });
        let expected = "no lock     without the waits for pipe.mutex <- pipe_write, at client 8 at least \
                        20,000 tps, as now, 40,000 if the rest stays as it is, at most 60,000; if the rest \
                        stays as it is, contention is 2.0 % instead of 12.3 % (bounds: docs/metrics.md)";
        assert!(text.contains(expected), "{text}");
    }
}
