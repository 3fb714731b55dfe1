//! Direct writes of several blocks at a time to a block device or a file on a disk, each followed
//! by a sync: the block layer plugs and unplugs its queue around every batch.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};

use anyhow::{Context as _, Result};
use clap::Parser as _;
use lockscope_tests::stress::{Options, run};

/// Large enough for the block layer to split it into several requests.
const BATCH_BYTES: usize = 1 << 20;
/// Direct writes want their memory aligned to the device's blocks.
const ALIGNMENT: usize = 4096;

fn main() -> Result<()> {
    let options = Options::parse();
    let file = OpenOptions::new()
        .write(true)
        .create(!options.path.exists())
        .custom_flags(libc::O_DIRECT)
        .open(&options.path)
        .with_context(|| format!("cannot open {} for direct writes", options.path.display()))?;
    run("plug", &options, |index| {
        let file = &file;
        let memory = vec![0; BATCH_BYTES + ALIGNMENT];
        let start = memory.as_ptr().align_offset(ALIGNMENT);
        let offset = u64::try_from(index * BATCH_BYTES)?;
        Ok(Box::new(move || write_batch(file, &memory[start..start + BATCH_BYTES], offset)))
    })
}

fn write_batch(file: &File, batch: &[u8], offset: u64) -> Result<()> {
    file.write_all_at(batch, offset).context("cannot write")?;
    file.sync_data().context("cannot sync")
}
