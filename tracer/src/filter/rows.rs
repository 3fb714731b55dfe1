//! Which locks are shown: by name and by the function that wanted them.

use std::io;

use super::FilterError;
use super::near::did_you_mean;
use crate::kernel::{Btf, symbols};
use crate::model::Lock;
use crate::symbolize::names_by_caller;

/// What a row of the lock table must be.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RowFilter {
    locks: Vec<String>,
    callers: Vec<String>,
}

impl RowFilter {
    pub(super) fn find(locks: &[String], callers: &[String]) -> Result<RowFilter, FilterError> {
        if !callers.is_empty() {
            check_functions(callers)?;
        }
        if !locks.is_empty() {
            check_locks(locks)?;
        }
        Ok(RowFilter { locks: locks.to_vec(), callers: callers.to_vec() })
    }

    /// Whether a lock is to be shown. `inode.i_rwsem` also names `inode.i_rwsem (ext4)`, and
    /// `rq.lock` every CPU's.
    pub fn passes(&self, lock: &Lock) -> bool {
        let named = |wanted: &String| is_named(&lock.name, wanted);
        let called = |wanted: &String| {
            lock.caller.as_deref().is_some_and(|caller| function(caller) == wanted)
        };
        (self.locks.is_empty() || self.locks.iter().any(named))
            && (self.callers.is_empty() || self.callers.iter().any(called))
    }

    /// Why no row may have passed: the names that were seen and are near.
    pub fn near_misses(&self, seen: &[Lock]) -> Option<String> {
        let wanted = self.locks.first()?;
        Some(did_you_mean(wanted, seen.iter().map(|lock| lock.name.as_str())))
    }
}

fn is_named(name: &str, wanted: &str) -> bool {
    let plain = name.split(" (").next().unwrap_or(name);
    let any_cpu = match (plain.split_once('['), plain.split_once(']')) {
        (Some((before, _)), Some((_, after))) => format!("{before}{after}"),
        _ => plain.to_owned(),
    };
    [name, plain, &any_cpu, name.trim_matches(['(', ')'])].contains(&wanted)
}

/// Without the offset: `pipe_write+0x5c`.
fn function(caller: &str) -> &str {
    caller.split('+').next().unwrap_or(caller)
}

/// Refuses names that no lock of this kernel can have. What lies in a module's structure, and what
/// this kernel tells nothing of, passes.
fn check_locks(locks: &[String]) -> Result<(), FilterError> {
    let btf = Btf::of_running_kernel().ok();
    let symbols = symbols::list(locks)?.found;
    let mut functions = None;
    for wanted in locks {
        let plain = wanted.split(" (").next().unwrap_or(wanted);
        let is_member = || match (btf.as_ref(), plain.split_once('.')) {
            (Some(btf), Some((structure, _))) => {
                btf.struct_id(structure).is_none() || btf.offset(plain).is_ok()
            }
            (None, Some(_)) => true,
            (_, None) => false,
        };
        let is_known = plain == "rq.lock"
            || plain.starts_with("rq[")
            || names_by_caller().any(|name| name == wanted || name == plain)
            || symbols.contains_key(wanted)
            || is_member();
        if is_known {
            continue;
        }
        // A lock that is known by nothing else goes by the function that wanted it.
        let functions = match &functions {
            Some(known) => known,
            None => functions.insert(symbols::functions()?),
        };
        if !functions.contains(plain.trim_matches(['(', ')'])) {
            let near = did_you_mean(wanted, names_by_caller().chain(["rq.lock"]));
            return Err(FilterError::NoLock { lock: wanted.clone(), near });
        }
    }
    Ok(())
}

fn check_functions(callers: &[String]) -> Result<(), FilterError> {
    let known = symbols::functions()?;
    if known.is_empty() {
        return Err(FilterError::Symbols(io::Error::other("/proc/kallsyms lists none")));
    }
    for wanted in callers {
        if !known.contains(wanted) {
            let near = did_you_mean(wanted, known.iter().map(String::as_str));
            return Err(FilterError::NoFunction { function: wanted.clone(), near });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lock(name: &str, caller: &str) -> Lock {
        Lock { name: name.to_owned(), caller: Some(caller.to_owned()), ..Lock::default() }
    }

    fn names(locks: &[&str], callers: &[&str]) -> RowFilter {
        let owned = |list: &[&str]| list.iter().map(|name| (*name).to_owned()).collect();
        RowFilter { locks: owned(locks), callers: owned(callers) }
    }

    #[test]
    fn a_name_is_known_with_and_without_what_is_special() {
        assert!(names(&["inode.i_rwsem"], &[]).passes(&lock("inode.i_rwsem (ext4)", "x")));
        assert!(names(&["rq.lock"], &[]).passes(&lock("rq[3].lock", "x")));
        assert!(names(&["rq[3].lock"], &[]).passes(&lock("rq[3].lock", "x")));
        assert!(!names(&["rq[2].lock"], &[]).passes(&lock("rq[3].lock", "x")));
        assert!(!names(&["i_rwsem"], &[]).passes(&lock("inode.i_rwsem", "x")));
    }

    #[test]
    fn name_and_caller_must_both_hold() {
        let filter = names(&["pipe_inode_info.mutex"], &["pipe_write"]);
        assert!(filter.passes(&lock("pipe_inode_info.mutex", "pipe_write+0x5c")));
        assert!(!filter.passes(&lock("pipe_inode_info.mutex", "pipe_read")));
        assert!(RowFilter::default().passes(&Lock::default()));
    }

    #[test]
    fn a_lock_that_cannot_be_is_refused_with_near_ones() {
        let find = |name: &str| RowFilter::find(&[name.to_owned()], &[]);
        for name in ["inode.i_rwsem", "inode.i_rwsem (ext4)", "rq.lock", "rq[1].lock"] {
            find(name).unwrap();
        }
        for name in ["eventpoll.lock", "(do_epoll_wait)", "structure_of_a_module.lock"] {
            find(name).unwrap();
        }
        let error = find("eventpol.lock_").map_err(|error| error.to_string());
        // Nothing is known of a structure that is not in the kernel itself.
        assert!(error.is_ok(), "{error:?}");
        let error = find("inode.i_rwse").unwrap_err().to_string();
        assert!(error.contains("--lock inode.i_rwse"), "{error}");
        let error = find("eventpoll_lock").unwrap_err().to_string();
        assert!(error.contains("did you mean eventpoll.lock"), "{error}");
    }

    #[test]
    fn a_function_that_the_kernel_lacks_is_refused_with_near_ones() {
        let error = RowFilter::find(&[], &["vfs_writ".to_owned()]).unwrap_err().to_string();
        assert!(error.contains("did you mean") && error.contains("vfs_write"), "{error}");
        RowFilter::find(&[], &["vfs_write".to_owned()]).unwrap();
    }
}
