//! lockscope: where in the kernel each Postgres transaction's time went.
//!
//! Data flows one way: hooks → collector → ledger → analysis → [`model::Run`] → reports.

pub mod analyse;
pub mod attach;
pub mod cli;
pub mod clock;
pub mod collect;
pub mod commands;
pub mod counters;
pub mod filter;
pub mod kernel;
pub mod ledger;
pub mod load;
pub mod model;
pub mod probe;
pub mod profile;
pub mod report;
pub mod session;
pub mod signals;
pub mod symbolize;
