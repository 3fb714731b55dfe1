//! Whether there is a standard output at all. Rust's runtime opens /dev/null in the place of one that is
//! closed, before `main`, and a report would vanish there without a word: so it is looked at before that.

use std::sync::atomic::{AtomicBool, Ordering};

use nix::libc;

static CLOSED: AtomicBool = AtomicBool::new(false);

/// Run by the C library before Rust's runtime begins.
#[used]
// SAFETY: the section holds pointers to functions of this type, which take nothing from the runtime.
#[unsafe(link_section = ".init_array")]
static LOOK: extern "C" fn() = look;

extern "C" fn look() {
    // SAFETY: asks for the flags of a file descriptor, which need not be open.
    let flags = unsafe { libc::fcntl(libc::STDOUT_FILENO, libc::F_GETFD) };
    CLOSED.store(flags == -1, Ordering::Relaxed);
}

/// Whether it was closed when the process began.
pub(super) fn was_closed() -> bool {
    CLOSED.load(Ordering::Relaxed)
}
