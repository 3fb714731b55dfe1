//! Asking the server to give up what a backend is doing.

use std::io::{self, Read as _, Write as _};

use bytes::BytesMut;
use postgres_protocol::message::frontend;

use super::error::ConnectError;
use super::startup::reach;
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
    pub(crate) fn cancel(&self, key: CancelKey) -> Result<(), ConnectError> {
        let (_, mut transport) = reach(self)?;
        let mut request = BytesMut::new();
        let pid = key.backend_pid.cast_signed();
        frontend::cancel_request(pid, key.secret.cast_signed(), &mut request);
        // The server closes the connection once the signal is sent.
        let sent = transport.write_all(&request).and_then(|()| match transport.read(&mut [0]) {
            Err(error) if error.kind() != io::ErrorKind::ConnectionReset => Err(error),
            _ => Ok(()),
        });
        sent.map_err(|source| ConnectError::Startup { place: self.place(), source })
    }
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
