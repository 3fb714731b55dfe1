//! `lockscope compare`: saved runs of two sides, what differs between them, and where it comes from.

use std::path::PathBuf;

use rayon::prelude::*;

use super::Exit;
use super::output::{OutputError, ResultOutput, say};
use crate::analyse::compare::{CompareError, Options, Side, compare};
use crate::cli::CompareArgs;
use crate::model::{self, Comparison, FileError};
use crate::report::{json, text};

/// A comparison that could not be made.
#[derive(Debug, thiserror::Error)]
pub enum CompareCommandError {
    /// More or fewer than two runs, and nothing says which are new.
    #[error(
        "{0}: give the base's run and the new one, or several a side with the new ones behind --: `lockscope compare base*.lockscope -- new*.lockscope`"
    )]
    Sides(String),
    /// A file that is no run.
    #[error(transparent)]
    File(#[from] FileError),
    /// Runs that cannot be compared.
    #[error(transparent)]
    Compare(#[from] CompareError),
    /// The report cannot be written.
    #[error(transparent)]
    Output(#[from] OutputError),
}

/// Compares and reports.
///
/// With conditions, what is wrong with the runs is no wrong use: it cannot be judged.
pub fn run(args: &CompareArgs) -> Result<Exit, CompareCommandError> {
    match perform(args) {
        Err(error) if !args.judge.fail_if.is_empty() && is_about_the_runs(&error) => {
            say(&format!("lockscope: cannot judge: {error}"));
            Ok(Exit::CannotJudge)
        }
        result => result,
    }
}

fn is_about_the_runs(error: &CompareCommandError) -> bool {
    match error {
        CompareCommandError::File(_) => true,
        CompareCommandError::Compare(error) => {
            !matches!(error, CompareError::Condition(_) | CompareError::Unpaired { .. })
        }
        CompareCommandError::Sides(_) | CompareCommandError::Output(_) => false,
    }
}

fn perform(args: &CompareArgs) -> Result<Exit, CompareCommandError> {
    let (base, new) = sides(args)?;
    let output = ResultOutput::create(&args.result, args.runs.iter().chain(&args.new))?;
    let (base, new) = rayon::join(|| load(&base), || load(&new));
    let comparison = compare(&base?, &new?, &Options::from(args))?;
    let json = json::render_comparison(&comparison);
    output.write(&json, |options| text::render_comparison(&comparison, options))?;
    Ok(exit_of(&comparison))
}

/// Which files are whose.
fn sides(args: &CompareArgs) -> Result<(Vec<PathBuf>, Vec<PathBuf>), CompareCommandError> {
    match (args.runs.as_slice(), args.new.as_slice()) {
        ([_], [_]) | ([_, _], []) if args.paired => Err(CompareCommandError::Sides(
            "--paired compares rounds, and one pair tells nothing of how much they differ"
                .to_owned(),
        )),
        ([base, new], []) => Ok((vec![base.clone()], vec![new.clone()])),
        ([_], []) => Err(CompareCommandError::Sides(
            "a single run has nothing to be compared with".to_owned(),
        )),
        (runs, []) => {
            Err(CompareCommandError::Sides(format!("{} runs, and which are new?", runs.len())))
        }
        (base, new) => Ok((base.to_vec(), new.to_vec())),
    }
}

/// A side's runs.
pub(super) fn load(files: &[PathBuf]) -> Result<Side, FileError> {
    let runs = files.par_iter().map(|file| model::load(file)).collect::<Result<Vec<_>, _>>()?;
    Ok(Side { files: files.iter().map(|file| file.display().to_string()).collect(), runs })
}

/// A condition that holds fails; one that cannot be judged skips.
pub(super) fn exit_of(comparison: &Comparison) -> Exit {
    let holds = |wanted| comparison.conditions.iter().any(|condition| condition.holds == wanted);
    match (holds(Some(true)), holds(None)) {
        (true, _) => Exit::ConditionHolds,
        (false, true) => Exit::CannotJudge,
        (false, false) => Exit::Done,
    }
}
