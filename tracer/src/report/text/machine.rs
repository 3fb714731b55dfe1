//! Machine, kernel, server and storage, in a few dense lines.

use std::collections::BTreeMap;

use super::page::Page;
use crate::analyse::units::{bytes, duration, percent, plural};
use crate::model::{Cpu, Environment, Kernel, Memory, Postgres, Run, StorageLayer, Workload};

pub(super) fn render(run: &Run, page: &mut Page) {
    let environment = &run.environment;
    page.heading("Machine", "");
    page.labelled("kernel", &kernel(&environment.kernel));
    page.labelled("cpu", &cpu(&environment.cpu, environment.hypervisor.as_deref(), run));
    if let Some(text) = mitigations(&environment.kernel) {
        page.labelled("mitigations", &text);
    }
    page.labelled("memory", &memory(&environment.memory));
    if let Some(server) = &environment.postgres {
        page.labelled("postgres", &postgres(server));
    }
    if let Some(text) = storage(environment) {
        page.labelled("storage", &text);
    }
    if let Some(text) = pinning(&run.workload) {
        page.labelled("pinning", &text);
    }
}

fn kernel(kernel: &Kernel) -> String {
    let mut parts = vec![kernel.release.clone()];
    parts.push(match (&kernel.preemption, kernel.preemption_source.as_deref()) {
        (Some(mode), Some("boot")) => format!("preemption {mode} (as booted; dynamic)"),
        (Some(mode), _) => format!("preemption {mode}"),
        (None, _) => "preemption unknown".to_owned(),
    });
    if let Some(hz) = kernel.config_flags.get("CONFIG_HZ") {
        parts.push(format!("HZ={hz}"));
    }
    if let Some(name) = &kernel.clocksource {
        parts.push(format!("clocksource {name}"));
    }
    for (option, name) in [
        ("CONFIG_LOCK_STAT", "LOCK_STAT"),
        ("CONFIG_DEBUG_LOCK_ALLOC", "DEBUG_LOCK_ALLOC"),
        ("CONFIG_SCHED_MM_CID", "SCHED_MM_CID"),
    ] {
        if kernel.config_flags.get(option).is_some_and(|value| value == "y") {
            parts.push(name.to_owned());
        }
    }
    if !kernel.cmdline.is_empty() {
        parts.push(format!("booted with {}", kernel.cmdline));
    }
    parts.join(", ")
}

fn cpu(cpu: &Cpu, hypervisor: Option<&str>, run: &Run) -> String {
    let model = if cpu.model.is_empty() { "CPU of unknown model" } else { &cpu.model };
    let mut parts = vec![format!("{} x {model}", cpu.count)];
    let counts = [
        (cpu.core_count, "core"),
        (cpu.socket_count, "socket"),
        (cpu.numa_node_count, "NUMA node"),
    ];
    parts.extend(counts.iter().filter_map(|(n, noun)| n.map(|count| plural(count.into(), noun))));
    match &cpu.governor {
        Some(governor) => parts.push(format!("governor {governor}")),
        None => parts.push("no cpufreq".to_owned()),
    }
    match cpu.c_states.as_deref() {
        None => parts.push("no cpuidle".to_owned()),
        Some([]) => parts.push("C-states all disabled".to_owned()),
        Some(states) => parts.push(format!("C-states {}", states.join("/"))),
    }
    match hypervisor {
        Some(name) => parts.push(format!("hypervisor {name}")),
        None => parts.push("no hypervisor".to_owned()),
    }
    let machine_ns = f64::from(cpu.count) * run.workload.duration_ns as f64;
    if let Some(steal_ns) = cpu.steal_ns.filter(|_| machine_ns > 0.0) {
        let (time, share) = (duration(steal_ns as f64), percent(steal_ns as f64 / machine_ns));
        parts.push(format!("steal {time} ({share})"));
    }
    parts.join(", ")
}

/// `3 active: spectre_v1, …; vulnerable: …`.
fn mitigations(kernel: &Kernel) -> Option<String> {
    let (mut active, mut vulnerable) = (Vec::new(), Vec::new());
    for (name, state) in &kernel.mitigations {
        let list = if state.starts_with("Vulnerable") { &mut vulnerable } else { &mut active };
        list.push(name.as_str());
    }
    let mut parts = Vec::new();
    if !active.is_empty() {
        parts.push(format!("{} active ({})", active.len(), active.join(", ")));
    }
    if !vulnerable.is_empty() {
        parts.push(format!("vulnerable to {}", vulnerable.join(", ")));
    }
    (!parts.is_empty()).then(|| parts.join("; "))
}

