//! Runs loads whose answer is known while lockscope watches, and judges what it saw.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, Result};
use clap::Parser;
use lockscope_tests::known::{LOADS, Load, Plan, prove};

#[derive(Parser)]
struct Cli {
    /// The loads, in this order
    #[arg(required = true)]
    loads: Vec<String>,
    /// The server of the benchmark beside them
    #[arg(long)]
    dsn: String,
    /// How long each load goes on
    #[arg(long, default_value_t = 2.0)]
    seconds: f64,
    /// Where everything that was printed is kept
    #[arg(long)]
    results: PathBuf,
    /// Count along with bpftrace, and compare
    #[arg(long)]
    reference: bool,
    /// Let perf record along, and compare
    #[arg(long)]
    perf: bool,
    /// One more option for lockscope (may be repeated)
    #[arg(long, allow_hyphen_values = true)]
    option: Vec<String>,
}

fn main() -> ExitCode {
    match run(Cli::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            println!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(cli: Cli) -> Result<()> {
    let find = |name: &String| {
        let known: Vec<&str> = LOADS.iter().map(|load| load.name).collect();
        Load::find(name).with_context(|| format!("no load `{name}`; known are {known:?}"))
    };
    let program = std::env::current_exe().context("this program has no path")?;
    prove(&Plan {
        loads: cli.loads.iter().map(find).collect::<Result<_>>()?,
        seconds: cli.seconds,
        dsn: cli.dsn,
        stressors: program.parent().context("this program is in no directory")?.to_path_buf(),
        results: cli.results,
        reference: cli.reference,
        perf: cli.perf,
        options: cli.option,
    })
}
