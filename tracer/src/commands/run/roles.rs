//! Who is who: the server's processes behind the load's connections.

use std::collections::HashMap;
use std::net::ToSocketAddrs as _;

use lockscope_ebpf::{Side, TaskAccount};

use crate::attach::role::role_of_title;
use crate::attach::server::ServerError;
use crate::attach::{ConnectionFacts, Located, ProcessTable, ServerAddress, find_postmaster};
use crate::kernel::task;
use crate::ledger::Group;
use crate::load::{Endpoint, Target};
use crate::model::Warning;
use crate::session::Classify;

/// What the load looks like to the tracer.
pub(super) struct Load<'a> {
    pub(super) target: &'a Target,
    /// As the server numbers them.
    pub(super) backend_pids: &'a [u32],
    pub(super) worker_tids: Vec<u32>,
}

impl Load<'_> {
    /// Its threads, and their backends.
    pub(super) fn tasks_count(&self) -> u32 {
        u32::try_from(self.backend_pids.len() + self.worker_tids.len()).unwrap_or(u32::MAX / 4)
    }
}

/// Who is who among the traced tasks.
pub(super) struct Roles {
    pub(super) postmaster: Option<u32>,
    /// Backends that serve this run's clients: the pid that the server tells → the pid here.
    own_backends: HashMap<u32, u32>,
    /// The same the other way round.
    own_pids: HashMap<u32, u32>,
}

impl Roles {
    pub(super) fn find(load: &Load<'_>, warnings: &mut Vec<Warning>) -> Result<Roles, ServerError> {
        let backend_pid = load.backend_pids.first().copied();
        let postmaster = match locate(load.target, backend_pid)? {
            Located::Postmaster(pid) => Some(pid),
            Located::OutOfSight(reason) => {
                warnings.push(out_of_sight(&reason));
                None
            }
        };
        let mut own_backends = postmaster
            .map(|postmaster| ProcessTable::read().children_by_own_pid(postmaster))
            .unwrap_or_default();
        own_backends.retain(|own, _| load.backend_pids.contains(own));
        let own_pids = own_backends.iter().map(|(own, here)| (*here, *own)).collect();
        Ok(Roles { postmaster, own_backends, own_pids })
    }
}

impl Roles {
    /// The pid here of a backend that serves this run.
    pub(super) fn backend(&self, pid_at_server: u32) -> Option<u32> {
        self.own_backends.get(&pid_at_server).copied()
    }
}

impl Roles {
    /// The pid that a backend which serves this run calls its own.
    pub(super) fn own_pid(&self, pid_here: u32) -> Option<u32> {
        self.own_pids.get(&pid_here).copied()
    }
}

/// The first of the target's places that leads to a postmaster.
fn locate(target: &Target, backend_pid: Option<u32>) -> Result<Located, ServerError> {
    let mut reason = "no address of it is known".to_owned();
    for server in target.endpoints().flat_map(addresses) {
        match find_postmaster(&ConnectionFacts { server, client: None, backend_pid })? {
            Located::Postmaster(pid) => return Ok(Located::Postmaster(pid)),
            Located::OutOfSight(why) => reason = why,
        }
    }
    Ok(Located::OutOfSight(reason))
}

fn out_of_sight(reason: &str) -> Warning {
    Warning {
        code: "client-side-only".to_owned(),
        text: format!("the server's processes are not traced: {reason}"),
        remedy: Some("run lockscope on the server's machine to see the server's side".to_owned()),
    }
}

impl Classify for Roles {
    fn classify(&self, tid: u32, account: &TaskAccount) -> Option<(String, Group)> {
        if account.side == Side::Client as u8 {
            return Some(("load worker".to_owned(), Group::Client));
        }
        if account.side == Side::Other as u8 {
            return Some((task::thread_comm(account.tgid, account.tgid)?, Group::Other));
        }
        if Some(tid) == self.postmaster {
            return Some(("postmaster".to_owned(), Group::Background));
        }
        let role = role_of_title(&task::title(tid).ok()?);
        let own = self.own_pids.contains_key(&tid);
        let group =
            if own || role == "parallel worker" { Group::Backend } else { Group::Background };
        Some((role.to_owned(), group))
    }
}

/// A name that does not resolve was no obstacle to connecting: another place answered.
fn addresses(endpoint: &Endpoint) -> Vec<ServerAddress> {
    match endpoint {
        Endpoint::Unix(path) => vec![ServerAddress::Unix(path.clone())],
        Endpoint::Tcp { address: Some(address), port, .. } => {
            vec![ServerAddress::Tcp((*address, *port).into())]
        }
        Endpoint::Tcp { host, address: None, port } => (host.as_str(), *port)
            .to_socket_addrs()
            .map(|resolved| resolved.map(ServerAddress::Tcp).collect())
            .unwrap_or_default(),
    }
}
