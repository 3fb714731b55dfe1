//! Limits of the control groups that this process is in, version 1 and 2.

use std::path::{Path, PathBuf};

use super::mounts::{Mount, mounts};
use super::tree::Tree;

/// The tightest limits on the way to the root.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Limits {
    /// CPUs times 1000.
    pub(super) cpu_millis: Option<u64>,
    pub(super) memory_bytes: Option<u64>,
}

/// Version 1 writes "no limit" as a number near 2^63.
const UNLIMITED: u64 = 1 << 62;

pub(super) fn limits(tree: &Tree) -> Limits {
    let mounts = mounts(tree);
    let membership = tree.read("proc/self/cgroup").unwrap_or_default();
    let mut limits = Limits::default();
    for line in membership.lines() {
        // `4:memory:/path`, `0::/path`
        let mut parts = line.splitn(3, ':');
        let (Some(_), Some(controllers), Some(path)) = (parts.next(), parts.next(), parts.next())
        else {
            continue;
        };
        let has = |name: &str| controllers.split(',').any(|controller| controller == name);
        if controllers.is_empty() {
            for group in groups(&mounts, "cgroup2", "", path) {
                limits.cpu_millis = tightest(limits.cpu_millis, cpu_max(tree, &group));
                let memory = tree.read_number(group.join("memory.max"));
                limits.memory_bytes = tightest(limits.memory_bytes, memory);
            }
        }
        if has("cpu") {
            for group in groups(&mounts, "cgroup", "cpu", path) {
                limits.cpu_millis = tightest(limits.cpu_millis, cfs_quota(tree, &group));
            }
        }
        if has("memory") {
            for group in groups(&mounts, "cgroup", "memory", path) {
                let limit = tree.read_number(group.join("memory.limit_in_bytes"));
                let limit = limit.filter(|bytes| *bytes < UNLIMITED);
                limits.memory_bytes = tightest(limits.memory_bytes, limit);
            }
        }
    }
    limits
}

/// The directories of a group and of those above it, as far as they can be seen from here.
fn groups(mounts: &[Mount], kind: &str, controller: &str, path: &str) -> Vec<PathBuf> {
    let is_hierarchy = |mount: &&Mount| {
        mount.kind == kind
            && (controller.is_empty() || mount.super_options.split(',').any(|o| o == controller))
    };
    let Some(mount) = mounts.iter().find(is_hierarchy) else { return Vec::new() };
    // In a container the mount shows only a part of the hierarchy.
    let path = Path::new(path);
    let below = path.strip_prefix(&mount.root).or_else(|_| path.strip_prefix("/"));
    let below = below.unwrap_or(Path::new(""));
    below.ancestors().map(|part| mount.point.join(part)).collect()
}

fn tightest(left: Option<u64>, right: Option<u64>) -> Option<u64> {
    [left, right].into_iter().flatten().min()
}

/// `200000 100000` or `max 100000`.
fn cpu_max(tree: &Tree, group: &Path) -> Option<u64> {
    let text = tree.read(group.join("cpu.max"))?;
    let (quota, period) = text.split_once(' ')?;
    quotient(quota.parse().ok()?, period.parse().ok()?)
}

fn cfs_quota(tree: &Tree, group: &Path) -> Option<u64> {
    // Without a limit the quota is -1, which is no u64.
    let quota = tree.read_number(group.join("cpu.cfs_quota_us"))?;
    quotient(quota, tree.read_number(group.join("cpu.cfs_period_us"))?)
}

fn quotient(quota: u64, period: u64) -> Option<u64> {
    quota.checked_mul(1000)?.checked_div(period)
}

#[cfg(test)]
mod tests {
    use super::super::tree::Fixture;
    use super::*;

    #[test]
    fn version_2_takes_the_tightest_on_the_way_up() {
        let fixture = Fixture::new(&[
            ("proc/self/cgroup", "0::/system.slice/pg.service\n"),
            ("proc/self/mountinfo", "31 23 0:28 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"),
            ("sys/fs/cgroup/system.slice/cpu.max", "150000 100000\n"),
            ("sys/fs/cgroup/system.slice/pg.service/cpu.max", "max 100000\n"),
            ("sys/fs/cgroup/system.slice/memory.max", "max\n"),
            ("sys/fs/cgroup/system.slice/pg.service/memory.max", "1073741824\n"),
        ]);
        let expected = Limits { cpu_millis: Some(1500), memory_bytes: Some(1 << 30) };
        assert_eq!(limits(&fixture.tree()), expected);
    }

    #[test]
    fn version_1_in_a_container() {
        let fixture = Fixture::new(&[
            ("proc/self/cgroup", "4:memory:/docker/abc\n2:cpu,cpuacct:/docker/abc\n0::/\n"),
            (
                "proc/self/mountinfo",
                "1 0 0:1 /docker/abc /sys/fs/cgroup/cpu ro - cgroup cgroup rw,cpu,cpuacct\n\
                 2 0 0:2 /docker/abc /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n",
            ),
            ("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "250000\n"),
            ("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n"),
            ("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n"),
        ]);
        let expected = Limits { cpu_millis: Some(2500), memory_bytes: None };
        assert_eq!(limits(&fixture.tree()), expected);
    }

    #[test]
    fn no_quota_is_no_limit() {
        let fixture = Fixture::new(&[
            ("proc/self/cgroup", "1:cpu:/\n"),
            ("proc/self/mountinfo", "1 0 0:1 / /sys/fs/cgroup/cpu ro - cgroup cgroup rw,cpu\n"),
            ("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n"),
            ("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n"),
        ]);
        assert_eq!(limits(&fixture.tree()), Limits::default());
    }
}
