//! Processors: model, topology, frequency, idle states, stolen time.

use std::collections::BTreeSet;

use super::tree::{Tree, number_list};
use crate::model::Cpu;

const CPUS: &str = "sys/devices/system/cpu";

pub(super) fn describe(tree: &Tree) -> Cpu {
    let info = tree.read("proc/cpuinfo").unwrap_or_default();
    let online = online(tree, &info);
    Cpu {
        model: model(&info),
        count: online.len().try_into().unwrap_or(u32::MAX),
        core_count: distinct(tree, &online, &["physical_package_id", "core_id"]),
        socket_count: distinct(tree, &online, &["physical_package_id"]),
        numa_node_count: numa_nodes(tree),
        governor: governor(tree, &online),
        c_states: idle_states(tree),
        steal_ns: None,
    }
}

fn online(tree: &Tree, info: &str) -> Vec<u32> {
    let listed = tree.read(format!("{CPUS}/online")).map(|list| number_list(&list));
    listed.filter(|list| !list.is_empty()).unwrap_or_else(|| {
        (0..)
            .zip(info.lines().filter(|line| line.starts_with("processor")))
            .map(|(n, _)| n)
            .collect()
    })
}

fn model(info: &str) -> String {
    let named = |key: &str| {
        let line = info.lines().find(|line| line.starts_with(key))?;
        Some(line.split_once(':')?.1.trim().to_owned())
    };
    // arm64 has no name here, only numbers.
    named("model name").or_else(|| named("Model")).or_else(|| named("CPU part")).unwrap_or_default()
}

/// How many different combinations of topology ids the CPUs have.
fn distinct(tree: &Tree, online: &[u32], ids: &[&str]) -> Option<u32> {
    let mut seen = BTreeSet::new();
    for cpu in online {
        let values: Option<Vec<String>> =
            ids.iter().map(|id| tree.read(format!("{CPUS}/cpu{cpu}/topology/{id}"))).collect();
        seen.insert(values?);
    }
    (!seen.is_empty()).then(|| seen.len().try_into().unwrap_or(u32::MAX))
}

fn numa_nodes(tree: &Tree) -> Option<u32> {
    let list = tree.read("sys/devices/system/node/online")?;
    number_list(&list).len().try_into().ok()
}

fn governor(tree: &Tree, online: &[u32]) -> Option<String> {
    let governors: BTreeSet<String> = online
        .iter()
        .filter_map(|cpu| tree.read(format!("{CPUS}/cpu{cpu}/cpufreq/scaling_governor")))
        .collect();
    (!governors.is_empty()).then(|| governors.into_iter().collect::<Vec<_>>().join(", "))
}

fn idle_states(tree: &Tree) -> Option<Vec<String>> {
    let directory = format!("{CPUS}/cpu0/cpuidle");
    let mut states: Vec<(u32, String)> = tree
        .list(&directory)
        .into_iter()
        .filter_map(|name| Some((name.strip_prefix("state")?.parse().ok()?, name)))
        .collect();
    if states.is_empty() {
        return None;
    }
    states.sort();
    let enabled = states
        .iter()
        .filter(|(_, state)| tree.read_number(format!("{directory}/{state}/disable")) != Some(1));
    Some(enabled.filter_map(|(_, state)| tree.read(format!("{directory}/{state}/name"))).collect())
}

/// How much CPU time the hypervisor gave to others since the clock was started.
#[derive(Clone, Copy, Debug)]
pub struct StealClock {
    start_ticks: Option<u64>,
}

impl StealClock {
    /// Starts now.
    pub fn start() -> StealClock {
        StealClock { start_ticks: steal_ticks(&Tree::at("/")) }
    }

    /// Nanoseconds since then, over all CPUs; `None` where the kernel does not tell. The kernel
    /// counts in ticks of 10 ms.
    pub fn elapsed_ns(&self) -> Option<u64> {
        let now = steal_ticks(&Tree::at("/"))?;
        Some(now.saturating_sub(self.start_ticks?) * TICK_NS)
    }
}

/// USER_HZ is 100 on every architecture that Postgres runs on.
const TICK_NS: u64 = 10_000_000;

fn steal_ticks(tree: &Tree) -> Option<u64> {
    let stat = tree.read("proc/stat")?;
    let line = stat.lines().find(|line| line.starts_with("cpu "))?;
    // cpu user nice system idle iowait irq softirq steal guest guest_nice
    line.split_whitespace().nth(8)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::super::tree::Fixture;
    use super::*;

    fn two_sockets() -> Fixture {
        let fixture = Fixture::new(&[
            ("proc/cpuinfo", "processor\t: 0\nmodel name\t: Some CPU @ 2.0GHz\n"),
            ("proc/stat", "cpu  1 2 3 4 5 6 7 42 9 10\ncpu0 1 1 1 1 1 1 1 1\n"),
            ("sys/devices/system/cpu/online", "0-3\n"),
            ("sys/devices/system/node/online", "0-1\n"),
        ]);
        for cpu in 0..4 {
            let directory = format!("{CPUS}/cpu{cpu}");
            fixture.write(
                &format!("{directory}/topology/physical_package_id"),
                &format!("{}", cpu / 2),
            );
            fixture.write(&format!("{directory}/topology/core_id"), "0\n");
            let governor = if cpu == 3 { "powersave" } else { "performance" };
            fixture.write(&format!("{directory}/cpufreq/scaling_governor"), governor);
        }
        for (state, name, disabled) in [(0, "POLL", 0), (1, "C1", 0), (2, "C6", 1), (10, "C10", 0)]
        {
            let directory = format!("{CPUS}/cpu0/cpuidle/state{state}");
            fixture.write(&format!("{directory}/name"), name);
            fixture.write(&format!("{directory}/disable"), &disabled.to_string());
        }
        fixture
    }

    #[test]
    fn topology_and_policies() {
        let cpu = describe(&two_sockets().tree());
        assert_eq!(cpu.model, "Some CPU @ 2.0GHz");
        assert_eq!((cpu.count, cpu.core_count, cpu.socket_count), (4, Some(2), Some(2)));
        assert_eq!(cpu.numa_node_count, Some(2));
        assert_eq!(cpu.governor.as_deref(), Some("performance, powersave"));
        assert_eq!(cpu.c_states.unwrap(), ["POLL", "C1", "C10"]);
    }

    #[test]
    fn stolen_ticks_are_the_eighth_number() {
        assert_eq!(steal_ticks(&two_sockets().tree()), Some(42));
        assert_eq!(steal_ticks(&Fixture::new(&[("proc/stat", "cpu  1 2 3")]).tree()), None);
    }

    #[test]
    fn without_a_list_the_processors_are_counted() {
        let fixture = Fixture::new(&[("proc/cpuinfo", "processor\t: 0\n\nprocessor\t: 1\n")]);
        let cpu = describe(&fixture.tree());
        assert_eq!((cpu.count, cpu.core_count, cpu.c_states), (2, None, None));
    }
}
