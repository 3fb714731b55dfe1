//! The time accounts: from snapshots and slices to nanoseconds per transaction.

mod accounts;
mod balance;
mod bands;
mod percentiles;
mod plug;
mod slices;
mod states;
mod sums;

pub use accounts::{Accounts, TaskKey, TaskRecord};
pub use balance::balance;
pub use bands::{Transactions, bands};
pub use percentiles::Latencies;
pub use plug::{PlugProbes, plug};
pub use slices::{Slice, SliceLoad, SlicePair, Slices};
pub use states::States;
pub use sums::{Group, Sums};
