//! The best name for a contended lock.

use std::collections::HashMap;
use std::fmt;

use lockscope_ebpf::LockClass;

use super::caller::source_name;
use crate::kernel::symbols::DataSymbols;

#[path = "lock_callers.rs"]
mod callers;

/// How a lock's name was found, best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NameSource {
    /// Its address is, or lies in, a global variable.
    Symbol,
    /// Its address is that of a CPU's run-queue lock.
    Rq,
    /// From the function that wanted it: likely, not proven.
    Caller,
    /// Nothing but the address is known.
    Address,
}

impl NameSource {
    /// The word in the JSON's `name_source`.
    pub fn name(self) -> &'static str {
        match self {
            NameSource::Symbol => "symbol",
            NameSource::Rq => "rq",
            NameSource::Caller => "caller",
            NameSource::Address => "address",
        }
    }
}

impl fmt::Display for NameSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A lock's name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockName {
    /// `tasklist_lock`, `rq[3].lock`, `pipe_inode_info.mutex`, `(__schedule)`, `0xffff…`.
    pub name: String,
    /// How it was found.
    pub source: NameSource,
}

impl LockName {
    fn new(name: impl Into<String>, source: NameSource) -> Self {
        LockName { name: name.into(), source }
    }
}

/// Names locks by what is known of the kernel's memory and code.
#[derive(Clone, Debug, Default)]
pub struct LockNamer {
    variables: DataSymbols,
    run_queues: HashMap<u64, u32>,
}

impl LockNamer {
    /// `run_queue_locks` are pairs of a lock's address and its CPU. `variables` may be empty.
    pub fn new(
        variables: DataSymbols,
        run_queue_locks: impl IntoIterator<Item = (u64, u32)>,
    ) -> Self {
        LockNamer { variables, run_queues: run_queue_locks.into_iter().collect() }
    }

    /// The best name. `address` is 0 where the hook did not tell it; `caller` is the first
    /// function above the lock's own code.
    pub fn name(&self, class: LockClass, address: u64, caller: Option<&str>) -> LockName {
        if let Some(cpu) = self.run_queues.get(&address) {
            return LockName::new(format!("rq[{cpu}].lock"), NameSource::Rq);
        }
        match self.variables.containing(address) {
            Some((name, 0)) => return LockName::new(name, NameSource::Symbol),
            Some((name, offset)) => {
                return LockName::new(format!("{name}+{offset:#x}"), NameSource::Symbol);
            }
            None => {}
        }
        match (caller, address) {
            (Some(caller), _) => match callers::lock_of(class, source_name(caller)) {
                Some(lock) => LockName::new(lock, NameSource::Caller),
                None => LockName::new(format!("({caller})"), NameSource::Caller),
            },
            (None, 0) => LockName::new("unknown", NameSource::Address),
            (None, _) => LockName::new(format!("{address:#x}"), NameSource::Address),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn namer() -> LockNamer {
        let listing = "0000000000001000 A runqueues\nffffffff82000000 D tasklist_lock\nffffffff82000040 d futex_queues\n\
                       ffffffff82000080 b last\n";
        let variables = DataSymbols::from_listing(listing.as_bytes()).unwrap();
        LockNamer::new(variables, [(0xffff_8880_7b42_ba80, 3)])
    }

    fn named(class: LockClass, address: u64, caller: Option<&str>) -> (String, &'static str) {
        let LockName { name, source } = namer().name(class, address, caller);
        (name, source.name())
    }

    #[test]
    fn an_address_beats_a_caller() {
        let rq = named(LockClass::Rq, 0xffff_8880_7b42_ba80, Some("__schedule"));
        assert_eq!(rq, ("rq[3].lock".into(), "rq"));
        let global = named(LockClass::Rwlock, 0xffff_ffff_8200_0000, Some("do_wait"));
        assert_eq!(global, ("tasklist_lock".into(), "symbol"));
        let inside = named(LockClass::Qspinlock, 0xffff_ffff_8200_0050, None);
        assert_eq!(inside, ("futex_queues+0x10".into(), "symbol"));
    }

    #[test]
    fn a_caller_tells_the_lock_or_stands_for_it() {
        let pipe = named(LockClass::Mutex, 0xffff_8880_0000_1000, Some("pipe_write"));
        assert_eq!(pipe, ("pipe_inode_info.mutex".into(), "caller"));
        let suffixed = named(LockClass::Osq, 0, Some("pipe_write.isra.0"));
        assert_eq!(suffixed, pipe);
        // The same caller with another kind of lock is not that lock.
        let other = named(LockClass::Qspinlock, 0xffff_8880_0000_1000, Some("pipe_write"));
        assert_eq!(other, ("(pipe_write)".into(), "caller"));
        // A spinlock under __schedule need not be the run queue's.
        let schedule = named(LockClass::Qspinlock, 0xffff_8880_0000_1000, Some("__schedule"));
        assert_eq!(schedule.0, "(__schedule)");
    }

    #[test]
    fn an_address_alone_is_shown_as_such() {
        let bare = named(LockClass::Qspinlock, 0xffff_8880_0000_1000, None);
        assert_eq!(bare, ("0xffff888000001000".into(), "address"));
        assert_eq!(named(LockClass::Osq, 0, None), ("unknown".into(), "address"));
    }
}
