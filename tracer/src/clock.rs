//! The clocks that measurements use.

use std::time::SystemTime;

use nix::time::{ClockId, clock_gettime};
use nix::unistd::Pid;

const NS_PER_US: u64 = 1_000;

/// CLOCK_MONOTONIC, the clock of every time stamp of a run.
#[inline]
pub fn monotonic_ns() -> u64 {
    read(ClockId::CLOCK_MONOTONIC).unwrap_or_default()
}

/// The epoch of CLOCK_MONOTONIC in Unix time.
#[derive(Clone, Copy, Debug)]
pub struct Epoch {
    offset_us: u64,
}

impl Epoch {
    /// As the clocks stand now.
    pub fn now() -> Self {
        let since_epoch = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
        let now_us = u64::try_from(since_epoch.as_micros()).unwrap_or_default();
        Self { offset_us: now_us.saturating_sub(monotonic_ns() / NS_PER_US) }
    }

    /// Microseconds since 1970 at a moment of CLOCK_MONOTONIC.
    pub fn unix_us(self, monotonic_ns: u64) -> u64 {
        self.offset_us + monotonic_ns / NS_PER_US
    }
}

/// CPU time that thread `tid` of this process has used; `None` once it has ended.
pub fn thread_cpu_ns(tid: u32) -> Option<u64> {
    let pid = i32::try_from(tid).ok()?;
    read(thread_clock(Pid::from_raw(pid)))
}

/// The CPU clock of one thread: the kernel's encoding is the inverted tid, a per-thread bit (4) and
/// the kind of clock (2: scheduler time).
fn thread_clock(tid: Pid) -> ClockId {
    ClockId::from_raw((!tid.as_raw() << 3) | 4 | 2)
}

fn read(clock: ClockId) -> Option<u64> {
    let time = clock_gettime(clock).ok()?;
    let seconds = u64::try_from(time.tv_sec()).ok()?;
    let nanoseconds = u64::try_from(time.tv_nsec()).ok()?;
    Some(seconds * 1_000_000_000 + nanoseconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_s_clock_counts_its_own_work() {
        let tid = u32::try_from(nix::unistd::gettid().as_raw()).unwrap();
        let before = thread_cpu_ns(tid).unwrap();
        let own = read(ClockId::CLOCK_THREAD_CPUTIME_ID).unwrap();
        let after = thread_cpu_ns(tid).unwrap();
        assert!(before <= own && own <= after, "{before} {own} {after}");
    }

    #[test]
    fn an_ended_thread_has_no_clock() {
        let tid = std::thread::spawn(|| nix::unistd::gettid().as_raw()).join().unwrap();
        assert_eq!(thread_cpu_ns(u32::try_from(tid).unwrap()), None);
    }
}
