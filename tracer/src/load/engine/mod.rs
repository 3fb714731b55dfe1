//! The hot loop: scripts, requests, replies, clients and the workers that drive them.

mod abort;
mod client;
mod frames;
mod record;
mod reply;
mod script;
mod shell;
mod template;
mod worker;

pub use abort::{AbortReason, ServerError};
pub use record::{Outcome, SqlState, TransactionRecord};
pub(crate) use record::{RecordReader, record_channel};
pub(crate) use script::Scripts;
pub use script::{CompileError, FailureRules};
pub use worker::AbortedClient;
pub(crate) use worker::{ClientPlan, Shared, Worker, WorkerReport};
