//! Tasks woken across CPUs: each thread passes a byte to a partner on the next CPU and waits for it
//! to come back, so that wake-ups take the run queue lock of another CPU.

use std::io::{PipeReader, PipeWriter, Read as _, Write as _, pipe};
use std::thread;

use anyhow::{Context as _, Result};
use clap::Parser as _;
use lockscope_tests::stress::{Options, allowed_cpus, bind_to, run};

fn main() -> Result<()> {
    let cpus = allowed_cpus()?;
    run("wake", &Options::parse(), |index| {
        bind_to(&[cpus[index % cpus.len()]])?;
        let (mut answers, answer) = pipe().context("cannot create a pipe")?;
        let (request, mut requests) = pipe().context("cannot create a pipe")?;
        let partner_cpu = cpus[(index + 1) % cpus.len()];
        // The partner ends when the request pipe closes with the operation that owns it.
        thread::spawn(move || echo(partner_cpu, request, answer));
        Ok(Box::new(move || {
            requests.write_all(&[0]).context("cannot send")?;
            answers.read_exact(&mut [0]).context("the partner is gone")
        }))
    })
}

fn echo(cpu: usize, mut requests: PipeReader, mut answers: PipeWriter) -> Result<()> {
    bind_to(&[cpu])?;
    let mut byte = [0];
    while requests.read(&mut byte).context("cannot receive")? > 0 {
        answers.write_all(&byte).context("cannot answer")?;
    }
    Ok(())
}
