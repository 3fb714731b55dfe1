//! Development tasks of lockscope: `cargo xtask <task>`.

mod lint;
mod setup;
mod shell;
mod tally;
mod vm;

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
    /// Install what building and testing need, after saying what.
    Setup,
    /// Check formatting, lints and documentation; warnings are errors.
    Lint,
    /// Boot Debian kernels in QEMU and run the cases, or a command, in them.
    Vm(vm::Options),
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
        Task::Lint => {
            setup::ensure(&[Part::Build])?;
            lint::run_all()
        }
        Task::Vm(options) => vm::run(&options),
    }
}
