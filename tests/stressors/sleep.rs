//! Threads that sleep most of the time: off the CPU, and waiting for no lock.

use std::thread;
use std::time::Duration;

use anyhow::Result;
use clap::Parser as _;
use lockscope_tests::stress::{Options, run};

fn main() -> Result<()> {
    run("sleep", &Options::parse(), |_| {
        Ok(Box::new(|| {
            thread::sleep(Duration::from_millis(5));
            Ok(())
        }))
    })
}
