//! Who is who among the tasks of an attached trace, and who has come meanwhile.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use lockscope_ebpf::{Side, TaskAccount};

use super::{AttachError, plain};
use crate::attach::role::role_of_title;
use crate::attach::servers::RunningServer;
use crate::attach::{Addresses, addresses, children, client_processes, encrypted_status, own_pid};
use crate::filter::Filter;
use crate::ledger::Group;
use crate::probe::TracedTask;
use crate::session::Classify;

const CLIENT_BACKEND: &str = "client backend";

/// The server of the trace, if it has one, and its clients.
pub(super) struct Roles {
    server: Option<RunningServer>,
    /// Where its processes tell what they do.
    memory: Addresses,
    /// Backends whose clients were looked for.
    backends: BTreeSet<u32>,
    clients: BTreeSet<u32>,
    /// Tasks that were taken in.
    known: BTreeSet<(u32, u32)>,
}

impl Roles {
    pub(super) fn new(server: Option<RunningServer>) -> Roles {
        let memory = server.as_ref().and_then(|server| addresses(server.postmaster).ok());
        Roles {
            server,
            memory: memory.unwrap_or(Addresses { wait_event: None, status_entry: None }),
            backends: BTreeSet::new(),
            clients: BTreeSet::new(),
            known: BTreeSet::new(),
        }
    }

    /// What is traced, in a few words.
    pub(super) fn title(&self) -> String {
        match &self.server {
            Some(server) => format!("attached to Postgres ({server})"),
            None => "attached".to_owned(),
        }
    }

    pub(super) fn data_directory(&self) -> Option<&Path> {
        self.server.as_ref().map(|server| server.data_directory.as_path())
    }

    /// The tasks to trace: the server's, then its clients', or those that pass the filter.
    pub(super) fn tasks(&mut self, filter: &Filter) -> Result<Vec<TracedTask>, AttachError> {
        let found = match self.server.as_ref().map(|server| server.postmaster) {
            Some(postmaster) => self.of_server(postmaster)?,
            None if filter.tasks.is_empty() => Vec::new(),
            None => {
                let tasks = filter.tasks.tasks().into_iter();
                tasks.map(|(tid, tgid)| plain(tid, tgid, Side::Other)).collect()
            }
        };
        let own = std::process::id();
        let passes =
            |task: &TracedTask| task.tgid != own && filter.tasks.passes(task.tid, task.tgid);
        let found: Vec<TracedTask> = found.into_iter().filter(passes).collect();
        self.known.extend(found.iter().map(|task| (task.tid, task.tgid)));
        Ok(found)
    }

    /// Those that have come since. What the traced tasks fork joins by itself.
    pub(super) fn newcomers(&mut self, filter: &Filter) -> Result<Vec<TracedTask>, AttachError> {
        let known = self.known.clone();
        let all = self.tasks(filter)?;
        Ok(all.into_iter().filter(|task| !known.contains(&(task.tid, task.tgid))).collect())
    }

    fn of_server(&mut self, postmaster: u32) -> Result<Vec<TracedTask>, AttachError> {
        let processes = children(postmaster);
        let backends: BTreeSet<u32> = processes
            .iter()
            .filter(|process| process.role == CLIENT_BACKEND)
            .map(|process| process.pid)
            .collect();
        // Looking through everybody's sockets is dear: only where there is somebody new.
        if !backends.is_subset(&self.backends) {
            let list: Vec<u32> = backends.iter().copied().collect();
            self.clients = client_processes(&list).map_err(AttachError::Peers)?;
            self.backends = backends;
        }
        let server = processes.iter().map(|process| TracedTask {
            wait_event_address: self.memory.wait_event,
            status_address: own_pid(process.pid)
                .filter(|_| process.role == CLIENT_BACKEND)
                .and_then(|own| encrypted_status(process.pid, own, self.memory.status_entry)),
            // The postmaster's children take it over.
            counted: true,
            ..plain(process.pid, process.pid, Side::Server)
        });
        let clients = self.clients.iter().flat_map(|pid| threads(*pid));
        Ok(server.chain(clients).collect())
    }

    /// Whether none of the tasks that were taken in is left.
    pub(super) fn are_gone(&self) -> bool {
        let lives = |pid: u32| Path::new("/proc").join(pid.to_string()).exists();
        match &self.server {
            Some(server) => !lives(server.postmaster),
            None => !self.known.iter().any(|(tid, _)| lives(*tid)),
        }
    }

    fn is_of_server(&self, account: &TaskAccount) -> bool {
        self.server.is_some() && account.side == Side::Server as u8
    }
}

impl Classify for Roles {
    fn classify(&self, tid: u32, account: &TaskAccount) -> Option<(String, Group)> {
        if !self.is_of_server(account) {
            let comm =
                fs::read_to_string(format!("/proc/{}/task/{tid}/comm", account.tgid)).ok()?;
            let is_client = account.side == Side::Client as u8;
            let group = if is_client { Group::Client } else { Group::Other };
            return Some((comm.trim_end().to_owned(), group));
        }
        if self.server.as_ref().is_some_and(|server| server.postmaster == tid) {
            return Some(("postmaster".to_owned(), Group::Background));
        }
        // Only a backend replies to a client. Its title is gone with it, or not yet set.
        if account.requests_count > 0 {
            return Some((CLIENT_BACKEND.to_owned(), Group::Backend));
        }
        let title = fs::read(format!("/proc/{tid}/cmdline")).ok()?;
        let title = String::from_utf8_lossy(&title);
        let role = role_of_title(title.trim_end_matches('\0').trim_end());
        let works = role == CLIENT_BACKEND || role == "parallel worker";
        let group = if works { Group::Backend } else { Group::Background };
        Some((role.to_owned(), group))
    }
}

fn threads(pid: u32) -> Vec<TracedTask> {
    let entries = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let tids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    tids.map(|tid| plain(tid, pid, Side::Client)).collect()
}
