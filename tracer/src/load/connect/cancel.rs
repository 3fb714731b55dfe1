//! Asking the server to give up what a backend is doing.

use std::io;

use bytes::BytesMut;
use nix::poll::PollFlags;
use postgres_protocol::message::frontend;

use super::deadline::Deadline;
use super::error::{ConnectError, Failure};
use super::reach::{Address, addresses, reach};
use super::servers::Server;
use super::target::Target;

/// What names a backend to the server: its process id and a secret.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct CancelKey {
    pub(crate) backend_pid: u32,
    pub(crate) secret: u32,
}

impl CancelKey {
    /// As one number, never 0.
    pub(crate) fn to_bits(self) -> u64 {
        u64::from(self.backend_pid) << 32 | u64::from(self.secret)
    }

    pub(crate) fn from_bits(bits: u64) -> Self {
        Self { backend_pid: (bits >> 32) as u32, secret: bits as u32 }
    }
}

/// The secret stays one.
impl std::fmt::Debug for CancelKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "CancelKey({})", self.backend_pid)
    }
}

impl Target {
    /// Asks for the end of the backend's statement. The server does not say whether there was one.
    ///
    /// Of several servers all are asked: the secret tells the others that they are not meant.
    pub(crate) fn cancel(&self, key: CancelKey) -> Result<(), ConnectError> {
        let asked = self.servers.iter().map(|server| self.ask(server, key));
        let (asked, mut failed): (Vec<_>, Vec<_>) = asked.partition(Result::is_ok);
        match failed.pop() {
            Some(error) if asked.is_empty() => error,
            _ => Ok(()),
        }
    }

    fn ask(&self, server: &Server, key: CancelKey) -> Result<(), ConnectError> {
        let deadline = Deadline::after(self.connect_timeout);
        let failure = |source: io::Error| Failure::Unreachable(source).explain(self, server);
        let addresses = addresses(&server.endpoint).map_err(failure)?;
        let mut result = Err(failure(io::ErrorKind::NotFound.into()));
        for address in &addresses {
            result = send_cancel(address, key, deadline).map_err(failure);
            if result.is_ok() {
                break;
            }
        }
        result
    }
}

fn send_cancel(address: &Address<'_>, key: CancelKey, deadline: Deadline) -> io::Result<()> {
    let mut transport = reach(address, deadline)?;
    let mut request = BytesMut::new();
    let pid = key.backend_pid.cast_signed();
    frontend::cancel_request(pid, key.secret.cast_signed(), &mut request);
    let mut is_sent = transport.send(&request)?;
    while !is_sent {
        deadline.wait(&transport, PollFlags::POLLOUT)?;
        is_sent = transport.send_unsent()?;
    }
    // The server closes the connection once the signal is sent.
    deadline.wait(&transport, PollFlags::POLLIN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_a_number_and_back_and_its_secret_is_not_shown() {
        let key = CancelKey { backend_pid: 4711, secret: 0xdead_beef };
        assert_eq!(CancelKey::from_bits(key.to_bits()), key);
        assert_eq!(format!("{key:?}"), "CancelKey(4711)");
    }
}
