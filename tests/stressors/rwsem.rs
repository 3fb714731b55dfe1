//! Files created and removed in one directory: every one takes the directory's `i_rwsem` for writing.

use std::fs::{File, remove_file};

use anyhow::{Context as _, Result};
use clap::Parser as _;
use lockscope_tests::stress::{Options, run};

fn main() -> Result<()> {
    let options = Options::parse();
    let dir = tempfile::tempdir_in(&options.path)
        .with_context(|| format!("cannot create a directory in {}", options.path.display()))?;
    run("rwsem", &options, |index| {
        let path = dir.path().join(format!("file-{index}"));
        Ok(Box::new(move || {
            File::create(&path).context("cannot create")?;
            remove_file(&path).context("cannot remove")
        }))
    })
}
