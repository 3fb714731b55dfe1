//! One of the servers of an attached trace.

use std::collections::BTreeMap;

use lockscope_ebpf::Side;

use super::roles::lives;
use crate::attach::processes::{Process, ProcessKey};
use crate::attach::role::CLIENT_BACKEND;
use crate::attach::servers::{RunningServer, running_servers};
use crate::attach::{Addresses, ProcessTable, addresses, encrypted_status};
use crate::probe::TracedTask;

/// It, and where its transactions are counted.
pub(super) struct Server {
    pub(super) running: RunningServer,
    /// The set of latency buckets, from 1.
    pub(super) set: u8,
    /// Where its processes tell what they do.
    memory: Addresses,
    /// Its clients' backends of the last look, and where each tells of its replies.
    backends: BTreeMap<ProcessKey, Option<u64>>,
}

impl Server {
    pub(super) fn new(running: RunningServer, set: u8) -> Server {
        let memory = memory_of(&running);
        Server { running, set, memory, backends: BTreeMap::new() }
    }

    /// Looks for its processes. The postmaster comes first: its children take over what it has.
    pub(super) fn look(
        &mut self,
        processes: &ProcessTable,
        leaves_sessions_out: bool,
    ) -> Vec<TracedTask> {
        let postmaster = self.running.postmaster;
        let children = processes.children(postmaster);
        // A backend stays one: only of the others the titles are read.
        let backends: BTreeMap<ProcessKey, Option<u64>> =
            children.iter().filter_map(|child| Some((child.key(), self.backend(child)?))).collect();
        self.backends = backends;
        let task = |pid| TracedTask {
            wait_event_address: self.memory.wait_event,
            counted: self.set,
            ..TracedTask::plain(pid, pid, Side::Server)
        };
        let first = processes.of(postmaster).map(|process| TracedTask {
            may_be_left_out: leaves_sessions_out,
            ..task(process.pid)
        });
        let children = children.into_iter().map(|child| TracedTask {
            status_address: self.backends.get(&child.key()).copied().flatten(),
            ..task(child.pid)
        });
        first.into_iter().chain(children).collect()
    }

    /// Where a client's backend tells of its replies; `None` of another process.
    fn backend(&self, process: &Process) -> Option<Option<u64>> {
        let known = self.backends.get(&process.key()).copied();
        known.or_else(|| {
            let is_backend = process.role() == CLIENT_BACKEND;
            let own = process.own_pid().filter(|_| is_backend)?;
            Some(encrypted_status(process.pid, own, self.memory.status_entry))
        })
    }

    /// Its clients' backends, as of the last look.
    pub(super) fn backends(&self) -> impl Iterator<Item = ProcessKey> {
        self.backends.keys().copied()
    }

    pub(super) fn lives(&self) -> bool {
        lives(self.running.postmaster)
    }

    /// A server in the same directory, where this one is gone.
    pub(super) fn find_restarted(&mut self) -> Option<()> {
        if self.lives() {
            return None;
        }
        let is_same = |other: &RunningServer| {
            other.data_directory == self.running.data_directory && other.port == self.running.port
        };
        self.running = running_servers(&ProcessTable::read()).into_iter().find(is_same)?;
        self.memory = memory_of(&self.running);
        Some(())
    }
}

fn memory_of(server: &RunningServer) -> Addresses {
    addresses(server.postmaster).unwrap_or(Addresses { wait_event: None, status_entry: None })
}
