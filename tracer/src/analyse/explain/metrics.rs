//! What signatures may ask of a run: the metrics of `--fail-if`, and beside them the load's size, counters,
//! the profile's and the sleeps' functions. `docs/signatures.md` lists them.

use std::collections::{BTreeMap, HashMap, HashSet};

use crate::analyse::compare::{Quantity, metrics};
use crate::model::{Profile, ProfileFrame, Run, SideCounters};

/// A run's metrics by name.
pub(super) fn of_run(run: &Run) -> BTreeMap<String, Quantity> {
    let mut all = metrics(run);
    let more = [load(run), counters(run), profile(run), sleeps(run)].into_iter().flatten();
    for (name, quantity) in more {
        all.entry(name).or_insert(quantity);
    }
    all
}

fn quantity(value: f64, unit: &'static str) -> Quantity {
    Quantity { value, unit, of_latency: false }
}

fn load(run: &Run) -> Vec<(String, Quantity)> {
    let workload = &run.workload;
    let clients = f64::from(workload.clients);
    let cpus = f64::from(run.environment.cpu.count);
    let sizes = [("clients", clients), ("jobs", f64::from(workload.jobs))];
    let known = sizes.into_iter().filter(|(_, value)| *value > 0.0);
    let by_cpu = (clients > 0.0 && cpus > 0.0).then(|| ("clients_per_cpu", clients / cpus));
    let row = |(name, value): (&str, f64)| (format!("workload.{name}"), quantity(value, "count"));
    known.chain(by_cpu).map(row).collect()
}

/// Shares of counters; what they are by transaction, `--fail-if` has.
fn counters(run: &Run) -> Vec<(String, Quantity)> {
    let Some(counters) = &run.counters else { return Vec::new() };
    let of_side = |(side, counted): (&String, &SideCounters)| {
        let switches = counted.context_switches_count as f64;
        let involuntary = counted.involuntary_switches_count as f64;
        let named = [
            ("l1d_miss_share", counted.ratio("L1-dcache-load-misses", "L1-dcache-loads")),
            ("llc_miss_share", counted.ratio("LLC-load-misses", "LLC-loads")),
            ("involuntary_share", (switches > 0.0).then(|| involuntary / switches)),
        ];
        let side = side.clone();
        named.into_iter().filter_map(move |(name, value)| {
            Some((format!("counters.{side}.{name}"), quantity(value?, "share")))
        })
    };
    counters.sides.iter().flat_map(of_side).collect()
}

/// Shares of the CPU time of a side, and of all sides but lockscope's own, by function: in itself (`self`)
/// and with what it calls (`children`).
fn profile(run: &Run) -> Vec<(String, Quantity)> {
    let Some(profile) = &run.profile else { return Vec::new() };
    let sides: HashSet<&str> = profile.stacks.iter().map(|stack| stack.side.as_str()).collect();
    let mut rows: Vec<(String, Quantity)> =
        sides.into_iter().flat_map(|side| functions(profile, side, |of| of == side)).collect();
    rows.extend(functions(profile, "all", |of| of != "lockscope"));
    rows
}

fn functions(
    profile: &Profile,
    side: &str,
    is_of: impl Fn(&str) -> bool,
) -> Vec<(String, Quantity)> {
    let mut weights: HashMap<(&str, &str), u64> = HashMap::new();
    let mut total = 0;
    for stack in profile.stacks.iter().filter(|stack| is_of(&stack.side)) {
        total += stack.weight;
        let names = named(&stack.frames, &profile.frames);
        if let Some(innermost) = names.first() {
            *weights.entry(("self", *innermost)).or_default() += stack.weight;
        }
        for name in names.into_iter().collect::<HashSet<_>>() {
            *weights.entry(("children", name)).or_default() += stack.weight;
        }
    }
    let row = |((kind, function), weight): ((&str, &str), u64)| {
        let share = weight as f64 / total.max(1) as f64;
        (format!("profile.{side}.{kind}.{function}"), quantity(share, "share"))
    };
    weights.into_iter().map(row).collect()
}

/// Share of a side's time that its tasks slept under a function, kernel locks left out.
fn sleeps(run: &Run) -> Vec<(String, Quantity)> {
    let Some(off_cpu) = &run.off_cpu else { return Vec::new() };
    let mut shares: BTreeMap<String, f64> = BTreeMap::new();
    for (side, slept) in &off_cpu.sides {
        for stack in &slept.stacks {
            let names: HashSet<&str> = named(&stack.frames, &off_cpu.frames).into_iter().collect();
            for function in names {
                *shares.entry(format!("offcpu.{side}.{function}")).or_default() += stack.share;
            }
        }
    }
    shares.into_iter().map(|(name, share)| (name, quantity(share, "share"))).collect()
}

fn named<'a>(numbers: &[u32], frames: &'a [ProfileFrame]) -> Vec<&'a str> {
    let frames = numbers.iter().filter_map(|number| frames.get(*number as usize));
    frames.map(|frame| frame.symbol.as_str()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::ProfileStack;

    #[test]
    fn functions_have_shares_of_their_side_and_of_all_but_lockscope() {
        let frame = |symbol: &str| ProfileFrame { symbol: symbol.into(), ..Default::default() };
        let stack = |side: &str, weight, frames: &[u32]| ProfileStack {
            side: side.to_owned(),
            weight,
            frames: frames.to_vec(),
            ..ProfileStack::default()
        };
        let mut run = Run::new();
        run.profile = Some(Profile {
            frames: vec![frame("s_lock"), frame("ReadBuffer")],
            stacks: vec![
                // Recursion counts once.
                stack("server", 30, &[0, 1, 1]),
                stack("server", 10, &[1]),
                stack("client", 60, &[1]),
                stack("lockscope", 900, &[0]),
            ],
            ..Profile::default()
        });
        let metrics = of_run(&run);
        let value = |name: &str| metrics.get(name).map(|quantity| quantity.value);
        assert_eq!(value("profile.server.self.s_lock"), Some(0.75));
        assert_eq!(value("profile.server.children.ReadBuffer"), Some(1.0));
        assert_eq!(value("profile.all.self.s_lock"), Some(0.3));
        assert_eq!(value("profile.client.self.s_lock"), None);
    }

    #[test]
    fn counters_are_told_by_transaction_and_as_shares() {
        let mut run = Run::new();
        run.throughput.transactions_count = 100;
        let counted = SideCounters {
            tasks_count: 1,
            context_switches_count: 250,
            involuntary_switches_count: 50,
            ..SideCounters::default()
        };
        run.counters = Some(crate::model::Counters {
            sides: [("server".to_owned(), counted)].into(),
            ..Default::default()
        });
        let metrics = of_run(&run);
        assert_eq!(metrics["counters.server.context-switches"].value, 2.5);
        assert_eq!(metrics["counters.server.involuntary_share"].value, 0.2);
        assert!(!metrics.contains_key("counters.server.ipc"), "not counted is not 0");
    }
}
