//! `lockscope load`: the load alone.

use super::Exit;
use super::report::TasksArgs;
use super::run::{RunError, perform};
use crate::cli::LoadCommand;

/// Runs the load and reports.
pub fn load(args: &LoadCommand) -> Result<Exit, RunError> {
    perform(&args.job, None, TasksArgs::default())
}
