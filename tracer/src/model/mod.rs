//! `Run`: what one measurement found. Reports read nothing else.
//!
//! Numbers are nanoseconds or counts, as the names say. An absent value was not measured; it is
//! never written as 0. The JSON names are fixed by `docs/run.schema.json`.

mod attach;
mod comparison;
mod counters;
mod environment;
mod explanation;
mod file;
mod ledger;
mod load;
mod measurement;
mod off_cpu;
mod profile;
mod removal;
mod run;
mod sweep;
mod trace;
mod verdict;
mod view;

pub use attach::*;
pub use comparison::*;
pub use counters::*;
pub use environment::*;
pub use explanation::*;
pub use file::{FileError, check_save_path, load, save, to_json};
pub use ledger::*;
pub use load::*;
pub use measurement::*;
pub use off_cpu::*;
pub use profile::*;
pub use removal::*;
pub use run::*;
pub use sweep::*;
pub use trace::*;
pub use verdict::*;
pub use view::*;

/// Version of the saved form; raised when a name changes its meaning or goes away.
pub const SCHEMA_VERSION: u32 = 1;
