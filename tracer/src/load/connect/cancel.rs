//! Asking the server to give up what a backend is doing.

use std::io;
use std::time::Duration;

use bytes::BytesMut;
use nix::poll::PollFlags;
use postgres_protocol::message::frontend;

use super::deadline::Deadline;
use super::reach::{Address, addresses, reach};
use super::target::Target;
use super::transport::Transport;

/// For a server that does not answer, where the user sets no `connect_timeout`.
const PATIENCE: Duration = Duration::from_secs(5);

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
    /// Asks for the end of the backend's statement; the server does not say whether there was one.
    /// The key does not tell which of several servers it is of: the others ignore it.
    pub(crate) fn cancel(&self, key: CancelKey) -> io::Result<()> {
        let mut last = Ok(());
        for server in &self.servers {
            match addresses(&server.endpoint).and_then(|places| self.cancel_at(&places, key)) {
                Ok(()) => {}
                Err(error) => last = Err(error),
            }
        }
        last
    }

    fn cancel_at(&self, places: &[Address<'_>], key: CancelKey) -> io::Result<()> {
        let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
        for place in places {
            let deadline = Deadline::after(Some(self.connect_timeout.unwrap_or(PATIENCE)));
            match reach(place, deadline).and_then(|stream| send(stream, key, deadline)) {
                Ok(()) => return Ok(()),
                Err(error) => last = error,
            }
        }
        Err(last)
    }
}

/// Sends the request in the clear, as libpq does, and waits until the server has acted: it closes
/// the connection then.
fn send(mut stream: Transport, key: CancelKey, deadline: Deadline) -> io::Result<()> {
    let mut request = BytesMut::new();
    let (pid, secret) = (key.backend_pid.cast_signed(), key.secret.cast_signed());
    frontend::cancel_request(pid, secret, &mut request);
    if !stream.send(&request)? {
        return Err(io::ErrorKind::WouldBlock.into());
    }
    deadline.wait(&stream, PollFlags::POLLIN)
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
