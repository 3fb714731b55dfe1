//! Release, preemption, clock source, mitigations.

use std::collections::BTreeMap;

use super::config;
use super::tree::{Tree, chosen};
use crate::model::Kernel;

pub(super) fn describe(tree: &Tree) -> Kernel {
    let release = tree.read("proc/sys/kernel/osrelease").unwrap_or_default();
    let mut kernel = Kernel {
        version: tree.read("proc/sys/kernel/version").unwrap_or_default(),
        config_flags: config::flags(tree, &release),
        clocksource: tree.read("sys/devices/system/clocksource/clocksource0/current_clocksource"),
        mitigations: mitigations(tree),
        cmdline: tree.read("proc/cmdline").unwrap_or_default(),
        release,
        ..Kernel::default()
    };
    if let Some((mode, source)) = preemption(tree, &kernel) {
        kernel.preemption = Some(mode);
        kernel.preemption_source = Some(source.to_owned());
    }
    kernel
}

/// The mode and how it is known.
fn preemption(tree: &Tree, kernel: &Kernel) -> Option<(String, &'static str)> {
    if let Some(mode) = tree.read("sys/kernel/debug/sched/preempt").and_then(|text| marked(&text)) {
        return Some((mode, "running"));
    }
    let on = |option: &str| kernel.config_flags.get(option).is_some_and(|value| value == "y");
    if on("CONFIG_PREEMPT_RT") || kernel.version.contains("PREEMPT_RT") {
        return Some(("rt".to_owned(), "build"));
    }
    let built = [
        ("CONFIG_PREEMPT_NONE", "none"),
        ("CONFIG_PREEMPT_VOLUNTARY", "voluntary"),
        ("CONFIG_PREEMPT_LAZY", "lazy"),
        ("CONFIG_PREEMPT", "full"),
    ]
    .into_iter()
    .find_map(|(option, mode)| on(option).then(|| mode.to_owned()));
    if on("CONFIG_PREEMPT_DYNAMIC") || kernel.version.contains("PREEMPT_DYNAMIC") {
        let asked = kernel.cmdline.split_whitespace().rev();
        let asked = asked.filter_map(|option| option.strip_prefix("preempt=")).next();
        return Some((asked.map(str::to_owned).or(built)?, "boot"));
    }
    match built {
        Some(mode) => Some((mode, "build")),
        // `none` and `voluntary` look the same here: only a plain PREEMPT tells.
        None if kernel.version.split_whitespace().any(|word| word == "PREEMPT") => {
            Some(("full".to_owned(), "build"))
        }
        None => None,
    }
}

/// The choice in parentheses of a list like `none (voluntary) full`.
fn marked(text: &str) -> Option<String> {
    chosen(&text.replace('(', "[").replace(')', "]"))
}

/// What each vulnerability's file says, without those that this CPU does not have.
fn mitigations(tree: &Tree) -> BTreeMap<String, String> {
    const DIRECTORY: &str = "sys/devices/system/cpu/vulnerabilities";
    tree.list(DIRECTORY)
        .into_iter()
        .filter_map(|name| {
            let state = tree.read(format!("{DIRECTORY}/{name}"))?;
            (state != "Not affected").then_some((name, state))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::tree::Fixture;
    use super::*;

    fn mode(files: &[(&str, &str)]) -> (Option<String>, Option<String>) {
        let mut all = vec![("proc/sys/kernel/osrelease", "6.1.0\n")];
        all.extend(files);
        let kernel = describe(&Fixture::new(&all).tree());
        (kernel.preemption, kernel.preemption_source)
    }

    fn known(mode: &str, source: &str) -> (Option<String>, Option<String>) {
        (Some(mode.to_owned()), Some(source.to_owned()))
    }

    const DYNAMIC: (&str, &str) =
        ("boot/config-6.1.0", "CONFIG_PREEMPT_DYNAMIC=y\nCONFIG_PREEMPT_VOLUNTARY=y\n");

    #[test]
    fn preemption_is_taken_from_the_surest_source() {
        let running = ("sys/kernel/debug/sched/preempt", "none voluntary (full)\n");
        assert_eq!(mode(&[DYNAMIC, running]), known("full", "running"));
        assert_eq!(mode(&[DYNAMIC, ("proc/cmdline", "quiet preempt=none")]), known("none", "boot"));
        assert_eq!(mode(&[DYNAMIC]), known("voluntary", "boot"));
        assert_eq!(
            mode(&[("boot/config-6.1.0", "CONFIG_PREEMPT_NONE=y\n")]),
            known("none", "build")
        );
        let version = |text| ("proc/sys/kernel/version", text);
        assert_eq!(mode(&[version("#1 SMP PREEMPT_RT Debian")]), known("rt", "build"));
        assert_eq!(mode(&[version("#1 SMP PREEMPT Fri")]), known("full", "build"));
    }

    #[test]
    fn what_is_not_known_stays_absent() {
        assert_eq!(mode(&[("proc/sys/kernel/version", "#1 SMP Debian 5.10")]), (None, None));
        assert_eq!(mode(&[("proc/sys/kernel/version", "#1 SMP PREEMPT_DYNAMIC")]), (None, None));
    }

    #[test]
    fn mitigations_leave_out_what_the_cpu_does_not_have() {
        let directory = "sys/devices/system/cpu/vulnerabilities";
        let fixture = Fixture::new(&[
            (&format!("{directory}/mds"), "Not affected\n"),
            (&format!("{directory}/spectre_v2"), "Mitigation: Retpolines\n"),
        ]);
        let kernel = describe(&fixture.tree());
        assert_eq!(kernel.mitigations.len(), 1);
        assert_eq!(kernel.mitigations["spectre_v2"], "Mitigation: Retpolines");
    }
}
