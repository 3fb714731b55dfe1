//! What gives every run the same start.

use std::process::Command;
use std::sync::Arc;

use crate::cli::{Reset, RunArgs};
use crate::load::server::{Control, ControlError};
use crate::load::{Target, TargetError};
use crate::signals::Interrupt;

/// A start that could not be prepared.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// A command failed.
    #[error("the command `{command}` failed: {reason}")]
    Command {
        /// Which.
        command: String,
        /// How it ended.
        reason: String,
    },
    /// A checkpoint of a server that does not exist yet.
    #[error(
        "--reset checkpoint is for a server that runs already (--dsn, -h): a throw-away server begins anew with each run anyway"
    )]
    NoServer,
    /// The address of the server.
    #[error(transparent)]
    Target(#[from] TargetError),
    /// The server.
    #[error(transparent)]
    Control(#[from] ControlError),
}

/// Does it now, or has the run do it.
pub(super) fn prepare_start(
    reset: &Reset,
    run: &mut RunArgs,
    interrupt: &Interrupt,
) -> Result<(), StartError> {
    match reset {
        Reset::Vacuum => run.job.tables.vacuum_all = true,
        Reset::Init => run.job.tables.force_init = true,
        Reset::Command(command) => shell(command)?,
        Reset::Checkpoint => {
            let options = run.job.server.options();
            if !options.names_a_server() {
                return Err(StartError::NoServer);
            }
            let target = Arc::new(Target::resolve(&options)?);
            Control::connect(&target, interrupt)?.checkpoint()?;
        }
    }
    Ok(())
}

/// Its standard output goes to standard error: standard output is the report's.
pub(super) fn shell(command: &str) -> Result<(), StartError> {
    let failed = |reason: String| StartError::Command { command: command.to_owned(), reason };
    let status = Command::new("sh")
        .args(["-c", command])
        .stdout(std::io::stderr())
        .status()
        .map_err(|error| failed(error.to_string()))?;
    if status.success() { Ok(()) } else { Err(failed(status.to_string())) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_that_fails_is_quoted_with_its_end() {
        shell("true").unwrap();
        let message = shell("exit 3").unwrap_err().to_string();
        assert!(message.contains("`exit 3`") && message.contains("3"), "{message}");
    }
}
