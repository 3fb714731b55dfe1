//! What the running kernel is and offers.

mod attempt;
pub mod btf;
pub mod config;
pub mod environment;
pub mod features;
pub mod layout;
pub mod percpu;
mod running;
pub mod scheduling;
pub mod spinlocks;
pub mod symbols;
pub mod task;
pub mod tracefs;

pub use btf::Btf;
pub use features::Features;
pub use running::{Running, running};
