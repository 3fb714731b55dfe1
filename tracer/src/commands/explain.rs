//! `lockscope explain`: what saved runs say, in sentences, and which known regression that looks like.

use std::path::PathBuf;

use super::Exit;
use super::compare::load;
use super::output::{OutputError, ResultOutput};
use crate::analyse::compare::{CompareError, Options};
use crate::analyse::explain::{
    Signature, SignatureError, catalogue, explain_change, explain_run, only,
};
use crate::cli::ExplainArgs;
use crate::model::{Explanation, FileError};
use crate::report::{json, text};

/// Runs that could not be explained.
#[derive(Debug, thiserror::Error)]
pub enum ExplainCommandError {
    /// More than two runs, and nothing says which are new.
    #[error(
        "{0} runs, and which are new? give one run, or the base's and the new one, or several a side with the new ones behind --: `lockscope explain base*.lockscope -- new*.lockscope`"
    )]
    Sides(usize),
    /// An option that is given several times and takes one value.
    #[error("{option} is given {count} times and takes one value: {}", match *option {
        "--signatures" => "put the files into one directory",
        _ => "give the one to try, or leave it away to try all",
    })]
    Repeated {
        /// Which.
        option: &'static str,
        /// How often.
        count: usize,
    },
    /// A file that is no run.
    #[error(transparent)]
    File(#[from] FileError),
    /// Runs that cannot be compared, or read as today's.
    #[error(transparent)]
    Compare(#[from] CompareError),
    /// A signature that is none.
    #[error(transparent)]
    Signature(#[from] SignatureError),
    /// The report cannot be written.
    #[error(transparent)]
    Output(#[from] OutputError),
}

/// Explains and reports.
///
/// # Errors
/// Files that are no runs or cannot be written, sides that cannot be told apart, bad signatures.
pub fn run(args: &ExplainArgs) -> Result<Exit, ExplainCommandError> {
    let (directory, id) =
        (only_one("--signatures", &args.signatures)?, only_one("--signature", &args.signature)?);
    let output = ResultOutput::create(&args.result, args.runs.iter().chain(&args.new))?;
    let mut signatures = catalogue(directory.map(PathBuf::as_path))?;
    if let Some(id) = id {
        signatures = only(signatures, id)?;
    }
    let explanation = explain(args, &signatures)?;
    let json = json::render_explanation(&explanation);
    output.write(&json, |options| text::render_explanation(&explanation, id.is_some(), options))?;
    Ok(Exit::Done)
}

/// Of other options the last one counts; here what came before it would be left out without a word.
fn only_one<'a, T>(
    option: &'static str,
    given: &'a [T],
) -> Result<Option<&'a T>, ExplainCommandError> {
    match given {
        [] => Ok(None),
        [only] => Ok(Some(only)),
        several => Err(ExplainCommandError::Repeated { option, count: several.len() }),
    }
}

fn explain(
    args: &ExplainArgs,
    signatures: &[Signature],
) -> Result<Explanation, ExplainCommandError> {
    let (base, new) = match (args.runs.as_slice(), args.new.as_slice()) {
        ([run], []) => {
            return Ok(explain_run(&load(std::slice::from_ref(run))?, signatures)?);
        }
        ([base, new], []) => (std::slice::from_ref(base), std::slice::from_ref(new)),
        (runs, []) => return Err(ExplainCommandError::Sides(runs.len())),
        sides => sides,
    };
    let (base, new) = rayon::join(|| load(base), || load(new));
    Ok(explain_change(&base?, &new?, signatures, &Options::from(&args.evidence))?)
}
