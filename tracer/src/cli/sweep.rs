//! `lockscope sweep`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::values::{interval, progress};
use super::{FilterArgs, LoadArgs, ServerArgs, TableArgs, TraceArgs};
use crate::commands::report::LayoutArgs;
use crate::commands::sweep::Varied;

/// Runs at several values of one option or more. Every option of `lockscope run` may be varied; those
/// that are given once hold for all steps.
#[derive(Debug, Args)]
pub struct SweepArgs {
    /// Client counts, as in 1,2,4,8 [default where nothing else is varied: powers of two up to four
    /// times the CPUs].
    #[arg(long, value_name = "N,N,…", value_delimiter = ',', conflicts_with = "client",
          value_parser = super::values::at_least_one)]
    pub clients: Vec<u32>,
    /// Another option of `lockscope run` and its values, as in scale=10,100 or
    /// protocol=simple,prepared; several make a grid, and each combination beside the client counts
    /// a curve (may be repeated).
    #[arg(long, value_name = "OPTION=V,V,…")]
    pub vary: Vec<Varied>,
    /// Save every step's run in this directory, and the sweep as sweep.json.
    #[arg(short, long, value_name = "DIR")]
    pub output: Option<PathBuf>,
    /// Write a row a step to this file.
    #[arg(long, value_name = "FILE")]
    pub csv: Option<PathBuf>,
    /// Draw throughput and the ledger over the steps into this file.
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
    /// Print the sweep as JSON (docs/sweep.schema.json).
    #[arg(long)]
    pub json: bool,
    /// Step of each run's time series in seconds, at least 0.1.
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = interval)]
    pub interval: Duration,
    /// Seconds between progress lines on standard error, at least 0.1, 0 for none.
    #[arg(short = 'P', long, value_name = "SECONDS", default_value = "1", value_parser = progress)]
    pub progress: Duration,
    /// No progress lines.
    #[arg(short, long)]
    pub quiet: bool,
    /// The text report's layout.
    #[command(flatten)]
    pub layout: LayoutArgs,
    /// The load.
    #[command(flatten)]
    pub load: LoadArgs,
    /// Where to run it.
    #[command(flatten)]
    pub server: ServerArgs,
    /// The tables.
    #[command(flatten)]
    pub tables: TableArgs,
    /// How to trace meanwhile.
    #[command(flatten)]
    pub trace: TraceArgs,
    /// What to narrow the trace to.
    #[command(flatten)]
    pub filter: FilterArgs,
}
