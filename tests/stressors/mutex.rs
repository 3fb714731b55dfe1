//! One open file shared by all threads: every seek and write takes its `f_pos_lock`, a mutex.
//!
//! Seeks hold it for a moment and produce many waits; writes hold it long enough for the others to
//! spin on its owner.

use std::fs::{File, OpenOptions};
use std::io::{Seek as _, SeekFrom, Write as _};

use anyhow::{Context as _, Result};
use clap::Parser as _;
use lockscope_tests::stress::{Options, run};

const BLOCK_BYTES: usize = 16 << 10;
/// Where the file is cut off again.
const FILE_BYTES: u64 = 8 << 20;

fn main() -> Result<()> {
    let options = Options::parse();
    let dir = tempfile::tempdir_in(&options.path)
        .with_context(|| format!("cannot create a directory in {}", options.path.display()))?;
    let path = dir.path().join("shared");
    let file = OpenOptions::new()
        .create(true)
        .append(true)
        .open(&path)
        .context("cannot create the file")?;
    run("mutex", &options, |index| {
        let file = &file;
        Ok(if index % 2 == 0 {
            Box::new(move || append(file))
        } else {
            Box::new(move || seek(file))
        })
    })
}

fn append(mut file: &File) -> Result<()> {
    file.write_all(&[0; BLOCK_BYTES]).context("cannot write")?;
    if file.metadata().context("cannot stat")?.len() > FILE_BYTES {
        file.set_len(0).context("cannot truncate")?;
    }
    Ok(())
}

fn seek(mut file: &File) -> Result<()> {
    file.seek(SeekFrom::Start(0)).context("cannot seek")?;
    Ok(())
}
