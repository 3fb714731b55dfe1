//! Scattered blocks written to a block device or a file on a disk, then synced: writing them back
//! plugs the block layer's queue around every batch of requests. On a block device it says how many
//! writes the disk completed meanwhile, for anybody.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::{FileExt as _, FileTypeExt as _, MetadataExt as _};

use anyhow::{Context as _, Result};
use clap::Parser;
use lockscope_tests::stress::{Options, measure};
use nix::sys::stat::{major, minor};

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
    let before = disk_writes(&file)?;
    let mut line = measure("plug", &options, |index| {
        let file = &file;
        let first = index * batch * STRIDE_BYTES;
        Ok(Box::new(move || {
            for block in 0..batch {
                let offset = u64::try_from(first + block * STRIDE_BYTES)?;
                file.write_all_at(&[1; BLOCK_BYTES], offset).context("cannot write")?;
            }
            file.sync_data().context("cannot sync")
        }))
    })?;
    if let (Some(before), Some(after)) = (before, disk_writes(&file)?) {
        line["disk_writes_count"] = (after - before).into();
    }
    println!("{line}");
    Ok(())
}

/// Writes that a block device has completed; none of a file's. Where they stand: the kernel's
/// Documentation/block/stat.rst.
fn disk_writes(file: &File) -> Result<Option<u64>> {
    let metadata = file.metadata().context("cannot stat the file")?;
    if !metadata.file_type().is_block_device() {
        return Ok(None);
    }
    let device = metadata.rdev();
    let path = format!("/sys/dev/block/{}:{}/stat", major(device), minor(device));
    let stat = fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))?;
    let writes = stat.split_whitespace().nth(4).with_context(|| format!("{path}: {stat}"))?;
    Ok(Some(writes.parse().with_context(|| format!("{path}: {stat}"))?))
}
