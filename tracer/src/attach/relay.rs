//! Signals that are meant for the command.
//!
//! A terminal sends Ctrl-C to all of its foreground job, the command included. What somebody sends to
//! lockscope alone is passed on.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

/// Passes signals on until it is dropped.
#[derive(Debug)]
pub struct Relay {
    /// The command's pid, 0 when it is gone.
    pid: Arc<AtomicI32>,
}

impl Relay {
    /// To the process `pid`. The signals' usual effects on lockscope are not changed by this.
    ///
    /// # Errors
    /// The system refuses a handler.
    pub fn to(pid: u32) -> io::Result<Relay> {
        let target = Arc::new(AtomicI32::new(pid.cast_signed()));
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            let target = Arc::clone(&target);
            let pass_on = move |info: &libc::siginfo_t| {
                let pid = target.load(Ordering::Relaxed);
                // The kernel's own signals, a terminal's, are sent to the whole job.
                if info.si_code <= 0 && pid > 0 {
                    // SAFETY: kill may be called in a signal handler. The command is not waited for
                    // before this is dropped, so the pid is its own.
                    unsafe { libc::kill(pid, signal) };
                }
            };
            // SAFETY: the action loads an atomic and calls kill, both allowed in a signal handler.
            unsafe { signal_hook_registry::register_sigaction(signal, pass_on)? };
        }
        Ok(Relay { pid: target })
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.pid.store(0, Ordering::Relaxed);
    }
}
