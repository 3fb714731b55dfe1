//! Servers and clients that others run: finding their processes, starting a client, reading its words.

pub mod benchmarks;
pub mod command;
pub mod follow;
mod invoker;
pub mod peers;
pub mod processes;
pub mod pump;
pub mod relay;
pub mod role;
pub mod server;
pub mod servers;
pub mod status;
pub mod symbols;
mod unix_peers;
pub mod words;

pub use peers::client_processes;
pub use processes::ProcessTable;
pub use server::{ConnectionFacts, Located, ServerAddress, find_postmaster};
pub use status::{IDLE_STATES, encrypted_status};
pub use symbols::{Addresses, SymbolError, addresses};
