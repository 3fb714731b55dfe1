//! `cargo xtask bench`: what lockscope costs, as ratios of alternating runs.
//!
//! Server, load and tracer share one CPU: with two the scheduler's placing of a client beside its
//! backend moves the throughput more than most of what is measured here. `load` has that layout too,
//! for it is how the programs are used. Nothing fails on timing.

mod attach;
mod child;
mod compare;
mod contention;
mod hooks;
mod init;
mod load;
mod lockscope;
mod machine;
mod overhead;
mod pairs;
mod pgbench;
mod server;
mod start;
mod sysbench;

use anyhow::{Result, bail};
use clap::{Args, Subcommand};
use lockscope::Lockscope;
use server::Server;

use crate::setup::{self, Part};
use crate::shell::{cargo, is_root, run as run_command};

#[derive(Debug, Subcommand)]
pub(crate) enum Bench {
    /// The load generator beside pgbench: throughput and client CPU
    Load(load::Options),
    /// Making pgbench's tables beside pgbench -i: time and client CPU
    Init(init::Options),
    /// Throughput with tracing over throughput without; memory, start
    Overhead(overhead::Options),
    /// What each hook adds to a transaction
    Hooks(hooks::Options),
    /// Comparing two runs of an hour: time and memory
    Compare(compare::Options),
    /// pgbench alone and with lockscope attached
    Attach(attach::Options),
    /// A lock with and without contention: what of the loss is accounted for
    Contention(contention::Options),
}

/// How long and how often.
#[derive(Debug, Clone, Copy, Args)]
struct Rounds {
    /// Alternating pairs of runs
    #[arg(long, default_value = "5")]
    pairs: usize,
    /// Measured seconds of each run
    #[arg(long, default_value = "5")]
    seconds: u32,
    /// The CPU that server, load and tracer share
    #[arg(long, default_value = "0")]
    cpu: usize,
}

pub(crate) fn run(bench: &Bench) -> Result<()> {
    if !matches!(bench, Bench::Load(_) | Bench::Init(_) | Bench::Compare(_)) && !is_root() {
        bail!("tracing needs root; run `sudo -E env \"PATH=$PATH\" cargo xtask bench …`");
    }
    setup::ensure(&[Part::Build, Part::Postgres])?;
    run_command(cargo().args(["build", "--release", "--package", "lockscope"]))?;
    match bench {
        Bench::Load(options) => load::run(options),
        Bench::Init(options) => init::run(options),
        Bench::Overhead(options) => overhead::run(options),
        Bench::Hooks(options) => hooks::run(options),
        Bench::Compare(options) => compare::run(*options),
        Bench::Attach(options) => attach::run(options),
        Bench::Contention(options) => contention::run(options),
    }
}

/// A server with tables, and the lockscope to be measured, on the CPU of `rounds`.
fn prepare(rounds: Rounds) -> Result<(Server, Lockscope)> {
    println!("{}", machine::describe());
    prepare_on(&rounds.cpu.to_string(), rounds)
}

/// The same on any CPUs.
fn prepare_on(cpus: &str, rounds: Rounds) -> Result<(Server, Lockscope)> {
    let server = Server::start(cpus)?;
    pgbench::fill(&server)?;
    let lockscope = Lockscope::new(&server);
    println!(
        "layout: server and client on CPU {cpus}; scale 1; {} pairs of {} s",
        rounds.pairs, rounds.seconds
    );
    Ok((server, lockscope))
}
