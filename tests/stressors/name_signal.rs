//! Threads of one process change their signal masks: each change takes the process's `siglock`.

use anyhow::{Context as _, Result};
use clap::Parser as _;
use lockscope_tests::stress::{Options, run};
use nix::sys::signal::{SigSet, SigmaskHow, Signal, pthread_sigmask};

fn main() -> Result<()> {
    run("name-signal", &Options::parse(), |_| Ok(Box::new(block_and_unblock)))
}

fn block_and_unblock() -> Result<()> {
    let mut set = SigSet::empty();
    set.add(Signal::SIGUSR1);
    for how in [SigmaskHow::SIG_BLOCK, SigmaskHow::SIG_UNBLOCK] {
        pthread_sigmask(how, Some(&set), None).context("cannot change the signal mask")?;
    }
    Ok(())
}
