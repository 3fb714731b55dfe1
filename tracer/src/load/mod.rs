//! The load: which server, which workload, and the threads that run it.
//!
//! [`LoadPlan`] → [`ConnectedLoad`] (backends and threads are known, nothing runs) →
//! [`RunningLoad`] (one record a transaction) → [`LoadOutcome`].

mod connect;
pub mod cpus;
mod ending;
mod engine;
mod histogram;
pub mod init;
pub mod log;
pub mod measure;
mod plan;
mod running;
pub mod script;
pub mod server;
pub mod tally;
mod usage;
pub mod workload;

pub use connect::*;
pub use ending::Patience;
pub use engine::{
    AbortReason, AbortedClient, CommandSum, CommandSums, CompileError, FailureRules, Io, Outcome,
    ServerError, SqlState, TransactionRecord,
};
pub use plan::{LoadError, LoadPlan, Timing, deal};
pub use running::{ConnectedLoad, LoadOutcome, RunningLoad};
pub use usage::{Usage, Used, cpu_per_transaction_ns};
