//! Rows whose two sides were not measured alike, and what the runs themselves warn of.

use std::collections::{BTreeMap, BTreeSet};

use crate::analyse::units::percent;
use crate::model::{MetricRow, Run, Warning};

/// Capability → the metrics that are made with it, by the beginning of their names.
const MADE_WITH: &[(&str, &[&str])] = &[
    ("lock-waits", &["server.spin", "server.lock", "client.spin", "client.lock", "lock."]),
    ("osq", &["server.spin.osq", "server.spin.mutex", "client.spin.osq", "client.spin.mutex"]),
    ("mutex-owner", &["server.spin.mutex", "client.spin.mutex"]),
    ("rwsem-owner", &["server.spin.rwsem", "client.spin.rwsem"]),
    (
        "qspinlock",
        &["server.spin.qspinlock", "client.spin.qspinlock", "server.spin.rq", "client.spin.rq"],
    ),
    ("rq-acquire", &[]),
    ("plug", &["plug."]),
    ("scheduling", &["server.", "client."]),
    ("requests", &["server."]),
];
/// Shares of the time in which an event is counted that differ by more are told.
const TURNS_DIFFER: f64 = 0.1;

/// A warning, and which rows it is about.
pub(super) struct Flag {
    pub(super) warning: Warning,
    prefixes: Vec<String>,
}

impl Flag {
    pub(super) fn concerns(&self, row: &MetricRow) -> bool {
        self.prefixes.iter().any(|prefix| row.metric.starts_with(prefix.as_str()))
    }
}

/// Everything that was not measured alike.
pub(super) fn flags(base: &[Run], new: &[Run]) -> Vec<Flag> {
    let mut flags = methods(base, new);
    let of = |runs: &[Run], of: fn(&Run) -> String| -> BTreeSet<String> {
        runs.iter().map(of).collect()
    };
    let depth = |run: &Run| match run.depth.as_str() {
        "" => "untraced".to_owned(),
        depth => depth.to_owned(),
    };
    let (left, right) = (of(base, depth), of(new, depth));
    if left != right {
        let text =
            format!("depth differs: {} in the base, {} in the new side", list(&left), list(&right));
        let remedy = "measure both sides with the same --depth: tracing costs time, and states mean something else";
        flags.push(flag(
            "depth-differs",
            text,
            remedy,
            &["tps", "latency.", "server.", "client.", "lock."],
        ));
    }
    let filters = |run: &Run| run.filters.join("; ");
    let (left, right) = (of(base, filters), of(new, filters));
    if left != right {
        let text = format!(
            "filters differ: {} in the base, {} in the new side",
            list(&left),
            list(&right)
        );
        let remedy = "measure both sides with the same filters";
        flags.push(flag("filters-differ", text, remedy, &["server.", "client.", "lock."]));
    }
    flags.extend(sampled_by(base, new));
    flags.extend(multiplexing(base, new));
    let only = [(base, new, "base"), (new, base, "new side")];
    flags
        .extend(only.into_iter().filter_map(|(runs, others, side)| only_there(runs, others, side)));
    flags
}

fn methods(base: &[Run], new: &[Run]) -> Vec<Flag> {
    let capabilities: BTreeSet<&str> = base
        .iter()
        .chain(new)
        .flat_map(|run| run.probes.iter().map(|probe| probe.capability.as_str()))
        .collect();
    let traced = |runs: &[Run]| runs.iter().all(|run| !run.depth.is_empty());
    if !traced(base) || !traced(new) {
        return Vec::new();
    }
    let method = |runs: &[Run], capability: &str| -> BTreeSet<String> {
        let of = |run: &Run| {
            let probe = run.probes.iter().find(|probe| probe.capability == capability);
            probe.map_or("none", |probe| probe.method.as_str()).to_owned()
        };
        runs.iter().map(of).collect()
    };
    capabilities
        .into_iter()
        .filter_map(|capability| {
            let (left, right) = (method(base, capability), method(new, capability));
            (left != right).then(|| {
                let text = format!(
                    "{capability} is traced by {} in the base, by {} in the new side",
                    list(&left),
                    list(&right)
                );
                let remedy = "a change of the flagged rows may be one of the method; --probe can make both sides alike";
                flag(&format!("probe-{capability}"), text, remedy, made_with(capability))
            })
        })
        .collect()
}

