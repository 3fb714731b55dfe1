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
    let holder = |pid| Holder { pid, inodes: socket_inodes(pid).collect() };
    let (servers, others): (Vec<Holder>, Vec<Holder>) = processes
        .iter()
        .map(|process| holder(process.pid))
        .partition(|holder| backends.contains(&holder.pid));

    let mut far_ends = HashSet::new();
    for members in by_namespace(&servers).into_values() {
        let near_ends: HashSet<u64> =
            members.iter().flat_map(|member| member.inodes.iter().copied()).collect();
        let Some(member) = members.first() else { continue };
        let tcp = tcp_table(member.pid);
        far_ends.extend(tcp_far_ends(&tcp, &near_ends, &others));
        let is_tcp: HashSet<u64> = tcp.iter().map(|entry| entry.inode).collect();
        if near_ends.iter().any(|inode| !is_tcp.contains(inode)) {
            let peers = unix_peers_of(&members)?;
            far_ends.extend(near_ends.iter().filter_map(|inode| peers.get(inode)));
        }
    }
    let is_client = |holder: &&Holder| holder.inodes.iter().any(|inode| far_ends.contains(inode));
    Ok(others.iter().filter(is_client).map(|holder| holder.pid).collect())
}

/// A process with the inodes of its open sockets.
struct Holder {
    pid: u32,
    inodes: HashSet<u64>,
}

/// The processes of each network namespace, by the namespace's link.
fn by_namespace(processes: &[Holder]) -> BTreeMap<PathBuf, Vec<&Holder>> {
    let mut found: BTreeMap<PathBuf, Vec<&Holder>> = BTreeMap::new();
    for process in processes {
        if let Ok(link) = fs::read_link(format!("/proc/{}/ns/net", process.pid)) {
            found.entry(link).or_default().push(process);
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

/// The TCP sockets of a process's network namespace; none when it is gone.
pub(super) fn tcp_table(pid: u32) -> Vec<TcpNetEntry> {
    let process = Process::new(pid.cast_signed()).into_iter();
    let tables = process.flat_map(|process| [process.tcp(), process.tcp6()]);
    tables.flat_map(Result::unwrap_or_default).collect()
}

/// The client's end has the server's addresses the other way round; it is in the same network
/// namespace (loopback) or, for a container, in any other.
fn tcp_far_ends(table: &[TcpNetEntry], near_ends: &HashSet<u64>, others: &[Holder]) -> Vec<u64> {
    let mut wanted: Vec<(SocketAddr, SocketAddr)> = table
        .iter()
        .filter(|entry| entry.state == TcpState::Established && near_ends.contains(&entry.inode))
        .map(|entry| (entry.remote_address, entry.local_address))
        .collect();
    let mut found = Vec::new();
    let mut look_in = |table: &[TcpNetEntry]| {
        wanted.retain(|(local, remote)| {
            let far_end = table.iter().find(|entry| {
                same(entry.local_address, *local) && same(entry.remote_address, *remote)
            });
            found.extend(far_end.map(|entry| entry.inode));
            far_end.is_none()
        });
        wanted.is_empty()
    };
    if look_in(table) {
        return found;
    }
    for members in by_namespace(others).values() {
        if members.first().is_some_and(|member| look_in(&tcp_table(member.pid))) {
            break;
        }
    }
    found
}

/// The peers as the members' network namespace sees them; none when all of them are gone by now.
fn unix_peers_of(members: &[&Holder]) -> io::Result<HashMap<u64, u64>> {
    for member in members {
        match unix_peers_in(&PathBuf::from(format!("/proc/{}/ns/net", member.pid))) {
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
    fn backends_that_end_while_they_are_looked_at_are_no_error() {
        let (near_end, _far_end) = UnixStream::pair().unwrap();
        let holder = Sleeper::of(fd(near_end));
        let member = Holder { pid: holder.0.id(), inodes: HashSet::new() };
        assert!(!unix_peers_of(&[&member]).unwrap().is_empty());
        drop(holder);
        assert!(unix_peers_of(&[&member]).unwrap().is_empty());
    }

    #[test]
    fn a_backend_that_is_gone_has_no_client() {
        assert_eq!(clients(&[1 << 23]), BTreeSet::new());
    }
}
