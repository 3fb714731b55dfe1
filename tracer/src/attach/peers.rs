//! Who is at the other end of a server's connections.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::fs::{self, File};
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::thread;

use nix::sched::{CloneFlags, setns};
use procfs::net::{TcpNetEntry, TcpState};
use procfs::process::Process;

use super::processes::ProcessTable;
use super::server::same;
use super::unix_peers::unix_peers;

/// The processes on this machine whose sockets are connected to one of `backends`, by pid; the
/// backends themselves are left out. A client on another machine is not among them.
///
/// # Errors
/// The kernel does not tell the peers of Unix-domain sockets, and a backend has such a socket.
pub fn client_processes(
    processes: &ProcessTable,
    backends: &BTreeSet<u32>,
) -> io::Result<BTreeSet<u32>> {
    let others: Vec<Holder> = processes
        .iter()
        .filter(|process| !backends.contains(&process.pid))
        .map(|process| Holder { pid: process.pid, inodes: socket_inodes(process.pid).collect() })
        .collect();
    // What the postmaster has itself leads to no client: a listening socket, the journal.
    let parents = backends.iter().filter_map(|pid| Some(processes.of(*pid)?.parent));
    let parents: BTreeSet<u32> = parents.collect();
    let inherited: HashSet<u64> = parents.into_iter().flat_map(socket_inodes).collect();

    let mut far_ends = HashSet::new();
    for members in by_namespace(backends.iter().copied()).into_values() {
        let Connections { tcp, unix } = connections(&members, &inherited)?;
        far_ends.extend(unix);
        far_ends.extend(tcp_far_ends(tcp, &members, &others));
    }
    let is_client = |holder: &&Holder| holder.inodes.iter().any(|inode| far_ends.contains(inode));
    Ok(others.iter().filter(is_client).map(|holder| holder.pid).collect())
}

/// A process with the inodes of its open sockets.
struct Holder {
    pid: u32,
    inodes: HashSet<u64>,
}

/// The far ends of backends' connections.
#[derive(Default)]
struct Connections {
    /// Their addresses and those that they are connected to.
    tcp: Vec<(SocketAddr, SocketAddr)>,
    /// Their inodes.
    unix: Vec<u64>,
}

/// Each backend's connection to its client, which is older than all else that it opens: a backend may
/// have hundreds of files.
fn connections(backends: &[u32], inherited: &HashSet<u64>) -> io::Result<Connections> {
    let established = established(backends);
    let mut unix_peers: Option<HashMap<u64, u64>> = None;
    let mut found = Connections::default();
    for backend in backends {
        for inode in socket_inodes(*backend).filter(|inode| !inherited.contains(inode)) {
            if let Some(far_end) = established.get(&inode) {
                found.tcp.push(*far_end);
                break;
            }
            let peers = match &mut unix_peers {
                Some(peers) => peers,
                none => none.insert(unix_peers_of(backends)?),
            };
            if let Some(far_end) = peers.get(&inode) {
                found.unix.push(*far_end);
                break;
            }
        }
    }
    Ok(found)
}

/// The TCP connections of the members' network namespace, by inode: the far end's address, and what it
/// is connected to.
fn established(members: &[u32]) -> HashMap<u64, (SocketAddr, SocketAddr)> {
    // A backend may end at any time: the first that is left tells.
    let table = members.iter().find_map(|pid| tcp_table(*pid)).unwrap_or_default();
    let open = table.into_iter().filter(|entry| entry.state == TcpState::Established);
    open.map(|entry| (entry.inode, (entry.remote_address, entry.local_address))).collect()
}

/// The processes of each network namespace, by the namespace's link.
fn by_namespace(processes: impl Iterator<Item = u32>) -> BTreeMap<PathBuf, Vec<u32>> {
    let mut found: BTreeMap<PathBuf, Vec<u32>> = BTreeMap::new();
    for pid in processes {
        if let Ok(link) = fs::read_link(format!("/proc/{pid}/ns/net")) {
            found.entry(link).or_default().push(pid);
        }
    }
    found
}

/// The inodes of a process's open sockets; none when it is gone or not ours to look at. The links alone
/// are read, for a server has thousands: procfs opens and asks for each of them, too.
pub(super) fn socket_inodes(pid: u32) -> impl Iterator<Item = u64> {
    let descriptors = fs::read_dir(format!("/proc/{pid}/fd"));
    let links = descriptors.into_iter().flatten().flatten();
    links.filter_map(|descriptor| {
        let link = fs::read_link(descriptor.path()).ok()?;
        link.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()
    })
}

/// The TCP sockets of a process's network namespace; `None` when it is gone.
pub(super) fn tcp_table(pid: u32) -> Option<Vec<TcpNetEntry>> {
    let process = Process::new(pid.cast_signed()).ok()?;
    let mut table = process.tcp().ok()?;
    // Absent where IPv6 is off.
    table.extend(process.tcp6().unwrap_or_default());
    Some(table)
}

