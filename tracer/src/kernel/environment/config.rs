//! The kernel's build configuration.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read as _;

use flate2::read::GzDecoder;

use super::tree::Tree;

/// Options that change what locks do or what can be seen of them.
const OPTIONS: [&str; 24] = [
    "CONFIG_BLK_CGROUP",
    "CONFIG_BPF_SYSCALL",
    "CONFIG_DEBUG_INFO_BTF",
    "CONFIG_DEBUG_LOCK_ALLOC",
    "CONFIG_FUNCTION_TRACER",
    "CONFIG_HZ",
    "CONFIG_KALLSYMS_ALL",
    "CONFIG_KPROBES",
    "CONFIG_LOCK_STAT",
    "CONFIG_MUTEX_SPIN_ON_OWNER",
    "CONFIG_NUMA",
    "CONFIG_NUMA_BALANCING",
    "CONFIG_PARAVIRT_SPINLOCKS",
    "CONFIG_PREEMPT",
    "CONFIG_PREEMPT_DYNAMIC",
    "CONFIG_PREEMPT_LAZY",
    "CONFIG_PREEMPT_NONE",
    "CONFIG_PREEMPT_RT",
    "CONFIG_PREEMPT_VOLUNTARY",
    "CONFIG_PSI",
    "CONFIG_QUEUED_SPINLOCKS",
    "CONFIG_RWSEM_SPIN_ON_OWNER",
    "CONFIG_SCHED_CLASS_EXT",
    "CONFIG_SCHED_MM_CID",
];

/// The options that matter; empty when no configuration of this release can be read. An option
/// that the configuration says is off, or does not know, is `n`.
pub(super) fn flags(tree: &Tree, release: &str) -> BTreeMap<String, String> {
    let Some(text) = text(tree, release) else { return BTreeMap::new() };
    let values: BTreeMap<&str, &str> =
        text.lines().filter_map(|line| line.trim().split_once('=')).collect();
    OPTIONS
        .iter()
        .map(|option| {
            let value = values.get(option).map_or("n", |value| value.trim_matches('"'));
            ((*option).to_owned(), value.to_owned())
        })
        .collect()
}

fn text(tree: &Tree, release: &str) -> Option<String> {
    if let Ok(file) = fs::File::open(tree.path("proc/config.gz")) {
        let mut text = String::new();
        if GzDecoder::new(file).read_to_string(&mut text).is_ok() {
            return Some(text);
        }
    }
    [
        format!("boot/config-{release}"),
        format!("lib/modules/{release}/config"),
        format!("usr/lib/modules/{release}/config"),
        format!("lib/modules/{release}/build/.config"),
    ]
    .iter()
    .find_map(|path| tree.read(path))
    .filter(|text| text.contains("CONFIG_"))
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use flate2::{Compression, write::GzEncoder};

    use super::super::tree::Fixture;
    use super::*;

    const CONFIG: &str = "# CONFIG_KPROBES is not set\nCONFIG_PREEMPT_DYNAMIC=y\nCONFIG_HZ=250\n";

    #[test]
    fn a_plain_configuration_of_the_release() {
        let fixture = Fixture::new(&[("boot/config-6.1.0", CONFIG)]);
        let flags = flags(&fixture.tree(), "6.1.0");
        assert_eq!(flags["CONFIG_KPROBES"], "n");
        assert_eq!(flags["CONFIG_PREEMPT_DYNAMIC"], "y");
        assert_eq!(flags["CONFIG_HZ"], "250");
        assert_eq!(flags["CONFIG_SCHED_MM_CID"], "n", "not known to this kernel");
    }

    #[test]
    fn the_running_kernels_own_copy_wins() {
        let fixture = Fixture::new(&[("boot/config-6.1.0", "CONFIG_HZ=1000\n"), ("proc/x", "")]);
        let file = fs::File::create(fixture.directory.path().join("proc/config.gz")).unwrap();
        let mut encoder = GzEncoder::new(file, Compression::fast());
        encoder.write_all(CONFIG.as_bytes()).unwrap();
        encoder.finish().unwrap();
        assert_eq!(flags(&fixture.tree(), "6.1.0")["CONFIG_HZ"], "250");
    }

    #[test]
    fn of_another_release_nothing_is_taken() {
        let fixture = Fixture::new(&[("boot/config-6.1.0", CONFIG)]);
        assert!(flags(&fixture.tree(), "6.12.0").is_empty());
    }
}
