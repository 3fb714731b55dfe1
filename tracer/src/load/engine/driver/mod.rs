//! How bytes travel: two drivers under the same clients.
//!
//! A driver waits for bytes, hands them to the [`Crew`], and does what it answers. Everything else
//! (what to send, when, and for how long) is the crew's.

mod alarm;
mod buffers;
mod epoll;
mod uring;

use std::fmt;
use std::io;

pub(super) use epoll::EpollDriver;
pub(super) use uring::UringDriver;

use super::crew::Crew;
use crate::load::connect::Transport;

/// What a connection is to do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    /// Wait for more bytes.
    Wait,
    /// Send [`Crew::request`].
    Send,
    /// Disconnect.
    Close,
}

/// A way to move bytes.
pub(super) trait Driver {
    /// Watches a connection from now on; `slot` is free.
    fn open(&mut self, slot: usize, transport: Transport) -> io::Result<()>;

    /// Says goodbye and disconnects.
    fn close(&mut self, slot: usize);

    /// Sends `request`, or keeps what the socket does not take and sends it when it does.
    fn send(&mut self, slot: usize, request: &[u8]) -> io::Result<()>;

    /// Whether the slot has a connection.
    fn is_open(&self, slot: usize) -> bool;

    /// Waits for bytes, at most until `due_ns` (CLOCK_MONOTONIC; 0 takes what is there), and lets
    /// `crew` act on them.
    fn wait(&mut self, due_ns: u64, crew: &mut Crew) -> io::Result<()>;
}

/// A request that finds nobody at the other end is no error yet: the server may have said why it
/// left, and the receive finds that, or the end.
fn unless_gone(sent: io::Result<bool>) -> io::Result<bool> {
    use io::ErrorKind::{BrokenPipe, ConnectionReset};
    match sent {
        Err(error) if matches!(error.kind(), BrokenPipe | ConnectionReset) => Ok(true),
        sent => sent,
    }
}

/// How sockets are driven (`--io`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Io {
    /// System calls per message: a request leaves when its time stamp says.
    Epoll,
    /// Requests of several connections leave in one system call: less CPU time.
    #[value(name = "uring")]
    Uring,
}

impl Io {
    /// Whether this process may use io_uring as the driver needs it; the reason if not.
    pub fn probe_uring() -> Result<(), String> {
        uring::probe().map_err(|error| match error.raw_os_error() {
            Some(libc::ENOSYS) => "this kernel has no io_uring".to_owned(),
            Some(libc::EPERM | libc::EACCES) => {
                "io_uring is forbidden here (kernel.io_uring_disabled, or a container's seccomp filter)"
                    .to_owned()
            }
            Some(libc::EINVAL) => {
                "this kernel's io_uring is too old: it needs Linux 6.1 or newer".to_owned()
            }
            _ => format!("io_uring cannot be set up: {error}"),
        })
    }
}

impl fmt::Display for Io {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Epoll => "epoll",
            Self::Uring => "uring",
        })
    }
}
