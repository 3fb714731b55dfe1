//! Finding the processes behind a connection: the postmaster and its children.

pub mod peers;
pub mod processes;
pub mod role;
pub mod server;
pub mod servers;
pub mod status;
pub mod symbols;
mod unix_peers;

pub use peers::client_processes;
pub use processes::{ServerProcess, children, own_pid, translate_pid};
pub use server::{ConnectionFacts, Located, ServerAddress, find_postmaster};
pub use status::{IDLE_STATES, encrypted_status};
pub use symbols::{Addresses, SymbolError, addresses};
