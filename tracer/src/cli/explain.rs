//! `lockscope explain`.

use std::path::PathBuf;

use clap::Args;

use super::ResultArgs;
use super::compare::EvidenceArgs;

/// Saved runs, and which known regressions to look for.
#[derive(Debug, Args)]
pub struct ExplainArgs {
    /// One run; or the base's run and the new one; or all runs of the base, the new ones behind --.
    #[arg(value_name = "RUN", required = true)]
    pub runs: Vec<PathBuf>,
    /// The new runs.
    #[arg(last = true, value_name = "NEW")]
    pub new: Vec<PathBuf>,
    /// Look for the regressions of this directory's .toml files, too (docs/signatures.md).
    #[arg(long, value_name = "DIR")]
    pub signatures: Vec<PathBuf>,
    /// Try this signature alone, and show its evidence also where it does not match.
    #[arg(long, value_name = "ID")]
    pub signature: Vec<String>,
    /// How sure, of two sides.
    #[command(flatten)]
    pub evidence: EvidenceArgs,
    /// What to print and save.
    #[command(flatten)]
    pub result: ResultArgs,
}
