//! What the programs counted, read out: snapshots, samples, losses.

pub(crate) mod bpf;
mod identities;
mod samples;
mod snapshot;

pub use identities::{Identities, add_holds};
pub use samples::{LockSamples, Samples, StackId, Weight};
pub(crate) use snapshot::last_cpu;
pub use snapshot::{Locks, Machine, Snapshot, add_waits, possible_cpus};
