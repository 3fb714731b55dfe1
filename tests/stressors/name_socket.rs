//! Threads send and receive on both ends of one pair of unix sockets: the queue's lock and the mutex
//! of the readers.

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;

use anyhow::{Context as _, Result};
use clap::Parser as _;
use lockscope_tests::stress::{Options, run};

fn main() -> Result<()> {
    let (left, right) = UnixStream::pair().context("cannot make a pair of sockets")?;
    run("name-socket", &Options::parse(), |_| {
        let (left, right) = (&left, &right);
        Ok(Box::new(move || pass(left, right)))
    })
}

/// Every thread sends before it receives: none waits for ever.
fn pass(mut left: &UnixStream, mut right: &UnixStream) -> Result<()> {
    let mut byte = [0];
    left.write_all(&byte).context("cannot send")?;
    right.read_exact(&mut byte).context("cannot receive")
}
