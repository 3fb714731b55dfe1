//! Where the numbers come from: a ratio means little without its machine.

use std::fs;

/// One line: kernel, CPUs, other load.
pub(super) fn describe() -> String {
    let release = nix::sys::utsname::uname()
        .map(|name| name.release().to_string_lossy().into_owned())
        .unwrap_or_default();
    let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let cpus = cpuinfo.lines().filter(|line| line.starts_with("processor")).count();
    let model = cpuinfo
        .lines()
        .find_map(|line| line.strip_prefix("model name")?.split_once(": "))
        .map_or("unknown CPU", |(_, model)| model);
    let guest = cpuinfo.lines().any(|line| {
        line.starts_with("flags") && line.split_whitespace().any(|flag| flag == "hypervisor")
    });
    let place = if guest { "virtual machine" } else { "no hypervisor" };
    format!("machine: Linux {release}, {cpus} x {model}, {place}; {}", other_load())
}

/// What else ran lately, for the reader to judge the spread by.
pub(super) fn other_load() -> String {
    let average = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    format!("load average {}", average.split_whitespace().next().unwrap_or("unknown"))
}
