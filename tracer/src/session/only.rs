//! At most one tracer at a time: two would count each other's programs and move each other's
//! numbers.
//!
//! The claim is an abstract unix socket: it needs no file, and the kernel gives it up when the
//! process ends, however it ends.

use std::io;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};

use nix::sys::socket::{getsockopt, sockopt::PeerCredentials};

const NAME: &[u8] = b"lockscope-tracer";

/// The claim; given up when dropped.
#[derive(Debug)]
pub struct OnlyTracer {
    _claim: UnixListener,
}

/// Why there is no claim.
#[derive(Debug, thiserror::Error)]
pub enum OnlyTracerError {
    /// Somebody else has it.
    #[error(
        "another lockscope (pid {pid}) is tracing this machine, and two would measure each other; wait for it, or measure a load alone (--no-trace)"
    )]
    Taken {
        /// The other's pid.
        pid: i32,
    },
    /// The system refuses.
    #[error("cannot claim to be the only tracer: {0}")]
    Io(#[from] io::Error),
}

impl OnlyTracer {
    /// Claims to be the only tracer (of this network namespace, in which the name lives).
    ///
    /// # Errors
    /// [`OnlyTracerError::Taken`] while another process holds the claim.
    pub fn acquire() -> Result<OnlyTracer, OnlyTracerError> {
        Self::acquire_named(NAME)
    }

    fn acquire_named(name: &[u8]) -> Result<OnlyTracer, OnlyTracerError> {
        let address = SocketAddr::from_abstract_name(name)?;
        match UnixListener::bind_addr(&address) {
            Ok(claim) => Ok(OnlyTracer { _claim: claim }),
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
                let holder = UnixStream::connect_addr(&address)?;
                let credentials = getsockopt(&holder, PeerCredentials).map_err(io::Error::from)?;
                Err(OnlyTracerError::Taken { pid: credentials.pid() })
            }
            Err(error) => Err(error.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_claim_names_the_holder_until_it_is_dropped() {
        let name = format!("lockscope-test-{}", std::process::id());
        let first = OnlyTracer::acquire_named(name.as_bytes()).unwrap();
        let error = OnlyTracer::acquire_named(name.as_bytes()).unwrap_err();
        assert!(error.to_string().contains(&std::process::id().to_string()), "{error}");
        drop(first);
        OnlyTracer::acquire_named(name.as_bytes()).unwrap();
    }
}
