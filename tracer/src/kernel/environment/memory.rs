//! Memory, huge pages and this process's limits.

use super::cgroup;
use super::tree::{Tree, chosen};
use crate::model::Memory;

pub(super) fn describe(tree: &Tree) -> Memory {
    let info = tree.read("proc/meminfo").unwrap_or_default();
    let limits = cgroup::limits(tree);
    Memory {
        total_bytes: field(&info, "MemTotal:").unwrap_or(0) * 1024,
        transparent_huge_pages: tree
            .read("sys/kernel/mm/transparent_hugepage/enabled")
            .and_then(|text| chosen(&text)),
        huge_pages_count: field(&info, "HugePages_Total:").unwrap_or(0),
        cgroup_limit_bytes: limits.memory_bytes,
        cgroup_cpu_limit_millis: limits.cpu_millis,
    }
}

fn field(info: &str, name: &str) -> Option<u64> {
    let line = info.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::super::tree::Fixture;
    use super::*;

    #[test]
    fn meminfo_is_in_kib() {
        let fixture = Fixture::new(&[
            ("proc/meminfo", "MemTotal:       2048 kB\nMemFree: 1 kB\nHugePages_Total:      16\n"),
            ("sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n"),
        ]);
        let memory = describe(&fixture.tree());
        assert_eq!(memory.total_bytes, 2 << 20);
        assert_eq!(memory.huge_pages_count, 16);
        assert_eq!(memory.transparent_huge_pages.as_deref(), Some("madvise"));
        assert_eq!((memory.cgroup_limit_bytes, memory.cgroup_cpu_limit_millis), (None, None));
    }
}
