//! Names for kernel addresses, after the run: functions of a stack, the caller of a lock, the
//! lock itself.

mod caches;
mod caller;
mod kernel;
mod lock_name;
mod objects;
mod user;
mod user_debug;
mod user_jit;

pub use caller::is_lock_internal;
pub use kernel::{KernelNames, KernelSymbolizer, Symbol};
pub use lock_name::{FoundBy, LockName, LockNamer, names_by_caller};
pub use objects::KernelObjects;
pub use user::{NoName, UserSymbolizer};
