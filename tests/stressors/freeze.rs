//! A file system that is frozen for a moment, again and again: everybody who writes to it meanwhile
//! waits for one of its percpu-rwsems. `--path` is where it is mounted. Needs root.

use std::fs::File;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::FileExt as _;

use anyhow::{Context as _, Result};
use clap::Parser as _;
use lockscope_tests::held::{Hold, run};
use lockscope_tests::stress::Options;
use nix::unistd::gettid;

// From linux/fs.h; the argument is not used.
nix::ioctl_readwrite! {
    /// Freezes a file system.
    fifreeze, b'X', 119, libc::c_int
}
nix::ioctl_readwrite! {
    /// Thaws it.
    fithaw, b'X', 120, libc::c_int
}

fn main() -> Result<()> {
    let options = Options::parse();
    let root = File::open(&options.path)
        .with_context(|| format!("cannot open {}", options.path.display()))?;
    let dir = tempfile::tempdir_in(&options.path).context("cannot create a directory")?;
    let freezer = Freezer { root, tid: gettid().as_raw() };
    run("freeze", &options, freezer, |index| {
        let file = File::create(dir.path().join(index.to_string())).context("cannot create")?;
        Ok(Box::new(move || file.write_all_at(&[0], 0).context("cannot write")))
    })
}

struct Freezer {
    root: File,
    tid: i32,
}

impl Hold for Freezer {
    fn holder_tid(&self) -> i32 {
        self.tid
    }

    fn hold(&mut self, meanwhile: &mut dyn FnMut() -> Result<()>) -> Result<()> {
        let mut unused = 0;
        // SAFETY: the descriptor is open, and the argument lives through the call.
        unsafe { fifreeze(self.root.as_raw_fd(), &raw mut unused) }.context("cannot freeze")?;
        let result = meanwhile();
        // SAFETY: as above.
        unsafe { fithaw(self.root.as_raw_fd(), &raw mut unused) }.context("cannot thaw")?;
        result
    }
}
