//! Which locks are shown: by name and by the function that wanted them.

use std::io;

use super::FilterError;
use super::near::did_you_mean;
use crate::kernel::symbols;
use crate::model::Lock;

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
    fn a_function_that_the_kernel_lacks_is_refused_with_near_ones() {
        let error = RowFilter::find(&[], &["vfs_writ".to_owned()]).unwrap_err().to_string();
        assert!(error.contains("did you mean") && error.contains("vfs_write"), "{error}");
        RowFilter::find(&[], &["vfs_write".to_owned()]).unwrap();
    }
}