/// The client's end has the server's addresses the other way round; it is in the same network
/// namespace (loopback) or, for a container, in any other.
fn tcp_far_ends(
    mut wanted: Vec<(SocketAddr, SocketAddr)>,
    members: &[u32],
    others: &[Holder],
) -> Vec<u64> {
    let mut found = Vec::new();
    let elsewhere = by_namespace(others.iter().map(|holder| holder.pid)).into_values();
    for pids in std::iter::once(members.to_vec()).chain(elsewhere) {
        if wanted.is_empty() {
            break;
        }
        let table = pids.iter().find_map(|pid| tcp_table(*pid)).unwrap_or_default();
        wanted.retain(|(local, remote)| {
            let far_end = table.iter().find(|entry| {
                same(entry.local_address, *local) && same(entry.remote_address, *remote)
            });
            found.extend(far_end.map(|entry| entry.inode));
            far_end.is_none()
        });
    }
    found
}

/// The peers as the members' network namespace sees them; none when all of them are gone by now.
fn unix_peers_of(members: &[u32]) -> io::Result<HashMap<u64, u64>> {
    for pid in members {
        match unix_peers_in(&PathBuf::from(format!("/proc/{pid}/ns/net"))) {
            // A backend may end at any time: ask by way of the next one.
            Err(error) if is_gone(&error) => {}
            answered => return answered,
        }
    }
    Ok(HashMap::new())
}

fn is_gone(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound || error.raw_os_error() == Some(libc::ESRCH)
}

/// The peers as a network namespace sees them. Joining one is for a thread's lifetime, so a thread
/// of its own does it.
fn unix_peers_in(namespace: &PathBuf) -> io::Result<HashMap<u64, u64>> {
    if fs::read_link(namespace)? == fs::read_link("/proc/self/ns/net")? {
        return unix_peers();
    }
    let namespace = File::open(namespace)?;
    let joined = thread::spawn(move || {
        setns(&namespace, CloneFlags::CLONE_NEWNET)?;
        unix_peers()
    });
    joined.join().unwrap_or_else(|_| Err(io::Error::other("the thread that asked was lost")))
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};
    use std::os::unix::net::UnixStream;
    use std::process::{Child, Command, Stdio};

    use super::*;

    /// A process that holds a socket as its standard input.
    struct Sleeper(Child);

    impl Sleeper {
        fn of(socket: impl Into<Stdio>) -> Sleeper {
            Sleeper(Command::new("sleep").arg("60").stdin(socket).spawn().unwrap())
        }
    }

    impl Drop for Sleeper {
        fn drop(&mut self) {
            self.0.kill().unwrap();
            self.0.wait().unwrap();
        }
    }

    fn clients(backends: &[u32]) -> BTreeSet<u32> {
        let backends = backends.iter().copied().collect();
        client_processes(&ProcessTable::read(), &backends).unwrap()
    }

    fn fd<T: Into<std::os::fd::OwnedFd>>(socket: T) -> Stdio {
        Stdio::from(socket.into())
    }

    #[test]
    fn unix_and_tcp_clients_are_found_and_strangers_are_not() {
        let (server_end, client_end) = UnixStream::pair().unwrap();
        let backend = Sleeper::of(fd(server_end));
        let client = Sleeper::of(fd(client_end));
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (accepted, _) = listener.accept().unwrap();
        let tcp_backend = Sleeper::of(fd(accepted));
        let tcp_client = Sleeper::of(fd(near));
        let (stranger_end, _kept) = UnixStream::pair().unwrap();
        let stranger = Sleeper::of(fd(stranger_end));

        let found = clients(&[backend.0.id(), tcp_backend.0.id()]);
        assert_eq!(found, BTreeSet::from([client.0.id(), tcp_client.0.id()]));
        assert!(!found.contains(&stranger.0.id()));
    }

    #[test]
    fn what_a_backend_has_from_its_parent_leads_to_no_client() {
        let (journal_end, inherited) = UnixStream::pair().unwrap();
        let _journal = Sleeper::of(fd(journal_end));
        let backend = Sleeper::of(fd(inherited.try_clone().unwrap()));
        assert_eq!(clients(&[backend.0.id()]), BTreeSet::new());
    }

    #[test]
    fn backends_that_end_while_they_are_looked_at_are_no_error() {
        let (near_end, _far_end) = UnixStream::pair().unwrap();
        let holder = Sleeper::of(fd(near_end));
        let member = holder.0.id();
        assert!(!unix_peers_of(&[member]).unwrap().is_empty());
        drop(holder);
        assert!(unix_peers_of(&[member]).unwrap().is_empty());
    }

    #[test]
    fn a_backend_that_is_gone_has_no_client() {
        assert_eq!(clients(&[1 << 23]), BTreeSet::new());
    }
}
