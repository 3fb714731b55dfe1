//! From a connection to the postmaster that serves it.

use std::collections::BTreeSet;
use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::{SocketAddr as UnixAddr, UnixStream};
use std::path::{Path, PathBuf};

use nix::sys::socket::{getsockopt, sockopt::PeerCredentials};
use procfs::net::{TcpNetEntry, TcpState};
use thiserror::Error;

use super::peers::{socket_inodes, tcp_table};
use super::processes::{Process, ProcessTable};

/// Where a server listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServerAddress {
    /// The socket's path; one that begins with `@` is in the abstract namespace.
    Unix(PathBuf),
    /// Address and port.
    Tcp(SocketAddr),
}

impl ServerAddress {
    /// The socket of a server that listens in a directory, as libpq builds it.
    pub fn unix(directory: &Path, port: u16) -> Self {
        ServerAddress::Unix(directory.join(format!(".s.PGSQL.{port}")))
    }
}

/// What is known of an open connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnectionFacts {
    /// The server's end.
    pub server: ServerAddress,
    /// The client's end, if it is a TCP connection that is open now.
    pub client: Option<SocketAddr>,
    /// The pid in BackendKeyData, in the server's pid namespace.
    pub backend_pid: Option<u32>,
}

/// Where the server is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Located {
    /// On this machine: the postmaster's pid, as lockscope sees it.
    Postmaster(u32),
    /// Elsewhere, or not to be seen from here, and why: client side only.
    OutOfSight(String),
}

/// Why the search itself failed.
#[derive(Debug, Error)]
pub enum ServerError {
    /// The socket does not answer.
    #[error("cannot connect to {path}: {source}; is the server running?")]
    Connect {
        /// The socket.
        path: String,
        /// What the system said.
        source: io::Error,
    },
}

/// Finds the postmaster behind a connection. A TCP connection should still be open.
pub fn find_postmaster(facts: &ConnectionFacts) -> Result<Located, ServerError> {
    match &facts.server {
        ServerAddress::Unix(path) => behind_unix_socket(path),
        ServerAddress::Tcp(server) => Ok(behind_tcp(*server, facts)),
    }
}

/// The credentials of a listening socket are those of the process that called `listen`.
fn behind_unix_socket(path: &Path) -> Result<Located, ServerError> {
    let failed = |source| ServerError::Connect { path: path.display().to_string(), source };
    let stream = connect(path).map_err(failed)?;
    let peer = getsockopt(&stream, PeerCredentials).map_err(|errno| failed(errno.into()))?;
    Ok(match u32::try_from(peer.pid()) {
        Ok(pid) if pid > 0 => postmaster_or_stranger(pid, &ProcessTable::read()),
        _ => Located::OutOfSight("the server is in a pid namespace that cannot be seen".into()),
    })
}

fn connect(path: &Path) -> io::Result<UnixStream> {
    match path.as_os_str().as_bytes().strip_prefix(b"@") {
        Some(name) => UnixStream::connect_addr(&UnixAddr::from_abstract_name(name)?),
        None => UnixStream::connect(path),
    }
}

/// A pooler or proxy may own the socket that clients connect to.
fn postmaster_or_stranger(pid: u32, processes: &ProcessTable) -> Located {
    match processes.postmaster_of(pid) {
        Some(postmaster) => Located::Postmaster(postmaster),
        None => Located::OutOfSight(format!(
            "the socket belongs to `{}` (pid {pid}), not to Postgres: connect to the server itself",
            processes.of(pid).map_or("", |process| &process.comm)
        )),
    }
}

