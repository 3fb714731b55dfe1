//! What the programs counted, read out: snapshots, samples, losses.

pub(crate) mod bpf;
mod samples;
mod snapshot;

pub use samples::{LockSamples, Samples, StackId, Weight};
pub use snapshot::{Locks, Machine, Snapshot, add_waits, possible_cpus};
