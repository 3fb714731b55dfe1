//! Ctrl-C and its relatives, as a flag that everything that waits looks at.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

/// How often an asynchronous wait looks at the flag.
const POLL: Duration = Duration::from_millis(50);

/// Set once the user or the system asks lockscope to end.
#[derive(Clone, Debug, Default)]
pub struct Interrupt {
    /// Number of the signal that came last, 0 for none.
    signal: Arc<AtomicUsize>,
}

impl Interrupt {
    /// From now on SIGINT, SIGTERM and, unless the caller ignores it (nohup), SIGHUP set the flag
    /// instead of ending the process.
    pub fn install() -> io::Result<Self> {
        let interrupt = Self::default();
        let signals =
            if is_ignored(SIGHUP) { &[SIGINT, SIGTERM][..] } else { &[SIGINT, SIGTERM, SIGHUP] };
        for &signal in signals {
            let flag = Arc::clone(&interrupt.signal);
            signal_hook::flag::register_usize(signal, flag, signal.unsigned_abs() as usize)?;
        }
        Ok(interrupt)
    }

    /// Whether a signal came.
    pub fn is_set(&self) -> bool {
        self.signal.load(Ordering::Relaxed) != 0
    }

    /// How a shell tells a signal's end in an exit code; `None` when none came.
    pub fn exit_code(&self) -> Option<u8> {
        let signal = self.signal.load(Ordering::Relaxed);
        (signal != 0).then(|| u8::try_from(128 + signal).unwrap_or(u8::MAX))
    }

    /// The signal's name, for messages.
    pub fn name(&self) -> &'static str {
        match i32::try_from(self.signal.load(Ordering::Relaxed)) {
            Ok(SIGINT) => "Ctrl-C (SIGINT)",
            Ok(SIGTERM) => "SIGTERM",
            Ok(SIGHUP) => "SIGHUP",
            _ => "no signal",
        }
    }

    /// Ends when a signal comes.
    pub async fn wait(&self) {
        while !self.is_set() {
            tokio::time::sleep(POLL).await;
        }
    }
}

/// Whether this process was started with `signal` ignored.
fn is_ignored(signal: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    ignored_mask(&status).is_some_and(|mask| mask >> (signal - 1) & 1 == 1)
}

fn ignored_mask(status: &str) -> Option<u64> {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"))?;
    u64::from_str_radix(mask.trim(), 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mask_of_ignored_signals_is_read() {
        assert_eq!(ignored_mask("Name:\tx\nSigIgn:\t0000000000001001\n"), Some(0x1001));
        // Rust's runtime ignores SIGPIPE.
        assert!(is_ignored(signal_hook::consts::SIGPIPE));
        assert!(!is_ignored(SIGTERM));
    }

    #[test]
    fn a_signal_sets_the_flag_and_is_named() {
        let interrupt = Interrupt::install().unwrap();
        assert!(!interrupt.is_set());
        assert_eq!(interrupt.exit_code(), None);
        signal_hook::low_level::raise(SIGTERM).unwrap();
        assert!(interrupt.is_set());
        assert_eq!(interrupt.name(), "SIGTERM");
        assert_eq!(interrupt.exit_code(), Some(128 + 15));
    }
}
