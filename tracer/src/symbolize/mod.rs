//! Names for kernel addresses, after the run: functions of a stack, the caller of a lock, the
//! lock itself.

mod caches;
mod caller;
mod kernel;
mod lock_name;
mod objects;

pub use caller::is_lock_internal;
pub use kernel::{KernelSymbolizer, Symbol};
pub use lock_name::{FoundBy, LockName, LockNamer, names_by_caller};
pub use objects::KernelObjects;
