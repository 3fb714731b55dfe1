//! Rows whose two sides were not measured alike, and what the runs themselves warn of.

use std::collections::BTreeSet;

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
    ("samples", &["profile."]),
    ("counters", &["counters."]),
];

/// A warning, and which rows it is about.
pub(super) struct Flag {
    pub(super) warning: Warning,
    prefixes: Vec<&'static str>,
}

impl Flag {
    pub(super) fn concerns(&self, row: &MetricRow) -> bool {
        self.prefixes.iter().any(|prefix| row.metric.starts_with(prefix))
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
            vec!["tps", "latency.", "server.", "client.", "lock."],
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
        flags.push(flag("filters-differ", text, remedy, vec!["server.", "client.", "lock."]));
    }
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

fn made_with(capability: &str) -> Vec<&'static str> {
    let known = MADE_WITH.iter().find(|(prefix, _)| capability.starts_with(prefix));
    known.map_or(&[][..], |(_, metrics)| metrics).to_vec()
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
        flag(code, text, "`lockscope report` shows each run's warnings in full", Vec::new())
    })
}

fn list(words: &BTreeSet<String>) -> String {
    let words: Vec<&str> =
        words.iter().map(|word| if word.is_empty() { "none" } else { word }).collect();
    words.join(" and ")
}

fn flag(code: &str, text: String, remedy: &str, prefixes: Vec<&'static str>) -> Flag {
    let warning = Warning { code: code.to_owned(), text, remedy: Some(remedy.to_owned()) };
    Flag { warning, prefixes }
}
