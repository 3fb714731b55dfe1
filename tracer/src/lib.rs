//! lockscope: where in the kernel each Postgres transaction's time went.
//!
//! Data flows one way: hooks → collector → ledger → analysis → [`model::Run`] → reports.

pub mod attach;
pub mod commands;
pub mod kernel;
pub mod model;
pub mod probe;
pub mod symbolize;
