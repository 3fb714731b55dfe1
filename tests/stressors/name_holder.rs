//! One thread reads a large file at once, again and again, and holds the open file's `f_pos_lock` all the
//! while; the others seek in the same open file and wait for it. The first tid is the holder.

use std::fs::{File, OpenOptions};
use std::io::{Read as _, Seek as _, SeekFrom};

use anyhow::{Context as _, Result};
use clap::Parser as _;
use lockscope_tests::stress::{Options, run};

const FILE_BYTES: usize = 8 << 20;

fn main() -> Result<()> {
    let options = Options::parse();
    let dir = tempfile::tempdir_in(&options.path)
        .with_context(|| format!("cannot create a directory in {}", options.path.display()))?;
    let path = dir.path().join("large");
    std::fs::write(&path, vec![1; FILE_BYTES]).context("cannot write the file")?;
    let file = OpenOptions::new().read(true).open(&path).context("cannot open the file")?;
    run("name-holder", &options, |index| {
        let file = &file;
        if index > 0 {
            return Ok(Box::new(move || seek(file)));
        }
        let mut buffer = vec![0; FILE_BYTES];
        Ok(Box::new(move || read(file, &mut buffer)))
    })
}

/// One system call for all of it; what a seek has left of the file may be less.
fn read(mut file: &File, buffer: &mut [u8]) -> Result<()> {
    seek(file)?;
    file.read(buffer).context("cannot read")?;
    Ok(())
}

fn seek(mut file: &File) -> Result<()> {
    file.seek(SeekFrom::Start(0)).context("cannot seek")?;
    Ok(())
}
