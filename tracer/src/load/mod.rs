//! The load: which server, which workload, and the threads that run it.
//!
//! [`LoadPlan`] → [`ConnectedLoad`] (backends and threads are known, nothing runs) →
//! [`RunningLoad`] (one record a transaction) → [`LoadOutcome`].

mod connect;
pub mod cpus;
mod engine;
pub mod init;
pub mod measure;
mod running;
pub mod script;
pub mod server;
pub mod workload;

pub use connect::*;
pub use engine::{
    AbortReason, AbortedClient, CompileError, FailureRules, Outcome, ServerError, SqlState,
    TransactionRecord,
};
pub use running::{ConnectedLoad, LoadError, LoadOutcome, LoadPlan, RunningLoad};
