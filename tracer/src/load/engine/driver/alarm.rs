//! A timer as a file, so that both drivers wait for it like for any other.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use nix::sys::time::TimeSpec;
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};

/// Rings once at a moment of CLOCK_MONOTONIC.
#[derive(Debug)]
pub(super) struct Alarm {
    timer: TimerFd,
    /// What it is set to; setting the same again costs no system call.
    set_to_ns: Option<u64>,
}

impl Alarm {
    pub(super) fn new() -> io::Result<Self> {
        let flags = TimerFlags::TFD_NONBLOCK | TimerFlags::TFD_CLOEXEC;
        Ok(Self { timer: TimerFd::new(ClockId::CLOCK_MONOTONIC, flags)?, set_to_ns: None })
    }

    /// Moves the alarm; a moment in the past rings at once.
    #[inline]
    pub(super) fn set(&mut self, due_ns: u64) -> io::Result<()> {
        if self.set_to_ns == Some(due_ns) {
            return Ok(());
        }
        // All zeroes would turn it off.
        let due = TimeSpec::from_duration(Duration::from_nanos(due_ns.max(1)));
        self.timer.set(Expiration::OneShot(due), TimerSetTimeFlags::TFD_TIMER_ABSTIME)?;
        self.set_to_ns = Some(due_ns);
        Ok(())
    }

    /// Takes note of its ringing.
    pub(super) fn silence(&mut self) {
        self.set_to_ns = None;
        // Moving the timer may have taken the ringing back already: then there is nothing to read.
        let mut count = [0; 8];
        let _ = nix::unistd::read(&self.timer, &mut count);
    }
}

impl AsFd for Alarm {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.timer.as_fd()
    }
}
