//! The commands: one module each, on the library's parts.

pub mod ab;
pub mod attach;
pub mod compare;
pub mod doctor;
pub mod explain;
mod findings;
pub mod init;
pub mod load;
mod output;
mod possible;
mod progress;
pub mod report;
pub mod run;
mod standard_output;
pub mod sweep;
pub mod vm;
pub mod workloads;

use std::process::ExitCode;

pub use output::{print_report, say};

use crate::cli::{Cli, Command};

/// How a command ended; the numbers are part of the command line's contract.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// All went well.
    Done,
    /// The run is reported, but some clients gave up.
    ClientsAborted,
    /// Wrong usage, or it could not run; the message was printed already.
    Failed,
    /// A condition of `--fail-if` holds.
    ConditionHolds,
    /// Whether one holds cannot be judged: what `git bisect run` skips.
    CannotJudge,
    /// What another command ended with: one that was traced, or that a guest ran.
    Command(u8),
    /// lockscope failed where its exit code would be a command's.
    CommandNotTraced,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(match exit {
            Exit::Done => 0,
            Exit::Failed => 2,
            Exit::ClientsAborted => 3,
            Exit::ConditionHolds => 1,
            Exit::CannotJudge => 125,
            Exit::Command(code) => code,
            Exit::CommandNotTraced => 125,
        })
    }
}

/// A command that could not do its work.
#[derive(Debug, thiserror::Error)]
pub enum CommandError {
    /// `lockscope run` and `lockscope load`.
    #[error(transparent)]
    Run(Box<run::RunError>),
    /// `lockscope attach`.
    #[error(transparent)]
    Attach(#[from] attach::AttachError),
    /// `lockscope init`.
    #[error(transparent)]
    Init(#[from] init::InitCommandError),
    /// `lockscope doctor`.
    #[error(transparent)]
    Doctor(#[from] doctor::DoctorError),
    /// `lockscope report`.
    #[error(transparent)]
    Report(#[from] report::ReportError),
    /// `lockscope sweep`.
    #[error(transparent)]
    Sweep(Box<sweep::SweepError>),
    /// `lockscope ab`.
    #[error(transparent)]
    Ab(Box<ab::AbError>),
    /// `lockscope compare`.
    #[error(transparent)]
    Compare(#[from] compare::CompareCommandError),
    /// `lockscope explain`.
    #[error(transparent)]
    Explain(#[from] explain::ExplainCommandError),
    /// `lockscope vm`.
    #[error(transparent)]
    Vm(#[from] vm::VmCommandError),
    /// The report could not be printed.
    #[error(transparent)]
    Output(#[from] output::OutputError),
}

/// Runs the command that `cli` names.
pub fn dispatch(cli: &Cli) -> Result<Exit, CommandError> {
    match &cli.command {
        Command::Run(args) => run::run(args).map_err(|error| CommandError::Run(Box::new(error))),
        Command::Load(args) => load::load(args).map_err(|error| CommandError::Run(Box::new(error))),
        Command::Attach(args) => Ok(attach::attach(args)?),
        Command::Init(args) => Ok(init::run(args)?),
        Command::Workloads(args) => {
            print_report(&workloads::run(args))?;
            Ok(Exit::Done)
        }
        Command::Doctor(args) => {
            let (text, exit) = doctor::doctor(args)?;
            print_report(&text)?;
            Ok(exit)
        }
        Command::Sweep(args) => {
            sweep::run(args).map_err(|error| CommandError::Sweep(Box::new(error)))
        }
        Command::Ab(args) => ab::run(args).map_err(|error| CommandError::Ab(Box::new(error))),
        Command::Compare(args) => Ok(compare::run(args)?),
        Command::Explain(args) => Ok(explain::run(args)?),
        Command::Vm(args) => Ok(vm::run(args)?),
        Command::Report(args) => {
            print_report(&report::run(args)?)?;
            Ok(Exit::Done)
        }
    }
}
