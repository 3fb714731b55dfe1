//! The processes of the machine as they were at one look, and what of a server is among them. Pids are
//! those of lockscope's own pid namespace.

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::role::role_of_title;
use crate::kernel::task;

/// A process, by its `/proc/PID/stat`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Process {
    /// Its pid.
    pub pid: u32,
    /// Its parent's pid.
    pub parent: u32,
    /// The kernel's short name of it.
    pub comm: String,
    /// When it started, clock ticks since boot.
    started_ticks: u64,
    own_pid: OnceCell<Option<u32>>,
}

/// Pids come back, but not with the same start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ProcessKey {
    /// Its pid.
    pub pid: u32,
    started_ticks: u64,
}

impl Process {
    /// What tells it from a later process of the same pid.
    pub fn key(&self) -> ProcessKey {
        ProcessKey { pid: self.pid, started_ticks: self.started_ticks }
    }

    /// The pid by which it knows itself, in its own pid namespace; `None` when it is gone.
    pub fn own_pid(&self) -> Option<u32> {
        *self.own_pid.get_or_init(|| task::own_pid(self.pid))
    }

    /// Whether it is one of Postgres's, by its executable's name.
    pub fn is_postgres(&self) -> bool {
        // EDB's server has its own name; Debian's and everyone else's is `postgres`.
        matches!(self.comm.as_str(), "postgres" | "postmaster" | "edb-postgres")
    }

    /// What it does, if it is a postmaster's child: by its title, which it sets after its fork.
    pub fn role(&self) -> &'static str {
        role_of_title(&task::title(self.pid).unwrap_or_default())
    }
}

/// All processes that `/proc` shows, each read once. Processes that end meanwhile are left out, those
/// that come later are in the next one.
#[derive(Clone, Debug, Default)]
pub struct ProcessTable {
    processes: BTreeMap<u32, Process>,
}

impl ProcessTable {
    /// Looks now.
    pub fn read() -> ProcessTable {
        let process = |pid| {
            let stat = task::stat(pid)?;
            let (parent, started_ticks) = (stat.parent, stat.started_ticks);
            let own_pid = OnceCell::new();
            Some((pid, Process { pid, parent, comm: stat.comm, started_ticks, own_pid }))
        };
        ProcessTable { processes: task::pids().filter_map(process).collect() }
    }

    /// One process.
    pub fn of(&self, pid: u32) -> Option<&Process> {
        self.processes.get(&pid)
    }

    /// All of them, by pid.
    pub fn iter(&self) -> impl Iterator<Item = &Process> + Clone {
        self.processes.values()
    }

    /// Those with this parent, oldest first.
    pub fn children(&self, parent: u32) -> Vec<&Process> {
        let mut children: Vec<&Process> =
            self.iter().filter(|process| process.parent == parent).collect();
        children.sort_by_key(|process| (process.started_ticks, process.pid));
        children
    }

    /// A process and all that come from it, as far as their parents live.
    pub fn descendants(&self, pid: u32) -> BTreeSet<u32> {
        let mut found = BTreeSet::from([pid]);
        // A child may have a smaller number than its parent: until nobody is new.
        loop {
            let before = found.len();
            let children = self.iter().filter(|process| found.contains(&process.parent));
            let children: Vec<u32> = children.map(|process| process.pid).collect();
            found.extend(children);
            if found.len() == before {
                return found;
            }
        }
    }

    /// The postmaster above any of a server's processes: its own parent is not Postgres.
    pub fn postmaster_of(&self, pid: u32) -> Option<u32> {
        let mut server = self.of(pid).filter(|process| process.is_postgres())?;
        while let Some(above) = self.of(server.parent).filter(|above| above.is_postgres()) {
            server = above;
        }
        Some(server.pid)
    }

    /// The postmasters of all servers, by pid.
    pub fn postmasters(&self) -> impl Iterator<Item = u32> {
        let is_postmaster = |process: &&Process| {
            let has_postgres_above = || self.of(process.parent).is_some_and(Process::is_postgres);
            process.is_postgres() && !has_postgres_above()
        };
        self.iter().filter(is_postmaster).map(|process| process.pid)
    }

    /// A postmaster's children, lockscope's pids for them by those that they call themselves in their own
    /// pid namespace: what BackendKeyData carries when the server runs in a container.
    pub fn children_by_own_pid(&self, postmaster: u32) -> HashMap<u32, u32> {
        let children = self.children(postmaster).into_iter();
        children.filter_map(|child| Some((child.own_pid()?, child.pid))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(processes: &[(u32, u32, &str)]) -> ProcessTable {
        let process = |(pid, parent, comm): &(u32, u32, &str)| Process {
            pid: *pid,
            parent: *parent,
            comm: (*comm).to_owned(),
            started_ticks: 1000 - u64::from(*pid),
            own_pid: OnceCell::new(),
        };
        ProcessTable { processes: processes.iter().map(|of| (of.0, process(of))).collect() }
    }

    #[test]
    fn families_are_told_apart_whatever_their_numbers() {
        let table = table(&[(1, 0, "init"), (9, 1, "sh"), (4, 9, "pgbench"), (2, 4, "sh")]);
        assert_eq!(table.descendants(9), BTreeSet::from([2, 4, 9]));
        assert_eq!(table.descendants(77), BTreeSet::from([77]));
        let children: Vec<u32> = table.children(9).iter().map(|child| child.pid).collect();
        assert_eq!(children, [4]);
    }

    #[test]
    fn children_come_oldest_first() {
        let table = table(&[(1, 0, "init"), (5, 1, "a"), (6, 1, "b")]);
        let children: Vec<u32> = table.children(1).iter().map(|child| child.pid).collect();
        assert_eq!(children, [6, 5]);
    }

    #[test]
    fn a_server_is_the_uppermost_of_its_processes() {
        let table = table(&[
            (1, 0, "init"),
            (10, 1, "postgres"),
            (11, 10, "postgres"),
            (12, 11, "sh"),
            (20, 12, "edb-postgres"),
        ]);
        assert_eq!(table.postmasters().collect::<Vec<_>>(), [10, 20]);
        assert_eq!(table.postmaster_of(11), Some(10));
        assert_eq!(table.postmaster_of(12), None);
        assert_eq!(table.postmaster_of(77), None);
    }

    #[test]
    fn a_child_in_our_namespace_calls_itself_as_we_do() {
        let own = std::process::id();
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let table = ProcessTable::read();
        let by_own_pid = table.children_by_own_pid(own);
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(by_own_pid.get(&child.id()), Some(&child.id()));
        assert_eq!(table.of(child.id()).map(|process| process.parent), Some(own));
        // Above the largest pid that Linux gives.
        assert!(table.of(1 << 23).is_none() && table.children_by_own_pid(1 << 23).is_empty());
    }
}
