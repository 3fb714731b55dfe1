//! Who is who among the tasks of an attached trace, and who has come meanwhile.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use lockscope_ebpf::{Side, TaskAccount};

use super::AttachError;
use super::client::Started;
use super::server::Server;
use crate::attach::client_processes;
use crate::attach::processes::{Process, ProcessKey, ProcessTable};
use crate::attach::role::{CLIENT_BACKEND, role_of_title};
use crate::attach::servers::RunningServer;
use crate::filter::Filter;
use crate::kernel::task;
use crate::ledger::Group;
use crate::probe::TracedTask;
use crate::session::Classify;

/// The servers of the trace, if it has any, their clients, and the command.
pub(super) struct Roles {
    servers: Vec<Server>,
    command: Option<Started>,
    /// Backends whose clients were looked for.
    backends: BTreeSet<ProcessKey>,
    clients: BTreeSet<u32>,
    /// Processes that are no part of the trace.
    left_out: BTreeSet<u32>,
    /// Tasks that were taken in.
    known: BTreeSet<(u32, u32)>,
    /// The pids of processes in pid namespaces of their own: ours → theirs.
    inner_pids: BTreeMap<u32, u32>,
    leaves_sessions_out: bool,
    /// The servers were named: nobody else is meant.
    named: bool,
}

impl Roles {
    pub(super) fn new(
        servers: Vec<RunningServer>,
        command: Option<Started>,
        leaves_sessions_out: bool,
        named: bool,
    ) -> Roles {
        let sets = 1..;
        Roles {
            servers: servers.into_iter().zip(sets).map(|(s, set)| Server::new(s, set)).collect(),
            command,
            backends: BTreeSet::new(),
            clients: BTreeSet::new(),
            left_out: BTreeSet::from([std::process::id()]),
            known: BTreeSet::new(),
            inner_pids: BTreeMap::new(),
            leaves_sessions_out,
            named,
        }
    }

    /// What is traced, in a few words.
    pub(super) fn title(&self) -> String {
        let servers: Vec<String> =
            self.servers.iter().map(|server| server.running.to_string()).collect();
        let of = |servers: &[String]| match servers {
            [] => String::new(),
            [one] => format!("Postgres ({one})"),
            several => format!("{} Postgres servers", several.len()),
        };
        match (&self.command, of(&servers)) {
            (Some(command), server) if server.is_empty() => command.name.clone(),
            (Some(command), server) => format!("{} on {server}", command.name),
            (None, server) if server.is_empty() => "attached".to_owned(),
            (None, server) => format!("attached to {server}"),
        }
    }

    pub(super) fn servers(&self) -> &[Server] {
        &self.servers
    }

    pub(super) fn data_directory(&self) -> Option<&Path> {
        self.servers.first().map(|server| server.running.data_directory.as_path())
    }

    /// Processes other than the command's that are connected to a server.
    pub(super) fn other_clients(&self) -> &BTreeSet<u32> {
        &self.clients
    }

    /// A process's own pid, where that is another than ours for it.
    pub(super) fn inner_pid(&self, pid: u32) -> Option<u32> {
        self.inner_pids.get(&pid).copied()
    }

    /// The process here that has this pid in a namespace of its own.
    pub(super) fn pid_of_inner(&self, inner: u32) -> Option<u32> {
        self.inner_pids.iter().find(|(_, own)| **own == inner).map(|(pid, _)| *pid)
    }

    /// A process is to be no part of the trace.
    pub(super) fn leave_out(&mut self, pid: u32) {
        self.left_out.insert(pid);
    }

    /// The tasks to trace: the servers', then their clients' and the command's, or those that pass
    /// the filter.
    pub(super) fn tasks(&mut self, filter: &Filter) -> Result<Vec<TracedTask>, AttachError> {
        let processes = ProcessTable::read();
        let mut found = self.of_servers(&processes)?;
        let command = self.command.as_ref().map(|command| command.pid);
        found.extend(command.map(|pid| TracedTask::plain(pid, pid, Side::Client)));
        let names_server = self.named || command.is_some();
        if !names_server && !filter.tasks.is_empty() {
            let of_servers: BTreeSet<u32> = found.iter().map(|task| task.tid).collect();
            let tasks = filter.tasks.tasks().into_iter();
            let tasks = tasks.filter(|(tid, _)| !of_servers.contains(tid));
            found.extend(tasks.map(|(tid, tgid)| TracedTask::plain(tid, tgid, Side::Other)));
        }
        let left_out = &self.left_out;
        let passes = |task: &TracedTask| {
            !left_out.contains(&task.tgid) && filter.tasks.passes(task.tid, task.tgid)
        };
        let found: Vec<TracedTask> = found.into_iter().filter(passes).collect();
        for task in &found {
            if self.known.insert((task.tid, task.tgid)) {
                let inner = processes.of(task.tgid).and_then(Process::own_pid);
                let inner = inner.filter(|inner| *inner != task.tgid);
                self.inner_pids.extend(inner.map(|inner| (task.tgid, inner)));
            }
        }
        Ok(found)
    }

