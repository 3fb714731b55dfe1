//! The hot loop: scripts, requests, replies, clients and the workers that drive them.

mod abort;
mod client;
mod commands;
mod crew;
mod driver;
mod frames;
mod pace;
mod record;
mod reply;
mod script;
mod shared;
mod shell;
mod template;
mod watch;
mod worker;

pub use abort::{AbortReason, ServerError};
pub use commands::{CommandSum, CommandSums};
pub use crew::AbortedClient;
pub(crate) use crew::{Leftover, Rules};
pub use driver::Io;
pub use record::{Outcome, SqlState, TransactionRecord};
pub(crate) use record::{RecordReader, record_channel};
pub(crate) use script::Scripts;
pub use script::{CompileError, FailureRules};
pub(crate) use shared::Shared;
pub(crate) use worker::{ClientPlan, Worker, WorkerReport};
