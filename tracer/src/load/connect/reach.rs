//! Opening a socket to a server.

use std::io;
use std::net::{SocketAddr, TcpStream, ToSocketAddrs as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, UnixAddr, connect, socket};

use super::deadline::Deadline;
use super::servers::Endpoint;
use super::transport::Transport;

/// How often a full queue of connections is tried again.
const RETRY: Duration = Duration::from_millis(10);

/// The addresses of an endpoint, in the order in which they are to be tried.
#[derive(Debug)]
pub(super) enum Address<'a> {
    Unix(&'a Path),
    Tcp(SocketAddr),
}

pub(super) fn addresses(endpoint: &Endpoint) -> io::Result<Vec<Address<'_>>> {
    Ok(match endpoint {
        Endpoint::Unix(path) => vec![Address::Unix(path)],
        Endpoint::Tcp { address: Some(address), port, .. } => {
            vec![Address::Tcp((*address, *port).into())]
        }
        Endpoint::Tcp { host, address: None, port } => {
            (host.as_str(), *port).to_socket_addrs()?.map(Address::Tcp).collect()
        }
    })
}

/// Connects; the stream does not block.
pub(super) fn reach(address: &Address<'_>, deadline: Deadline) -> io::Result<Transport> {
    let transport = match address {
        Address::Unix(path) => Transport::from(reach_socket(path, deadline)?),
        Address::Tcp(address) => {
            let stream = TcpStream::connect_timeout(address, deadline.left()?)?;
            stream.set_nodelay(true)?;
            Transport::from(stream)
        }
    };
    transport.set_nonblocking()?;
    Ok(transport)
}

/// A server that accepts nothing lets its queue fill up; a blocking connect would wait for ever.
fn reach_socket(path: &Path, deadline: Deadline) -> io::Result<UnixStream> {
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    let socket = socket(AddressFamily::Unix, SockType::Stream, flags, None)?;
    let address = UnixAddr::new(path)?;
    loop {
        match connect(socket.as_raw_fd(), &address) {
            Ok(()) => return Ok(socket.into()),
            Err(Errno::EAGAIN | Errno::EINTR) => {
                deadline.left()?;
                sleep(RETRY);
            }
            Err(errno) => return Err(errno.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn a_socket_whose_queue_is_full_is_given_up_in_time() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("socket");
        let _listener = UnixListener::bind(&path).unwrap();
        let mut held = Vec::new();
        let error = loop {
            match reach_socket(&path, Deadline::after(Some(Duration::from_millis(50)))) {
                Ok(stream) => held.push(stream),
                Err(error) => break error,
            }
            assert!(held.len() < 100_000, "the queue never fills");
        };
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }
}