    /// Those that have come since. What the traced tasks fork joins by itself.
    pub(super) fn newcomers(&mut self, filter: &Filter) -> Result<Vec<TracedTask>, AttachError> {
        let known = self.known.clone();
        let all = self.tasks(filter)?;
        Ok(all.into_iter().filter(|task| !known.contains(&(task.tid, task.tgid))).collect())
    }

    fn of_servers(&mut self, processes: &ProcessTable) -> Result<Vec<TracedTask>, AttachError> {
        let leaves_out = self.leaves_sessions_out;
        let servers = self.servers.iter_mut();
        let mut found: Vec<TracedTask> =
            servers.flat_map(|server| server.look(processes, leaves_out)).collect();
        let backends: BTreeSet<ProcessKey> =
            self.servers.iter().flat_map(Server::backends).collect();
        // Looking through everybody's sockets is dear: only where there is somebody new.
        if !backends.is_subset(&self.backends) {
            let pids = backends.iter().map(|backend| backend.pid).collect();
            self.clients = client_processes(processes, &pids).map_err(AttachError::Peers)?;
            let own = self.command.as_ref().map(|command| processes.descendants(command.pid));
            self.clients.retain(|pid| !own.as_ref().is_some_and(|own| own.contains(pid)));
            self.clients.remove(&std::process::id());
        }
        self.backends = backends;
        found.extend(self.clients.iter().flat_map(|pid| threads(*pid)));
        Ok(found)
    }

    /// Looks for servers that were started again; tells how many were found.
    pub(super) fn find_restarted(&mut self) -> usize {
        self.servers.iter_mut().filter_map(Server::find_restarted).count()
    }

    /// Whether none of the tasks that were taken in is left.
    pub(super) fn are_gone(&self) -> bool {
        match self.servers.is_empty() {
            false => self.servers.iter().all(|server| !server.lives()),
            true => !self.known.iter().any(|(tid, _)| lives(*tid)),
        }
    }

    /// Whether it may take a while until they are seen again.
    pub(super) fn may_come_back(&self) -> bool {
        !self.servers.is_empty()
    }

    fn is_of_server(&self, account: &TaskAccount) -> bool {
        !self.servers.is_empty() && account.side == Side::Server as u8
    }

    fn classify_client(&self, tid: u32, account: &TaskAccount) -> Option<(String, Group)> {
        let is_client = account.side == Side::Client as u8;
        let command = self.command.as_ref().filter(|_| is_client);
        let comm = task::thread_comm(tid, account.tgid);
        // The command's process exists before its program is executed, and may be gone by now.
        let role = match command {
            Some(command) if command.pid == tid => command.name.clone(),
            Some(command) => comm.unwrap_or_else(|| command.name.clone()),
            None => comm?,
        };
        Some((role, if is_client { Group::Client } else { Group::Other }))
    }
}

impl Classify for Roles {
    fn classify(&self, tid: u32, account: &TaskAccount) -> Option<(String, Group)> {
        if !self.is_of_server(account) {
            return self.classify_client(tid, account);
        }
        if self.servers.iter().any(|server| server.running.postmaster == tid) {
            return Some(("postmaster".to_owned(), Group::Background));
        }
        if account.flags & TaskAccount::LEFT_OUT != 0 {
            return Some(("set-up session".to_owned(), Group::Background));
        }
        // Only a backend replies to a client. Its title is gone with it, or not yet set.
        if account.requests_count > 0 {
            return Some((CLIENT_BACKEND.to_owned(), Group::Backend));
        }
        let role = role_of_title(&task::title(tid).ok()?);
        let works = role == CLIENT_BACKEND || role == "parallel worker";
        let group = if works { Group::Backend } else { Group::Background };
        Some((role.to_owned(), group))
    }
}

pub(super) fn lives(pid: u32) -> bool {
    Path::new("/proc").join(pid.to_string()).exists()
}

fn threads(pid: u32) -> Vec<TracedTask> {
    let tids = task::tids(pid).into_iter().flatten();
    tids.map(|tid| TracedTask::plain(tid, pid, Side::Client)).collect()
}
