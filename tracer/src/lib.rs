//! lockscope: where in the kernel each Postgres transaction's time went.
//!
//! Data flows one way: hooks → collector → ledger → analysis → [`model::Run`] → reports.

pub mod cli;
pub mod commands;
pub mod load;
pub mod model;
pub mod signals;