fn memory(memory: &Memory) -> String {
    let mut parts = Vec::new();
    if memory.total_bytes > 0 {
        parts.push(bytes(memory.total_bytes));
        parts.push(match memory.huge_pages_count {
            0 => "no huge pages reserved".to_owned(),
            count => plural(count, "reserved huge page"),
        });
    }
    if let Some(mode) = &memory.transparent_huge_pages {
        parts.push(format!("THP {mode}"));
    }
    let mut limits = Vec::new();
    if let Some(limit) = memory.cgroup_cpu_limit_millis {
        limits.push(format!("{} CPUs", limit as f64 / 1000.0));
    }
    if let Some(limit) = memory.cgroup_limit_bytes {
        limits.push(bytes(limit));
    }
    parts.push(match limits.as_slice() {
        [] => "no cgroup limit".to_owned(),
        limits => format!("cgroup limit {}", limits.join(", ")),
    });
    parts.join(", ")
}

fn postgres(server: &Postgres) -> String {
    let mut parts = vec![server.version.clone()];
    if server.embedded {
        parts.push("throw-away cluster".to_owned());
    }
    let told = server.settings.iter().filter(|(name, value)| !is_usual(name, value));
    parts.extend(told.map(|(name, value)| format!("{name}={value}")));
    parts.join(", ")
}

/// Settings at Postgres's own default say nothing of the benchmark, nor does where a server listens;
/// the JSON has them all.
fn is_usual(name: &str, value: &str) -> bool {
    if ["listen_addresses", "port", "unix_socket_directories"].contains(&name) {
        return true;
    }
    const USUAL: [(&str, &str); 15] = [
        ("autovacuum", "on"),
        ("checkpoint_timeout", "5min"),
        ("commit_delay", "0"),
        ("effective_cache_size", "4GB"),
        ("full_page_writes", "on"),
        ("huge_pages", "try"),
        ("jit", "on"),
        ("max_wal_size", "1GB"),
        ("random_page_cost", "4"),
        ("shared_preload_libraries", ""),
        ("track_activities", "on"),
        ("track_io_timing", "off"),
        ("wal_compression", "off"),
        ("wal_level", "replica"),
        ("work_mem", "4MB"),
    ];
    USUAL.contains(&(name, value))
}

/// `ext4 (rw,relatime) on sda1 > sda (mq-deadline, …)`; like disks once, with their number.
fn storage(environment: &Environment) -> Option<String> {
    let mut groups: Vec<(Vec<&str>, &StorageLayer)> = Vec::new();
    for layer in &environment.storage {
        let alike = groups.iter_mut().find(|(_, first)| {
            first.kind == layer.kind
                && first.kind != "filesystem"
                && first.attributes == layer.attributes
        });
        match alike {
            Some((names, _)) => names.push(&layer.name),
            None => groups.push((vec![&layer.name], layer)),
        }
    }
    let texts: Vec<String> =
        groups.iter().map(|(names, layer)| storage_layer(names, layer)).collect();
    (!texts.is_empty()).then(|| texts.join(" > "))
}

fn storage_layer(names: &[&str], layer: &StorageLayer) -> String {
    let many = if names.len() > 1 { format!("{} x ", names.len()) } else { String::new() };
    let kind = match layer.kind.as_str() {
        "filesystem" => "",
        kind => kind,
    };
    let lead = format!("{many}{kind} {}", names.join(" "));
    let attributes = attributes(&layer.attributes);
    match attributes.as_str() {
        "" => lead.trim().to_owned(),
        text => format!("{} ({text})", lead.trim()),
    }
}

/// The attributes in reading order; names that speak for themselves are left out.
fn attributes(attributes: &BTreeMap<String, String>) -> String {
    const FIRST: [&str; 5] = ["options", "target", "level", "stripes", "scheduler"];
    let rank = |name: &str| FIRST.iter().position(|first| *first == name).unwrap_or(FIRST.len());
    let mut sorted: Vec<(&str, &str)> =
        attributes.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    sorted.sort_by_key(|(name, _)| rank(name));
    let texts = sorted.into_iter().map(|attribute| match attribute {
        ("options" | "level" | "target", value) => value.to_owned(),
        ("stripes", value) => format!("{value} stripes"),
        ("write_cache", value) => format!("{value} cache"),
        ("rotational", "0") => "not rotational".to_owned(),
        ("rotational", "1") => "rotational".to_owned(),
        (name, value) => format!("{name} {value}"),
    });
    texts.collect::<Vec<_>>().join(", ")
}

fn pinning(workload: &Workload) -> Option<String> {
    let parts: Vec<String> =
        [("server", &workload.pin_server), ("load generator", &workload.pin_client)]
            .iter()
            .filter_map(|(who, cpus)| cpus.as_ref().map(|cpus| format!("{who} on CPU {cpus}")))
            .collect();
    (!parts.is_empty()).then(|| parts.join(", "))
}
