//! What else differs between two sides: the machine, the server, the load.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::model::{Difference, Run};

/// What is known to move benchmarks by itself, by the beginning of its name, and why.
const CAUSES: &[(&str, &str)] = &[
    ("kernel.release", "another kernel"),
    ("kernel.version", "another build of the kernel"),
    ("kernel.preemption", "preemption of lock holders, and wake-up latency"),
    ("kernel.config_flags", "kernel configuration"),
    ("kernel.clocksource", "the cost of reading the clock"),
    ("kernel.mitigations", "mitigations make kernel entries dearer"),
    ("kernel.cmdline", "kernel command line"),
    ("cpu.governor", "frequency"),
    ("cpu.c_states", "wake-up latency"),
    ("cpu.steal", "CPU time that other guests took"),
    ("cpu", "another processor"),
    ("hypervisor", "virtualisation"),
    ("memory", "memory, huge pages and limits"),
    ("postgres.version", "another server"),
    ("postgres.settings", "server settings"),
    ("storage", "file system, mount options, I/O scheduler"),
    ("workload.duration_ns", ""),
    ("workload.warmup_ns", "caches warmer or colder"),
    ("workload", "another load"),
    ("load", "another load"),
    ("depth", "tracing costs more or less"),
    ("filters", "what was traced"),
    ("lockscope_version", "another measuring program"),
];

/// Names that differ from run to run and mean nothing.
const MEANINGLESS: &[&str] = &[
    "postgres.data_directory",
    "postgres.settings.unix_socket_directories",
    "postgres.settings.port",
    "postgres.settings.listen_addresses",
    "cpu.steal_ns",
];
/// Steal that is worth telling, as a share of the CPUs' time, and how much more on one side.
const STEAL: (f64, f64) = (0.01, 1.5);

/// Everything that is not the same, what may explain a difference first.
pub(super) fn differences(base: &[Run], new: &[Run]) -> Vec<Difference> {
    let (left, right) = (facts(base), facts(new));
    let names: BTreeSet<&String> = left.keys().chain(right.keys()).collect();
    let mut found: Vec<Difference> = names
        .into_iter()
        .filter(|name| left.get(*name) != right.get(*name))
        .map(|name| {
            let cause = cause(name);
            Difference {
                name: name.clone(),
                base: left.get(name).cloned(),
                new: right.get(name).cloned(),
                may_explain: cause.is_some(),
                reason: cause.map(str::to_owned),
            }
        })
        .collect();
    found.extend(steal(base, new));
    found.sort_by_key(|difference| !difference.may_explain);
    found
}

fn cause(name: &str) -> Option<&'static str> {
    CAUSES
        .iter()
        .find(|(prefix, _)| name.starts_with(prefix))
        .map(|(_, why)| *why)
        .filter(|why| !why.is_empty())
}

/// What each side is, by name; several values where its runs differ among themselves.
fn facts(runs: &[Run]) -> BTreeMap<String, String> {
    let mut values: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for run in runs {
        for (name, value) in of_run(run) {
            values.entry(name).or_default().insert(value);
        }
    }
    let join = |set: BTreeSet<String>| set.into_iter().collect::<Vec<_>>().join(" | ");
    values.into_iter().map(|(name, set)| (name, join(set))).collect()
}

/// What a run was measured on and with, by name: `kernel.release`, `postgres.settings.huge_pages`.
pub(in crate::analyse) fn of_run(run: &Run) -> Vec<(String, String)> {
    let mut facts = Vec::new();
    // Serializing plain structs cannot fail.
    let environment = serde_json::to_value(&run.environment).unwrap_or_default();
    flatten("", &environment, &mut facts);
    let workload = serde_json::to_value(&run.workload).unwrap_or_default();
    flatten("workload", &workload, &mut facts);
    if let Some(load) = &run.load {
        let mut add = |name: &str, value: String| facts.push((format!("load.{name}"), value));
        add("driver", load.io.clone());
        add("reconnect", load.reconnect.to_string());
        add("max_tries", load.max_tries.to_string());
        load.rate.iter().for_each(|rate| add("rate", rate.to_string()));
        load.think_ns.iter().for_each(|ns| add("think_ns", ns.to_string()));
        load.latency_limit_ns.iter().for_each(|ns| add("latency_limit_ns", ns.to_string()));
        let scripts =
            load.scripts.iter().map(|script| format!("{} @{}", script.name, script.weight));
        add("scripts", scripts.collect::<Vec<_>>().join(", "));
    }
    facts.push(("depth".to_owned(), run.depth.clone()));
    facts.push(("lockscope_version".to_owned(), run.lockscope_version.clone()));
    facts.push(("filters".to_owned(), run.filters.join("; ")));
    facts.retain(|(name, _)| !MEANINGLESS.contains(&name.as_str()));
    // A run measured a little longer than it was asked to is the same run.
    for (name, value) in &mut facts {
        if name == "workload.duration_ns" {
            *value = format!("{:.0} s", run.workload.duration_ns as f64 / 1e9);
        }
    }
    facts
}

