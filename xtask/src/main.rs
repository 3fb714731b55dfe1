//! Development tasks of lockscope: `cargo xtask <task>`.

mod bench;
mod cargo_test;
mod demo;
mod dist;
mod kernel_support;
mod lint;
mod setup;
mod shell;
mod tally;
mod test;
mod vm;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};
use setup::Part;

#[derive(Parser)]
#[command(about = "Development tasks of lockscope", bin_name = "cargo xtask")]
struct Cli {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Install what building and testing need, after saying what
    Setup,
    /// Install what is missing, build, and run lockscope once against a throw-away Postgres
    Demo {
        /// More options for `lockscope run`
        #[arg(last = true)]
        arguments: Vec<String>,
    },
    /// Install what is missing and run all tests
    Test(test::Options),
    /// Boot Debian kernels in QEMU and run the cases, or a command, in them
    Vm(vm::Options),
    /// Record what `lockscope doctor` says on each kernel, and write docs/kernel-support.md's table
    KernelSupport(kernel_support::Options),
    /// Measure what lockscope costs; prints ratios, never fails on them
    #[command(subcommand)]
    Bench(bench::Bench),
    /// Build one release binary that needs nothing but glibc
    Dist,
    /// Build the release binary and copy it to PREFIX/bin
    Install {
        /// Where to install
        #[arg(long, default_value = "/usr/local")]
        prefix: PathBuf,
    },
    /// Check formatting, lints and documentation; warnings are errors
    Lint,
}

fn main() -> ExitCode {
    match run(Cli::parse().task) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(task: Task) -> Result<()> {
    match task {
        Task::Setup => setup::ensure(&Part::ALL),
        Task::Demo { arguments } => demo::run_demo(&arguments),
        Task::Test(options) => test::run(&options),
        Task::Vm(options) => vm::run(&options),
        Task::KernelSupport(options) => kernel_support::run(&options),
        Task::Bench(bench) => bench::run(&bench),
        Task::Dist => dist::build().map(drop),
        Task::Install { prefix } => dist::install(&prefix),
        Task::Lint => {
            setup::ensure(&[Part::Build])?;
            lint::run_all()
        }
    }
}
