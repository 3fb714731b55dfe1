//! The hot loop: scripts, requests, replies, clients and the workers that drive them.

mod client;
mod frames;
mod record;
mod script;
mod template;
mod worker;

pub use client::{AbortReason, ServerError};
pub use record::{Outcome, TransactionRecord};
pub(crate) use record::{RecordReader, record_channel};
pub(crate) use script::Script;
pub use worker::AbortedClient;
pub(crate) use worker::{ClientPlan, Shared, Worker, WorkerReport};
