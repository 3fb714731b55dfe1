//! What to print and save.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::values::{interval, progress};
use crate::commands::report::LayoutArgs;

/// What to print and save.
#[derive(Debug, Args)]
#[command(next_help_heading = "Output")]
pub struct OutputArgs {
    /// Save the run to this file.
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Print the report as JSON.
    #[arg(long)]
    pub json: bool,
    /// While it runs, and how the text looks.
    #[command(flatten)]
    pub series: SeriesArgs,
}

/// Of every command that tells something of saved runs: what to print and save.
#[derive(Debug, Args)]
#[command(next_help_heading = "Output")]
pub struct ResultArgs {
    /// Print the result as JSON (docs/comparison.schema.json, docs/explanation.schema.json).
    #[arg(long)]
    pub json: bool,
    /// Save the result as JSON to this file.
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// The text's layout.
    #[command(flatten)]
    pub layout: LayoutArgs,
}

/// Of every command that measures: the time series, progress, and the text's layout.
#[derive(Debug, Args)]
#[command(next_help_heading = "Output")]
pub struct SeriesArgs {
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
}
