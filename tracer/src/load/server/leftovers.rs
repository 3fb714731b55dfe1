//! Clusters that a killed lockscope left behind.
//!
//! Every embedded cluster lives in `lockscope-pg-PID-RANDOM` with an `owner` file that tells which
//! process made it. At the next start those whose owner is dead are stopped and removed; those of a
//! living owner, of another user or of another pid namespace are left alone.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use super::process::{postmaster_of, start_ticks, stop_postmaster};

pub(super) const PREFIX: &str = "lockscope-pg-";
const OWNER_FILE: &str = "owner";
/// The data directory in a cluster's directory.
pub(super) const DATA: &str = "data";

/// Who made a cluster.
#[derive(Debug, PartialEq, Eq)]
struct Owner {
    pid: u32,
    start_ticks: u64,
    /// As `/proc/self/ns/pid` reads: a pid means nothing in another namespace.
    pid_namespace: String,
}

impl Owner {
    fn this_process() -> io::Result<Self> {
        let pid = std::process::id();
        let gone = || io::Error::other("/proc does not show this process; is /proc mounted?");
        let start_ticks = start_ticks(pid).ok_or_else(gone)?;
        Ok(Self { pid, start_ticks, pid_namespace: pid_namespace()? })
    }

    fn read(directory: &Path) -> Option<Self> {
        let content = fs::read_to_string(directory.join(OWNER_FILE)).ok()?;
        let mut words = content.split_whitespace();
        Some(Self {
            pid: words.next()?.parse().ok()?,
            start_ticks: words.next()?.parse().ok()?,
            pid_namespace: words.next()?.to_owned(),
        })
    }

    fn is_dead(&self) -> bool {
        pid_namespace().is_ok_and(|namespace| namespace == self.pid_namespace)
            && start_ticks(self.pid) != Some(self.start_ticks)
    }
}

fn pid_namespace() -> io::Result<String> {
    Ok(fs::read_link("/proc/self/ns/pid")?.to_string_lossy().into_owned())
}

/// Writes this process down as the owner of `directory`.
pub(super) fn claim(directory: &Path) -> io::Result<()> {
    let Owner { pid, start_ticks, pid_namespace } = Owner::this_process()?;
    fs::write(directory.join(OWNER_FILE), format!("{pid} {start_ticks} {pid_namespace}\n"))
}

/// Stops and removes the clusters in `parent` whose owner is dead; returns what was removed.
pub(super) fn remove_leftovers(parent: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(parent) else { return Vec::new() };
    let candidates = entries.filter_map(|entry| Some(entry.ok()?.path()));
    candidates.filter(|directory| is_abandoned(directory)).filter(|path| remove(path)).collect()
}

fn is_abandoned(directory: &Path) -> bool {
    let name = directory.file_name().unwrap_or_default().to_string_lossy();
    let Some(maker) = name.strip_prefix(PREFIX).and_then(|rest| rest.split('-').next()) else {
        return false;
    };
    if !directory.symlink_metadata().is_ok_and(|metadata| metadata.is_dir()) {
        return false;
    }
    let mine = |path: &Path| {
        let me = nix::unistd::geteuid().as_raw();
        path.symlink_metadata().is_ok_and(|metadata| metadata.uid() == me)
    };
    match Owner::read(directory) {
        Some(owner) => mine(&directory.join(OWNER_FILE)) && owner.is_dead(),
        // Killed between making the directory and claiming it: only the name tells the maker.
        None => {
            mine(directory)
                && !directory.join(OWNER_FILE).exists()
                && maker.parse().is_ok_and(|pid| start_ticks(pid).is_none())
        }
    }
}

fn remove(directory: &Path) -> bool {
    if let Some(pid) = postmaster_of(&directory.join(DATA)) {
        let started = start_ticks(pid);
        stop_postmaster(pid, || start_ticks(pid) != started);
    }
    let removed = fs::remove_dir_all(directory);
    if let Err(error) = &removed {
        log::warn!("cannot remove the abandoned cluster {}: {error}", directory.display());
    }
    removed.is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cluster(parent: &Path, name: &str, owner: Option<&str>) -> PathBuf {
        let directory = parent.join(name);
        fs::create_dir_all(directory.join(DATA)).unwrap();
        if let Some(owner) = owner {
            fs::write(directory.join(OWNER_FILE), owner).unwrap();
        }
        directory
    }

    #[test]
    fn only_the_clusters_of_dead_owners_go() {
        let parent = tempfile::tempdir().unwrap();
        let namespace = pid_namespace().unwrap();
        let me = std::process::id();
        let make = |name: &str, owner: Option<&str>| cluster(parent.path(), name, owner);

        let reused_pid = make("lockscope-pg-1-aaaa", Some(&format!("{me} 1 {namespace}")));
        let unclaimed = make("lockscope-pg-4194305-bbbb", None);
        let foreign_namespace = make("lockscope-pg-2-cccc", Some("4194305 1 pid:[1]"));
        let being_made = make(&format!("lockscope-pg-{me}-dddd"), None);
        let garbled = make("lockscope-pg-4194305-eeee", Some("what"));
        let other = make("somebody-else", None);
        let mine = make("lockscope-pg-3-ffff", None);
        claim(&mine).unwrap();

        let mut removed = remove_leftovers(parent.path());
        removed.sort();
        assert_eq!(removed, [reused_pid, unclaimed]);
        for kept in [foreign_namespace, being_made, garbled, other, mine] {
            assert!(kept.exists(), "{}", kept.display());
        }
    }

    #[test]
    fn a_link_is_not_followed() {
        let parent = tempfile::tempdir().unwrap();
        let precious = tempfile::tempdir().unwrap();
        let link = parent.path().join("lockscope-pg-4194305-aaaa");
        std::os::unix::fs::symlink(precious.path(), &link).unwrap();
        assert!(remove_leftovers(parent.path()).is_empty());
        assert!(precious.path().exists());
    }
}
