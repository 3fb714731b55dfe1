//! Finding the processes behind a connection: the postmaster and its children.

pub mod peers;
pub mod processes;
pub mod role;
pub mod server;
pub mod servers;
pub mod symbols;
mod unix_peers;

pub use peers::client_processes;
pub use processes::{ServerProcess, children, translate_pid};
pub use server::{ConnectionFacts, Located, ServerAddress, find_postmaster};
pub use symbols::{SymbolError, wait_event_address};
