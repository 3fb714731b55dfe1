//! Threads write to one pipe and read from it: its mutex.

use std::io::{PipeReader, PipeWriter, Read as _, Write as _, pipe};

use anyhow::{Context as _, Result};
use clap::Parser as _;
use lockscope_tests::stress::{Options, run};

const BYTES: usize = 2048;

fn main() -> Result<()> {
    let (reader, writer) = pipe().context("cannot make a pipe")?;
    // Each thread writes before it reads: there is always enough for the reads, and room for the writes.
    run("name-pipe", &Options::parse(), |_| {
        let (reader, writer) = (&reader, &writer);
        let mut buffer = [0; BYTES];
        Ok(Box::new(move || pass(reader, writer, &mut buffer)))
    })
}

fn pass(mut reader: &PipeReader, mut writer: &PipeWriter, buffer: &mut [u8]) -> Result<()> {
    writer.write_all(buffer).context("cannot write")?;
    reader.read_exact(buffer).context("cannot read")
}