/// Looks in our network namespace, then in those of all Postgres processes (containers).
fn behind_tcp(server: SocketAddr, facts: &ConnectionFacts) -> Located {
    let processes = ProcessTable::read();
    let local = is_local(server.ip());
    let table = tcp_table(std::process::id()).unwrap_or_default();
    let accepted = facts.client.and_then(|client| accepted(&table, client, server.port()));
    let listening = || local.then(|| listening(&table, server)).flatten();
    let owner = |inode| owner(inode, processes.iter());
    if let Some(pid) = accepted.or_else(listening).and_then(owner) {
        return postmaster_or_stranger(pid, &processes);
    }
    let backend = facts.client.and_then(|client| in_a_container(client, facts, &processes));
    if let Some(postmaster) = backend.and_then(|pid| processes.postmaster_of(pid)) {
        return Located::Postmaster(postmaster);
    }
    Located::OutOfSight(match local {
        true => format!("no process that can be seen here listens on {server}"),
        false => format!("{server} is another machine"),
    })
}

/// A server in a network namespace of its own sees our end of the connection as its peer, unless
/// the address was translated on the way.
fn in_a_container(
    client: SocketAddr,
    facts: &ConnectionFacts,
    processes: &ProcessTable,
) -> Option<u32> {
    let postgres = || processes.iter().filter(|process| process.is_postgres());
    let mut seen = BTreeSet::new();
    let namespaces = postgres().filter(|process| {
        let namespace = std::fs::read_link(format!("/proc/{}/ns/net", process.pid));
        namespace.is_ok_and(|namespace| seen.insert(namespace))
    });
    let mut tables = namespaces.filter_map(|process| tcp_table(process.pid));
    let inode = tables.find_map(|table| accepted(&table, client, facts.port()?))?;
    owner(inode, postgres()).or_else(|| {
        // Without the right to read its descriptors, the backend's own pid must do.
        let pid = facts.backend_pid?;
        postgres().find(|process| process.own_pid() == Some(pid)).map(|process| process.pid)
    })
}

impl ConnectionFacts {
    fn port(&self) -> Option<u16> {
        match self.server {
            ServerAddress::Tcp(server) => Some(server.port()),
            ServerAddress::Unix(_) => None,
        }
    }
}

/// Inode of the server's end of a connection from `client`.
fn accepted(table: &[TcpNetEntry], client: SocketAddr, port: u16) -> Option<u64> {
    let ours = table.iter().filter(|entry| entry.state == TcpState::Established);
    let mut ours = ours.filter(|entry| same(entry.remote_address, client));
    // In a container the port may differ from the published one.
    let exact = ours.clone().find(|entry| entry.local_address.port() == port);
    exact.or_else(|| ours.next()).map(|entry| entry.inode).filter(|inode| *inode != 0)
}

/// Inode of the socket that listens on `server`: on that very address, else on all of them.
fn listening(table: &[TcpNetEntry], server: SocketAddr) -> Option<u64> {
    let on_port = table.iter().filter(|entry| {
        entry.state == TcpState::Listen && entry.local_address.port() == server.port()
    });
    let exact = on_port.clone().find(|entry| same(entry.local_address, server));
    let any = on_port.clone().find(|entry| entry.local_address.ip().is_unspecified());
    exact.or(any).map(|entry| entry.inode)
}

/// An IPv6 socket that serves IPv4 shows its addresses mapped.
pub(super) fn same(left: SocketAddr, right: SocketAddr) -> bool {
    left.port() == right.port() && plain(left.ip()) == plain(right.ip())
}

fn plain(ip: IpAddr) -> IpAddr {
    match ip {
        IpAddr::V6(ip) => ip.to_ipv4_mapped().map_or(IpAddr::V6(ip), IpAddr::V4),
        v4 => v4,
    }
}

/// Only an address of this machine can be bound.
fn is_local(ip: IpAddr) -> bool {
    ip.is_loopback() || ip == IpAddr::V6(Ipv6Addr::UNSPECIFIED) || UdpSocket::bind((ip, 0)).is_ok()
}

/// The process that holds a socket; the first one counts.
fn owner<'a>(inode: u64, mut processes: impl Iterator<Item = &'a Process>) -> Option<u32> {
    let holds = |process: &&Process| socket_inodes(process.pid).any(|held| held == inode);
    processes.find(holds).map(|process| process.pid)
}

#[cfg(test)]
#[path = "server_tests.rs"]
mod tests;
