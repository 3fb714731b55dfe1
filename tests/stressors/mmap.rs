//! Threads that map, touch and unmap memory: `mmap_lock` taken for writing and for page faults.

use anyhow::Result;
use clap::Parser as _;
use lockscope_tests::memory::map_touch_unmap;
use lockscope_tests::stress::{Options, run};

fn main() -> Result<()> {
    run("mmap", &Options::parse(), |_| Ok(Box::new(map_touch_unmap)))
}
