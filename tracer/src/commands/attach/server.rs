//! One of the servers of an attached trace.

use lockscope_ebpf::Side;

use super::roles::{CLIENT_BACKEND, lives};
use crate::attach::servers::{RunningServer, running_servers};
use crate::attach::{Addresses, addresses, children, encrypted_status, own_pid};
use crate::probe::TracedTask;

/// It, and where its transactions are counted.
pub(super) struct Server {
    pub(super) running: RunningServer,
    /// The set of latency buckets, from 1.
    pub(super) set: u8,
    /// Where its processes tell what they do.
    memory: Addresses,
}

impl Server {
    pub(super) fn new(running: RunningServer, set: u8) -> Server {
        let memory = memory_of(&running);
        Server { running, set, memory }
    }

    /// Its processes, the postmaster's children take over what the postmaster has; and whether each
    /// is a client's backend.
    pub(super) fn tasks(&self, leaves_sessions_out: bool) -> Vec<(TracedTask, bool)> {
        let postmaster = self.running.postmaster;
        let task = |process: crate::attach::ServerProcess| {
            let is_backend = process.role == CLIENT_BACKEND;
            let task = TracedTask {
                wait_event_address: self.memory.wait_event,
                status_address: own_pid(process.pid)
                    .filter(|_| is_backend)
                    .and_then(|own| encrypted_status(process.pid, own, self.memory.status_entry)),
                counted: self.set,
                may_be_left_out: leaves_sessions_out && process.pid == postmaster,
                ..TracedTask::plain(process.pid, process.pid, Side::Server)
            };
            (task, is_backend)
        };
        children(postmaster).into_iter().map(task).collect()
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
        self.running = running_servers().into_iter().find(is_same)?;
        self.memory = memory_of(&self.running);
        Some(())
    }
}

fn memory_of(server: &RunningServer) -> Addresses {
    addresses(server.postmaster).unwrap_or(Addresses { wait_event: None, status_entry: None })
}
