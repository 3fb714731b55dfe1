//! Two spinlocks: the process's `files_struct.file_lock` (dup and close) and one futex hash bucket
//! (waiting for a value that is not there, which returns at once).

use std::fs::File;
use std::ptr;

use anyhow::{Context as _, Result, bail};
use clap::Parser as _;
use lockscope_tests::stress::{Options, run};

fn main() -> Result<()> {
    let file = File::open("/dev/null").context("cannot open /dev/null")?;
    let word = 0_u32;
    run("qspinlock", &Options::parse(), |_| {
        let (file, word) = (&file, &word);
        Ok(Box::new(move || {
            drop(file.try_clone().context("cannot duplicate")?);
            wait_for_nothing(word)
        }))
    })
}

fn wait_for_nothing(word: &u32) -> Result<()> {
    let timeout = ptr::null::<libc::timespec>();
    // Shared, not private: private futexes have a table per process on newer kernels.
    // SAFETY: the word outlives the call; a null timeout is allowed.
    let result = unsafe {
        libc::syscall(libc::SYS_futex, ptr::from_ref(word), libc::FUTEX_WAIT, *word + 1, timeout)
    };
    let error = std::io::Error::last_os_error();
    if result == -1 && error.raw_os_error() == Some(libc::EAGAIN) {
        return Ok(());
    }
    bail!("futex: expected EAGAIN, got {result} and {error}")
}
