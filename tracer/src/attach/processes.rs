//! The server's processes, as `/proc` shows them. Pids are those of lockscope's own pid namespace.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use procfs::process::{Process, all_processes};

use super::role::role_of_title;

/// A process of the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerProcess {
    /// Its pid.
    pub pid: u32,
    /// `postmaster`, `client backend`, `checkpointer`, …
    pub role: String,
    /// When it started, nanoseconds since boot (CLOCK_BOOTTIME, in steps of a clock tick).
    pub started_ns: u64,
}

/// The postmaster and its children, oldest first. Empty when it is gone; processes that end
/// meanwhile are left out.
pub fn children(postmaster: u32) -> Vec<ServerProcess> {
    let mut found = Vec::new();
    for (process, parent) in processes_with_parents() {
        let pid = process.pid.cast_unsigned();
        let role = match (pid == postmaster, parent == postmaster) {
            (true, _) => "postmaster",
            (false, true) => role_of_title(&title(pid)),
            (false, false) => continue,
        };
        if let Ok(stat) = process.stat() {
            let started_ns = ticks_to_ns(stat.starttime);
            found.push(ServerProcess { pid, role: role.to_owned(), started_ns });
        }
    }
    found.sort_by_key(|process| (process.started_ns, process.pid));
    found
}

/// A process and all that come from it, as far as their parents live.
pub fn descendants(pid: u32) -> BTreeSet<u32> {
    let everyone: Vec<(u32, u32)> = processes_with_parents()
        .map(|(process, parent)| (process.pid.cast_unsigned(), parent))
        .collect();
    let mut found = BTreeSet::from([pid]);
    // A child may have a smaller number than its parent: until nobody is new.
    loop {
        let before = found.len();
        let more = everyone.iter().filter(|(_, parent)| found.contains(parent));
        let more: Vec<u32> = more.map(|(child, _)| *child).collect();
        found.extend(more);
        if found.len() == before {
            return found;
        }
    }
}

/// The pid, as lockscope sees it, of the postmaster's child that calls itself `pid` in its own
/// pid namespace: what BackendKeyData carries when the server runs in a container.
pub fn translate_pid(postmaster: u32, pid: u32) -> Option<u32> {
    let mut candidates = processes_with_parents().filter(|(_, parent)| *parent == postmaster);
    candidates.find_map(|(process, _)| {
        (pid_in_own_namespace(&process)? == pid).then_some(process.pid.cast_unsigned())
    })
}

/// Every process that `/proc` shows, with its parent's pid.
pub(super) fn processes_with_parents() -> impl Iterator<Item = (Process, u32)> {
    let processes = all_processes().into_iter().flatten().filter_map(Result::ok);
    processes.filter_map(|process| {
        let parent = process.stat().ok()?.ppid;
        Some((process, parent.cast_unsigned()))
    })
}

/// The inodes of a process's open sockets; none when it is gone or not ours to look at. The links alone
/// are read, for a server has thousands: procfs opens and asks for each of them, too.
pub(super) fn socket_inodes(process: &Process) -> impl Iterator<Item = u64> + use<> {
    let descriptors = fs::read_dir(format!("/proc/{}/fd", process.pid));
    let links = descriptors.into_iter().flatten().flatten();
    links.filter_map(|descriptor| {
        let link = fs::read_link(descriptor.path()).ok()?;
        link.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()
    })
}

/// The pid by which a process knows itself: the innermost of those that it has.
pub fn own_pid(pid: u32) -> Option<u32> {
    pid_in_own_namespace(&Process::new(pid.cast_signed()).ok()?)
}

/// The innermost of the pids that a process has.
pub(super) fn pid_in_own_namespace(process: &Process) -> Option<u32> {
    process.status().ok()?.nspid?.last().map(|pid| pid.cast_unsigned())
}

/// The kernel's short name of a process, empty when it is gone.
pub(super) fn comm(pid: u32) -> String {
    let comm = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    comm.trim_end().to_owned()
}

/// Whether a process is one of Postgres's, by its executable's name.
pub(super) fn is_postgres(pid: u32) -> bool {
    let comm = comm(pid);
    // EDB's server has its own name; Debian's and everyone else's is `postgres`.
    matches!(comm.as_str(), "postgres" | "postmaster" | "edb-postgres")
}

/// The parent's pid.
pub(super) fn parent(pid: u32) -> Option<u32> {
    let stat = Process::new(pid.cast_signed()).ok()?.stat().ok()?;
    Some(stat.ppid.cast_unsigned())
}

/// The title, which may hold names in any encoding.
fn title(pid: u32) -> String {
    let raw = fs::read(Path::new("/proc").join(pid.to_string()).join("cmdline"));
    let words = raw.unwrap_or_default();
    let text = String::from_utf8_lossy(&words).replace('\0', " ");
    text.trim_end_matches(' ').to_owned()
}

fn ticks_to_ns(ticks: u64) -> u64 {
    ticks.saturating_mul(1_000_000_000) / procfs::ticks_per_second().max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_without_children_is_alone() {
        let own = std::process::id();
        let found = children(own);
        let postmaster = found.iter().find(|process| process.pid == own).unwrap();
        assert_eq!(postmaster.role, "postmaster");
        assert!(postmaster.started_ns > 0);
    }

    #[test]
    fn a_pid_that_is_gone_has_none() {
        // Above the largest pid that Linux gives.
        assert_eq!(children(1 << 23), []);
        assert_eq!(translate_pid(1 << 23, 1), None);
    }

    #[test]
    fn a_child_in_our_namespace_translates_to_itself() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let pid = child.id();
        let translated = translate_pid(std::process::id(), pid);
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(translated, Some(pid));
    }
}
