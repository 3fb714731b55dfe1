//! A point in time by which the start of a connection must be done.

use std::io;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

/// Longest single wait; the time that is left is looked at again after it.
const STEP: Duration = Duration::from_secs(60);

/// The end of the patience.
#[derive(Clone, Copy, Debug)]
pub(super) struct Deadline(Option<Instant>);

impl Deadline {
    /// `None` is for ever.
    pub(super) fn after(patience: Option<Duration>) -> Self {
        Self(patience.and_then(|patience| Instant::now().checked_add(patience)))
    }

    /// What is left; an error when nothing is.
    pub(super) fn left(self) -> io::Result<Duration> {
        let Some(end) = self.0 else { return Ok(STEP) };
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(left.min(STEP)) }
    }

    /// Waits until `socket` has one of `events`.
    pub(super) fn wait(self, socket: &impl AsFd, events: PollFlags) -> io::Result<()> {
        loop {
            // Rounded up, so that the last wait does not spin.
            let millis = self.left()?.as_millis() + 1;
            let timeout = PollTimeout::try_from(millis).unwrap_or(PollTimeout::MAX);
            match poll(&mut [PollFd::new(socket.as_fd(), events)], timeout) {
                Ok(0) | Err(Errno::EINTR) => {}
                Ok(_) => return Ok(()),
                Err(errno) => return Err(errno.into()),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn a_silent_socket_is_waited_for_no_longer_than_allowed() {
        let (near, _far) = UnixStream::pair().unwrap();
        let deadline = Deadline::after(Some(Duration::from_millis(20)));
        let error = deadline.wait(&near, PollFlags::POLLIN).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert!(deadline.left().is_err());
        assert!(Deadline::after(None).left().is_ok());
    }
}
