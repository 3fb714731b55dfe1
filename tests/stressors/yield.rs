//! More threads than CPUs, all of them yielding: the run queue's lock is taken over and over.

use anyhow::Result;
use clap::Parser as _;
use lockscope_tests::stress::{Options, allowed_cpus, bind_to, run};

fn main() -> Result<()> {
    let cpus: Vec<usize> = allowed_cpus()?.into_iter().take(2).collect();
    run("yield", &Options::parse(), |_| {
        bind_to(&cpus)?;
        Ok(Box::new(|| {
            std::thread::yield_now();
            Ok(())
        }))
    })
}
