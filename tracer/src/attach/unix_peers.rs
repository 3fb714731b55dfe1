//! The other ends of Unix-domain sockets, which only the kernel's socket monitor tells.

use std::collections::HashMap;
use std::io;

use netlink_packet_core::{NLM_F_DUMP, NLM_F_REQUEST};
use netlink_packet_core::{NetlinkHeader, NetlinkMessage, NetlinkPayload};
use netlink_packet_sock_diag::SockDiagMessage;
use netlink_packet_sock_diag::unix::{ShowFlags, StateFlags, UnixRequest};
use netlink_sys::protocols::NETLINK_SOCK_DIAG;
use netlink_sys::{Socket, SocketAddr};

/// A dump's datagrams are at most this long.
const DATAGRAM_BYTES: usize = 32 * 1024;

/// Inode → the peer's inode, of every connected Unix-domain socket of this network namespace
/// (sock_diag(7), `UNIX_DIAG_PEER`).
///
/// # Errors
/// The kernel has no `unix_diag`, or its answer cannot be read.
pub(super) fn unix_peers() -> io::Result<HashMap<u64, u64>> {
    let mut socket = Socket::new(NETLINK_SOCK_DIAG)?;
    socket.bind_auto()?;
    socket.connect(&SocketAddr::new(0, 0))?;
    socket.send(&request(), 0)?;
    let mut peers = HashMap::new();
    let mut datagram = vec![0; DATAGRAM_BYTES];
    loop {
        let length = socket.recv(&mut &mut datagram[..], 0)?;
        if take_answers(&datagram[..length], &mut peers)? {
            return Ok(peers);
        }
    }
}

fn request() -> Vec<u8> {
    let mut header = NetlinkHeader::default();
    header.flags = NLM_F_REQUEST | NLM_F_DUMP;
    let request = UnixRequest {
        state_flags: StateFlags::ESTABLISHED,
        inode: 0,
        show_flags: ShowFlags::PEER,
        cookie: [0xff; 8],
    };
    let mut message =
        NetlinkMessage::new(header, NetlinkPayload::from(SockDiagMessage::UnixRequest(request)));
    message.finalize();
    let mut bytes = vec![0; message.buffer_len()];
    message.serialize(&mut bytes);
    bytes
}

/// Takes one datagram's answers; true when it ends the dump.
fn take_answers(datagram: &[u8], peers: &mut HashMap<u64, u64>) -> io::Result<bool> {
    let mut rest = datagram;
    while !rest.is_empty() {
        let message = NetlinkMessage::<SockDiagMessage>::deserialize(rest)
            .map_err(|error| io::Error::other(format!("sock_diag's answer: {error}")))?;
        // Messages are aligned to four bytes (NLMSG_ALIGN).
        let length = (message.header.length as usize).next_multiple_of(4);
        match message.payload {
            NetlinkPayload::Done(_) => return Ok(true),
            NetlinkPayload::Error(error) => return Err(error.to_io()),
            NetlinkPayload::InnerMessage(SockDiagMessage::UnixResponse(socket)) => {
                if let Some(peer) = socket.peer() {
                    peers.insert(u64::from(socket.header.inode), u64::from(peer));
                }
            }
            _ => {}
        }
        if length == 0 {
            return Err(io::Error::other("sock_diag's answer holds an empty message"));
        }
        rest = rest.get(length..).unwrap_or_default();
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    use super::*;

    fn inode(stream: &UnixStream) -> u64 {
        nix::sys::stat::fstat(stream.as_fd()).unwrap().st_ino
    }

    #[test]
    fn both_ends_of_a_pair_name_each_other() {
        let (left, right) = UnixStream::pair().unwrap();
        let peers = unix_peers().unwrap();
        assert_eq!(peers.get(&inode(&left)), Some(&inode(&right)));
        assert_eq!(peers.get(&inode(&right)), Some(&inode(&left)));
    }

    #[test]
    fn a_cut_answer_is_an_error() {
        assert!(take_answers(&[1, 2, 3], &mut HashMap::new()).is_err());
    }
}