/// Names with dots; layers of storage by their kind and name.
fn flatten(name: &str, value: &Value, into: &mut Vec<(String, String)>) {
    let below = |key: &str| if name.is_empty() { key.to_owned() } else { format!("{name}.{key}") };
    match value {
        Value::Object(members) => {
            members.iter().for_each(|(key, member)| flatten(&below(key), member, into));
        }
        Value::Array(elements) if elements.iter().all(|e| !e.is_object()) => {
            let text: Vec<String> = elements.iter().map(text).collect();
            into.push((name.to_owned(), text.join(", ")));
        }
        Value::Array(layers) => {
            for (index, layer) in layers.iter().enumerate() {
                flatten(&below(&index.to_string()), layer, into);
            }
        }
        Value::Null => {}
        value => into.push((name.to_owned(), text(value))),
    }
}

fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Stolen CPU time differs always; it is told when it is much more on one side.
fn steal(base: &[Run], new: &[Run]) -> Option<Difference> {
    let share = |runs: &[Run]| {
        let shares = runs.iter().filter_map(|run| {
            let cpus = run.workload.duration_ns as f64 * f64::from(run.environment.cpu.count);
            Some(run.environment.cpu.steal_ns? as f64 / cpus.max(1.0))
        });
        let shares: Vec<f64> = shares.collect();
        (!shares.is_empty()).then(|| shares.iter().sum::<f64>() / shares.len() as f64)
    };
    let (left, right) = (share(base)?, share(new)?);
    let (less, more) = (left.min(right), left.max(right));
    (more >= STEAL.0 && more > less * STEAL.1).then(|| Difference {
        name: "cpu.steal".to_owned(),
        base: Some(crate::analyse::units::percent(left)),
        new: Some(crate::analyse::units::percent(right)),
        may_explain: true,
        reason: cause("cpu.steal").map(str::to_owned),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::StorageLayer;

    fn run(governor: &str, options: &str) -> Run {
        let mut run = Run::new();
        run.environment.cpu.governor = Some(governor.to_owned());
        run.environment.cpu.count = 2;
        run.workload.duration_ns = 10_000_000_000;
        run.environment.storage = vec![StorageLayer {
            kind: "filesystem".to_owned(),
            name: "xfs".to_owned(),
            attributes: [("options".to_owned(), options.to_owned())].into(),
        }];
        run
    }

    #[test]
    fn equal_surroundings_have_no_difference() {
        let mut other = run("performance", "rw");
        other.workload.duration_ns += 1_000_000;
        other.environment.postgres = None;
        assert_eq!(differences(&[run("performance", "rw")], &[other]), []);
    }

    #[test]
    fn what_may_explain_comes_first_with_its_reason() {
        let mut new = run("powersave", "rw,noatime");
        new.workload.duration_ns = 20_000_000_000;
        let found = differences(&[run("performance", "rw")], &[new]);
        let names: Vec<(&str, bool)> =
            found.iter().map(|d| (d.name.as_str(), d.may_explain)).collect();
        assert_eq!(
            names,
            [
                ("cpu.governor", true),
                ("storage.0.attributes.options", true),
                ("workload.duration_ns", false)
            ]
        );
        assert_eq!(found[0].reason.as_deref(), Some("frequency"));
        assert_eq!(found[1].new.as_deref(), Some("rw,noatime"));
    }

    #[test]
    fn a_side_that_differs_in_itself_tells_all_its_values() {
        let base = [run("performance", "rw"), run("powersave", "rw")];
        let found = differences(&base, &[run("performance", "rw")]);
        assert_eq!(found[0].base.as_deref(), Some("performance | powersave"));
    }

    #[test]
    fn steal_is_told_when_it_is_much_more_on_one_side() {
        let with = |steal_ns| {
            let mut run = run("performance", "rw");
            run.environment.cpu.steal_ns = Some(steal_ns);
            [run]
        };
        assert_eq!(differences(&with(1_000), &with(90_000_000)), [], "below 1 %");
        assert_eq!(differences(&with(400_000_000), &with(440_000_000)), [], "about as much");
        let found = differences(&with(0), &with(1_000_000_000));
        assert_eq!((found[0].name.as_str(), found[0].new.as_deref()), ("cpu.steal", Some("5.0 %")));
    }
}
