//! The best name for a contended lock.

use std::collections::HashMap;
use std::fmt;

use lockscope_ebpf::LockClass;

use super::caller::source_name;
use super::objects::{KernelObjects, Place};
use crate::kernel::btf::LockShape;
use crate::kernel::symbols::DataSymbols;

#[path = "lock_callers.rs"]
mod callers;

/// The names that locks have by their caller alone.
pub fn names_by_caller() -> impl Iterator<Item = &'static str> {
    callers::names()
}

/// How a lock's name was found, best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FoundBy {
    /// Its address is that of a CPU's run-queue lock.
    Rq,
    /// Its address is, or lies in, a global variable.
    Symbol,
    /// It lies in a per-CPU variable.
    PerCpu,
    /// It lies in a memory node's `pglist_data`.
    Node,
    /// It lies in an object that its first waiter points to.
    Task,
    /// It lies in an object of a slab cache that holds one type only.
    Slab,
    /// From the function that wanted it: likely, not proven.
    Caller,
    /// Nothing but the address is known.
    Address,
}

impl FoundBy {
    /// The word in the JSON's `found_by`.
    pub fn name(self) -> &'static str {
        match self {
            FoundBy::Rq => "rq",
            FoundBy::Symbol => "symbol",
            FoundBy::PerCpu => "per_cpu",
            FoundBy::Node => "node",
            FoundBy::Task => "task",
            FoundBy::Slab => "slab",
            FoundBy::Caller => "caller",
            FoundBy::Address => "address",
        }
    }
}

impl fmt::Display for FoundBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A lock's name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockName {
    /// `tasklist_lock`, `rq[3].lock`, `mm_struct.mmap_lock`, `(__schedule)`, `0xffff…`.
    pub name: String,
    /// How it was found.
    pub found_by: FoundBy,
    /// What it was found in: a type, a cache, a variable.
    pub found_in: Option<String>,
    /// Where the lock itself starts, if that is known: `osq_lock` tells an address inside it.
    pub start: Option<u64>,
}

impl LockName {
    fn new(name: impl Into<String>, found_by: FoundBy) -> Self {
        LockName { name: name.into(), found_by, found_in: None, start: None }
    }
}

/// Names locks by what is known of the kernel's memory and code.
#[derive(Default)]
pub struct LockNamer {
    variables: DataSymbols,
    run_queues: HashMap<u64, u32>,
    objects: KernelObjects,
}

impl LockNamer {
    /// `run_queue_locks` are pairs of a lock's address and its CPU. `variables` may be empty.
    pub fn new(
        variables: DataSymbols,
        run_queue_locks: impl IntoIterator<Item = (u64, u32)>,
        objects: KernelObjects,
    ) -> Self {
        LockNamer { variables, run_queues: run_queue_locks.into_iter().collect(), objects }
    }

    /// The best name. `address` is 0 where the hook did not tell it; `caller` is the first
    /// function above the lock's own code.
    pub fn name(&self, class: LockClass, address: u64, caller: Option<&str>) -> LockName {
        if let Some(cpu) = self.run_queues.get(&address) {
            return LockName {
                start: Some(address),
                ..LockName::new(format!("rq[{cpu}].lock"), FoundBy::Rq)
            };
        }
        if let Some(name) = self.variable(class, address) {
            return name;
        }
        if let Some(found) = self.objects.find(class, address) {
            let found_by = match found.place {
                Place::PerCpu => FoundBy::PerCpu,
                Place::Node => FoundBy::Node,
                Place::Task => FoundBy::Task,
                Place::Slab => FoundBy::Slab,
            };
            return LockName {
                found_in: Some(found.inside),
                start: Some(found.start),
                ..LockName::new(found.name, found_by)
            };
        }
        match (caller, address) {
            (Some(caller), _) => match callers::lock_of(class, source_name(caller)) {
                Some(lock) => LockName::new(lock, FoundBy::Caller),
                None => LockName::new(format!("({caller})"), FoundBy::Caller),
            },
            (None, 0) => LockName::new("unknown", FoundBy::Address),
            (None, _) => LockName::new(format!("{address:#x}"), FoundBy::Address),
        }
    }

    fn variable(&self, class: LockClass, address: u64) -> Option<LockName> {
        let (name, offset) = self.variables.containing(address)?;
        let start = address - offset;
        let whole = |name| LockName { start: Some(start), ..LockName::new(name, FoundBy::Symbol) };
        // A part of a global lock goes by the lock's name.
        if offset == 0 || (class == LockClass::Osq && offset < 64) {
            return Some(whole(name.to_owned()));
        }
        let object = objects_type(name).zip(u32::try_from(offset).ok()).zip(self.objects.btf());
        let field = object
            .and_then(|((object, offset), btf)| btf.lock_at(object, offset, LockShape::of(class)));
        Some(match field {
            Some(field) => LockName {
                found_in: Some(name.to_owned()),
                start: Some(start + u64::from(field.offset)),
                ..LockName::new(format!("{} ({name})", field.path), FoundBy::Symbol)
            },
            None => whole(format!("{name}+{offset:#x}")),
        })
    }

    /// Where the lock may start whose osq is at this address, when nothing else tells.
    pub fn osq_owners(&self, address: u64) -> Vec<u64> {
        let offsets = ["rw_semaphore.osq", "mutex.osq"];
        let btf = self.objects.btf().into_iter();
        btf.flat_map(|btf| offsets.iter().filter_map(|path| btf.offset(path).ok()))
            .map(|offset| address.wrapping_sub(u64::from(offset)))
            .collect()
    }
}

/// Global variables that are objects with locks inside.
fn objects_type(variable: &str) -> Option<&'static str> {
    Some(match variable {
        "contig_page_data" => "pglist_data",
        "init_files" => "files_struct",
        "init_fs" => "fs_struct",
        "init_mm" => "mm_struct",
        "init_sighand" => "sighand_struct",
        "init_signals" => "signal_struct",
        "init_task" => "task_struct",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn namer() -> LockNamer {
        let listing = "0000000000001000 A runqueues\nffffffff82000000 D tasklist_lock\nffffffff82000040 d futex_queues\n\
                       ffffffff82000080 b last\n";
        let variables = DataSymbols::from_listing(listing.as_bytes()).unwrap();
        LockNamer::new(variables, [(0xffff_8880_7b42_ba80, 3)], KernelObjects::default())
    }

    fn named(class: LockClass, address: u64, caller: Option<&str>) -> (String, &'static str) {
        let LockName { name, found_by, .. } = namer().name(class, address, caller);
        (name, found_by.name())
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
