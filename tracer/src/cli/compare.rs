//! `lockscope compare`.

use std::path::PathBuf;

use clap::Args;

use super::ResultArgs;
use crate::analyse::compare::{Condition, Options};

/// Two sides of saved runs, and what is to be told of them.
#[derive(Debug, Args)]
pub struct CompareArgs {
    /// The base's run and the new one; or all runs of the base, the new ones behind --.
    #[arg(value_name = "RUN", required = true)]
    pub runs: Vec<PathBuf>,
    /// The new runs.
    #[arg(last = true, value_name = "NEW")]
    pub new: Vec<PathBuf>,
    /// Whether the runs were made in turns: the first of both sides are a pair, and so on (as `lockscope ab`
    /// makes them: `compare --paired ab/a*.lockscope -- ab/b*.lockscope`).
    #[arg(long)]
    pub paired: bool,
    /// How they are judged.
    #[command(flatten)]
    pub judge: JudgeArgs,
    /// What to print and save.
    #[command(flatten)]
    pub result: ResultArgs,
}

/// By what a comparison is judged.
#[derive(Clone, Debug, Args)]
pub struct JudgeArgs {
    /// End with exit code 1 when this holds (may be repeated): `tps < -5%`, `latency.p99 > +500us @99`,
    /// `server.spin.osq > 20us`; with 125 when that cannot be judged.
    #[arg(long, value_name = "CONDITION")]
    pub fail_if: Vec<Condition>,
    /// How sure.
    #[command(flatten)]
    pub evidence: EvidenceArgs,
}

/// How sure a change must be, and how large to matter.
#[derive(Clone, Copy, Debug, Args)]
pub struct EvidenceArgs {
    /// Confidence of intervals and verdicts, in percent.
    #[arg(long, value_name = "PERCENT", default_value = "95", value_parser = confidence)]
    pub confidence: f64,
    /// The relative change, in percent, that is of interest: where one would have been found and was
    /// not, the verdict is "no difference found".
    #[arg(long, value_name = "PERCENT", default_value = "5", value_parser = effect)]
    pub effect: f64,
}

impl From<&JudgeArgs> for Options {
    fn from(args: &JudgeArgs) -> Options {
        Options { conditions: args.fail_if.clone(), ..Options::from(&args.evidence) }
    }
}

impl From<&EvidenceArgs> for Options {
    fn from(args: &EvidenceArgs) -> Options {
        Options { confidence: args.confidence, effect: args.effect, ..Options::default() }
    }
}

impl From<&CompareArgs> for Options {
    fn from(args: &CompareArgs) -> Options {
        Options { paired: args.paired, ..Options::from(&args.judge) }
    }
}

fn confidence(text: &str) -> Result<f64, String> {
    percent(text)
        .filter(|percent| (50.0..100.0).contains(percent))
        .map(|percent| percent / 100.0)
        .ok_or_else(|| "give a percentage of at least 50 and below 100".to_owned())
}

fn effect(text: &str) -> Result<f64, String> {
    percent(text)
        .filter(|percent| *percent > 0.0 && *percent <= 100.0)
        .map(|percent| percent / 100.0)
        .ok_or_else(|| "give a percentage of more than 0 and at most 100".to_owned())
}

fn percent(text: &str) -> Option<f64> {
    text.trim_end_matches('%').trim().parse().ok()
}
