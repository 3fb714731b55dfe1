//! Scattered blocks written to a block device or a file on a disk, then synced: writing them back
//! plugs the block layer's queue around every batch of requests.

use std::fs::OpenOptions;
use std::os::unix::fs::FileExt as _;

use anyhow::{Context as _, Result};
use clap::Parser;
use lockscope_tests::stress::{Options, run};

const BLOCK_BYTES: usize = 16 << 10;
/// With a gap between any two, blocks cannot become one request.
const STRIDE_BYTES: usize = 2 * BLOCK_BYTES;

#[derive(Parser)]
struct Plug {
    #[command(flatten)]
    options: Options,
    /// Blocks written before each sync
    #[arg(long, default_value_t = 16)]
    batch: usize,
}

fn main() -> Result<()> {
    let Plug { options, batch } = Plug::parse();
    let file = OpenOptions::new()
        .write(true)
        .create(!options.path.exists())
        .open(&options.path)
        .with_context(|| format!("cannot open {}", options.path.display()))?;
    run("plug", &options, |index| {
        let file = &file;
        let first = index * batch * STRIDE_BYTES;
        Ok(Box::new(move || {
            for block in 0..batch {
                let offset = u64::try_from(first + block * STRIDE_BYTES)?;
                file.write_all_at(&[1; BLOCK_BYTES], offset).context("cannot write")?;
            }
            file.sync_data().context("cannot sync")
        }))
    })
}
