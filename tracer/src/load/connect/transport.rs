//! A client's byte stream: a socket, in the clear or under TLS.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

use nix::errno::Errno;
use nix::sys::socket::{MsgFlags, recv, send};
use rustls::ClientConnection;

/// What a non-blocking receive found.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Received {
    /// Bytes in the buffer; `drained` says that the socket has no more for now.
    Bytes { count: usize, drained: bool },
    /// Nothing yet.
    Nothing,
    /// The other side closed the stream.
    End,
}

/// A connected stream; everything below needs [`Self::set_nonblocking`].
#[derive(Debug)]
pub(crate) struct Transport {
    socket: OwnedFd,
    tls: Option<Box<ClientConnection>>,
    /// Bytes that the socket did not take.
    unsent: Vec<u8>,
}

impl From<UnixStream> for Transport {
    fn from(stream: UnixStream) -> Self {
        Self { socket: stream.into(), tls: None, unsent: Vec::new() }
    }
}

impl From<TcpStream> for Transport {
    fn from(stream: TcpStream) -> Self {
        Self { socket: stream.into(), tls: None, unsent: Vec::new() }
    }
}

impl AsFd for Transport {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Transport {
    /// Puts TLS on the stream; the handshake runs with the first bytes.
    pub(crate) fn start_tls(&mut self, connection: ClientConnection) {
        self.tls = Some(Box::new(connection));
    }

    /// Whether the stream is encrypted.
    pub(crate) fn uses_tls(&self) -> bool {
        self.tls.is_some()
    }

    /// The server's certificate in DER, once the TLS handshake has brought it.
    pub(crate) fn server_certificate(&self) -> Option<&[u8]> {
        let certificates = self.tls.as_ref()?.peer_certificates()?;
        certificates.first().map(AsRef::as_ref)
    }

    /// From now on nothing blocks.
    pub(crate) fn set_nonblocking(&self) -> io::Result<()> {
        use nix::fcntl::{FcntlArg, OFlag, fcntl};
        let flags = OFlag::from_bits_retain(fcntl(&self.socket, FcntlArg::F_GETFL)?);
        fcntl(&self.socket, FcntlArg::F_SETFL(flags | OFlag::O_NONBLOCK))?;
        Ok(())
    }

    /// Ends the session, so that the server does not log a lost connection, and the stream.
    pub(crate) fn say_goodbye(mut self) {
        use nix::sys::socket::{Shutdown, shutdown};
        // A connection that is broken already needs no farewell.
        drop(self.send(b"X\0\0\0\x04"));
        let _ = shutdown(self.socket.as_raw_fd(), Shutdown::Both);
    }

    /// Sends `request`, or keeps the rest for [`Self::send_unsent`]; true when all of it went out.
    #[inline]
    pub(crate) fn send(&mut self, request: &[u8]) -> io::Result<bool> {
        if let Some(tls) = &mut self.tls {
            tls.writer().write_all(request)?;
            return self.send_unsent();
        }
        if self.unsent.is_empty() {
            let sent = send_some(&self.socket, request)?;
            if sent == request.len() {
                return Ok(true);
            }
            self.unsent.extend_from_slice(&request[sent..]);
            return Ok(false);
        }
        self.unsent.extend_from_slice(request);
        self.send_unsent()
    }

    /// Sends what an earlier call left; true when nothing is left.
    pub(crate) fn send_unsent(&mut self) -> io::Result<bool> {
        if let Some(tls) = &mut self.tls {
            while tls.wants_write() {
                match tls.write_tls(&mut Socket(&self.socket)) {
                    Ok(_) => {}
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                    Err(error) => return Err(error),
                }
            }
            return Ok(true);
        }
        let sent = send_some(&self.socket, &self.unsent)?;
        self.unsent.drain(..sent);
        Ok(self.unsent.is_empty())
    }

    /// Receives into `buffer` without blocking.
    #[inline]
    pub(crate) fn receive(&mut self, buffer: &mut [u8]) -> io::Result<Received> {
        if self.tls.is_some() {
            return self.receive_tls(buffer);
        }
        match recv(self.socket.as_raw_fd(), buffer, MsgFlags::empty()) {
            Ok(0) => Ok(Received::End),
            Ok(count) => Ok(Received::Bytes { count, drained: count < buffer.len() }),
            Err(Errno::EAGAIN) => Ok(Received::Nothing),
            Err(errno) => Err(errno.into()),
        }
    }

    fn receive_tls(&mut self, buffer: &mut [u8]) -> io::Result<Received> {
        let Some(tls) = &mut self.tls else { return Ok(Received::Nothing) };
        loop {
            match tls.reader().read(buffer) {
                // More plaintext or more ciphertext may be waiting: only WouldBlock says no.
                Ok(count) if count > 0 => return Ok(Received::Bytes { count, drained: false }),
                Ok(_) => return Ok(Received::End),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
            match tls.read_tls(&mut Socket(&self.socket)) {
                Ok(0) => return Ok(Received::End),
                Ok(_) => {
                    tls.process_new_packets().map_err(io::Error::other)?;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    return Ok(Received::Nothing);
                }
                Err(error) => return Err(error),
            }
        }
    }
}

/// The bare socket, as rustls wants it.
struct Socket<'a>(&'a OwnedFd);

impl Read for Socket<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        Ok(recv(self.0.as_raw_fd(), buffer, MsgFlags::empty())?)
    }
}

impl Write for Socket<'_> {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        Ok(send(self.0.as_raw_fd(), buffer, MsgFlags::MSG_NOSIGNAL)?)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Sends without blocking; a full socket took nothing.
#[inline]
fn send_some(socket: &OwnedFd, bytes: &[u8]) -> io::Result<usize> {
    match send(socket.as_raw_fd(), bytes, MsgFlags::MSG_NOSIGNAL) {
        Ok(sent) => Ok(sent),
        Err(Errno::EAGAIN) => Ok(0),
        Err(errno) => Err(errno.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_socket_keeps_the_rest_in_order() {
        let (near, mut far) = UnixStream::pair().unwrap();
        let mut transport = Transport::from(near);
        transport.set_nonblocking().unwrap();
        let block: Vec<u8> = (0..100_000u32).flat_map(u32::to_le_bytes).collect();
        let mut complete = true;
        let mut sent_blocks = 0;
        while complete {
            complete = transport.send(&block).unwrap();
            sent_blocks += 1;
        }
        let mut received = vec![0; sent_blocks * block.len()];
        let reader = std::thread::spawn(move || far.read_exact(&mut received).map(|()| received));
        while !transport.send_unsent().unwrap() {
            std::thread::yield_now();
        }
        assert!(reader.join().unwrap().unwrap() == block.repeat(sent_blocks));
    }

    #[test]
    fn receiving_tells_nothing_bytes_and_end_apart() {
        let (near, mut far) = UnixStream::pair().unwrap();
        let mut transport = Transport::from(near);
        transport.set_nonblocking().unwrap();
        let mut buffer = [0; 8];
        assert_eq!(transport.receive(&mut buffer).unwrap(), Received::Nothing);
        far.write_all(b"abc").unwrap();
        let bytes = Received::Bytes { count: 3, drained: true };
        assert_eq!(transport.receive(&mut buffer).unwrap(), bytes);
        drop(far);
        assert_eq!(transport.receive(&mut buffer).unwrap(), Received::End);
    }
}
