//! Threads that read blocks of a disk, past the page cache: off the CPU, waiting for the device.

use std::fs::OpenOptions;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};

use anyhow::{Context as _, Result};
use clap::Parser as _;
use lockscope_tests::stress::{Options, run};

const BLOCK_BYTES: usize = 4096;
/// Each thread reads its own part of the disk.
const PART_BLOCKS: u64 = 1024;

/// Direct I/O wants its memory aligned.
#[repr(align(4096))]
struct Block([u8; BLOCK_BYTES]);

fn main() -> Result<()> {
    let options = Options::parse();
    let disk = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_DIRECT)
        .open(&options.path)
        .with_context(|| format!("cannot open {}", options.path.display()))?;
    run("disk", &options, |index| {
        let disk = &disk;
        let first = u64::try_from(index)? * PART_BLOCKS;
        let mut block = Box::new(Block([0; BLOCK_BYTES]));
        let mut next = 0;
        Ok(Box::new(move || {
            next = (next + 1) % PART_BLOCKS;
            let offset = (first + next) * BLOCK_BYTES as u64;
            disk.read_exact_at(&mut block.0, offset).context("cannot read")
        }))
    })
}
