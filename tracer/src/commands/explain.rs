//! `lockscope explain`: what saved runs say, in sentences, and which known regression that looks like.

use super::Exit;
use super::compare::load;
use super::output::{OutputError, OutputFile, print_report};
use crate::analyse::compare::{CompareError, Options};
use crate::analyse::explain::{SignatureError, catalogue, explain_change, explain_run, only};
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
    let inputs = || args.runs.iter().chain(&args.new);
    let output = args.output.as_deref();
    let output = output.map(|path| OutputFile::create_beside(path, inputs())).transpose()?;
    let explanation = explain(args)?;
    let json = json::render_explanation(&explanation);
    print_report(&match args.json {
        true => json.clone(),
        false => {
            let all = args.signature.is_some();
            text::render_explanation(&explanation, all, &args.layout.text_options())
        }
    })?;
    if let Some(output) = output {
        output.save(json.as_bytes())?;
    }
    Ok(Exit::Done)
}

fn explain(args: &ExplainArgs) -> Result<Explanation, ExplainCommandError> {
    let mut signatures = catalogue(args.signatures.as_deref())?;
    if let Some(id) = &args.signature {
        signatures = only(signatures, id)?;
    }
    let (base, new) = match (args.runs.as_slice(), args.new.as_slice()) {
        ([run], []) => {
            return Ok(explain_run(&load(std::slice::from_ref(run))?, &signatures)?);
        }
        ([base, new], []) => (std::slice::from_ref(base), std::slice::from_ref(new)),
        (runs, []) => return Err(ExplainCommandError::Sides(runs.len())),
        sides => sides,
    };
    let (base, new) = rayon::join(|| load(base), || load(new));
    Ok(explain_change(&base?, &new?, &signatures, &Options::from(&args.evidence))?)
}