fn made_with(capability: &str) -> &'static [&'static str] {
    let known = MADE_WITH.iter().find(|(prefix, _)| capability.starts_with(prefix));
    known.map_or(&[][..], |(_, metrics)| metrics)
}

/// Samples by cycles and by the clock are shares of something else where CPUs change their speed.
fn sampled_by(base: &[Run], new: &[Run]) -> Option<Flag> {
    let events = |runs: &[Run]| -> BTreeSet<String> {
        let profiles = runs.iter().filter_map(|run| run.profile.as_ref());
        profiles.map(|profile| profile.event.clone()).collect()
    };
    let (left, right) = (events(base), events(new));
    (!left.is_empty() && !right.is_empty() && left != right).then(|| {
        let text = format!(
            "the profile is sampled by {} in the base, by {} in the new side",
            list(&left),
            list(&right)
        );
        let remedy = "their shares agree only where all CPUs run at one speed";
        flag("profile-event", text, remedy, &["profile.", "overhead."])
    })
}

/// Events that had their turn for another part of the time are scaled otherwise.
fn multiplexing(base: &[Run], new: &[Run]) -> Option<Flag> {
    let (left, right) = (running_shares(base), running_shares(new));
    let differ: Vec<(&String, f64, f64)> = left
        .iter()
        .filter_map(|(event, left)| Some((event, *left, *right.get(event)?)))
        .filter(|(_, left, right)| (left - right).abs() > TURNS_DIFFER)
        .collect();
    let largest =
        differ.iter().max_by(|(_, a, b), (_, c, d)| (a - b).abs().total_cmp(&(c - d).abs()));
    let (event, share, other) = largest?;
    let text = format!(
        "{} counted for another part of the time, most of all {event}: {} of it in the base, {} in the new \
         side; counts are scaled up to all of it",
        if differ.len() == 1 {
            "one event was".to_owned()
        } else {
            format!("{} events were", differ.len())
        },
        percent(*share),
        percent(*other),
    );
    let remedy = "another program uses the PMU on one side: stop it, or take the flagged counts for estimates";
    let mut metrics: Vec<String> =
        differ.iter().map(|(event, ..)| format!("counters.{}", event.replace(' ', "."))).collect();
    // A quotient of two of them.
    let of_quotient = metrics.iter().filter_map(|metric| {
        let side = metric.strip_suffix("cycles").or(metric.strip_suffix("instructions"))?;
        Some(format!("{side}ipc"))
    });
    metrics.extend(of_quotient.collect::<Vec<_>>());
    let metrics: Vec<&str> = metrics.iter().map(String::as_str).collect();
    Some(flag("multiplexing", text, remedy, &metrics))
}

/// The mean share of the time in which each event was counted, by side and event, `server cycles`.
fn running_shares(runs: &[Run]) -> BTreeMap<String, f64> {
    let mut shares: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for counters in runs.iter().filter_map(|run| run.counters.as_ref()) {
        for (side, counted) in &counters.sides {
            for (event, count) in &counted.events {
                shares.entry(format!("{side} {event}")).or_default().push(count.running_share);
            }
        }
    }
    let mean = |values: Vec<f64>| values.iter().sum::<f64>() / values.len() as f64;
    shares.into_iter().map(|(event, values)| (event, mean(values))).collect()
}

/// What the runs of one side warn of, and no run of the other.
fn only_there(runs: &[Run], others: &[Run], side: &str) -> Option<Flag> {
    let codes = |runs: &[Run]| -> BTreeSet<String> {
        runs.iter()
            .flat_map(|run| run.warnings.iter().map(|warning| warning.code.clone()))
            .collect()
    };
    let only: BTreeSet<String> = codes(runs).difference(&codes(others)).cloned().collect();
    (!only.is_empty()).then(|| {
        let text = format!("warned of in the {side} only: {}", list(&only));
        let code = if side == "base" { "warnings-base" } else { "warnings-new" };
        flag(code, text, "`lockscope report` shows each run's warnings in full", &[])
    })
}

fn list(words: &BTreeSet<String>) -> String {
    let words: Vec<&str> =
        words.iter().map(|word| if word.is_empty() { "none" } else { word }).collect();
    words.join(" and ")
}

fn flag(code: &str, text: String, remedy: &str, prefixes: &[&str]) -> Flag {
    let prefixes = prefixes.iter().map(|prefix| (*prefix).to_owned()).collect();
    let warning = Warning { code: code.to_owned(), text, remedy: Some(remedy.to_owned()) };
    Flag { warning, prefixes }
}
