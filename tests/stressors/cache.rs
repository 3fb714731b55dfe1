//! Threads that all count in one word of memory: its cache line travels from CPU to CPU with every
//! increment, and no lock is involved.

use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::Result;
use clap::Parser as _;
use lockscope_tests::stress::{Options, run};

fn main() -> Result<()> {
    let shared = AtomicU64::new(0);
    run("cache", &Options::parse(), |_| {
        let shared = &shared;
        Ok(Box::new(move || {
            for _ in 0..1000 {
                shared.fetch_add(1, Ordering::SeqCst);
            }
            Ok(())
        }))
    })
}
