//! Reading tracefs and securityfs without changing the system's mounts.
//!
//! Where nobody mounted them, they are mounted in a mount namespace of a short-lived thread: no
//! other process sees it, and it is gone with the thread.

use std::path::{Path, PathBuf};
use std::{fs, io, thread};

use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};

/// Where tracefs belongs.
pub const TRACEFS: &str = "/sys/kernel/tracing";
/// Where securityfs belongs.
pub const SECURITYFS: &str = "/sys/kernel/security";

/// Runs `task` on a thread that sees tracefs and securityfs in their usual places, whether or not
/// the system has them mounted. Without the privilege to mount, `task` sees the system as it is.
///
/// Attaching a classic tracepoint by name inside `task` works too: what it attached outlives the
/// thread. A panic of `task` is passed on.
pub fn with_tracefs<T: Send>(task: impl FnOnce() -> T + Send) -> T {
    thread::scope(|scope| {
        let handle = scope.spawn(|| {
            if let Err(error) = mount_missing() {
                log::debug!("no private mount of tracefs: {error}");
            }
            task()
        });
        handle.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

fn mount_missing() -> io::Result<()> {
    let tracefs_missing = !Path::new(TRACEFS).join("events").exists();
    let securityfs_missing = !Path::new(SECURITYFS).join("lsm").exists();
    if !tracefs_missing && !securityfs_missing {
        return Ok(());
    }
    unshare(CloneFlags::CLONE_NEWNS)?;
    // Without this, the mounts below would appear in every namespace that shares the tree.
    let private = MsFlags::MS_REC | MsFlags::MS_PRIVATE;
    mount(None::<&str>, "/", None::<&str>, private, None::<&str>)?;
    let quiet = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
    if tracefs_missing {
        mount(Some("tracefs"), TRACEFS, Some("tracefs"), quiet, None::<&str>)?;
    }
    if securityfs_missing {
        mount(Some("securityfs"), SECURITYFS, Some("securityfs"), quiet, None::<&str>)?;
    }
    Ok(())
}

/// The number of a classic tracepoint (`lock:contention_begin`), as `perf_event_open` wants it.
/// Call it inside [`with_tracefs`].
pub fn tracepoint_id(name: &str) -> Option<u32> {
    let (category, event) = name.split_once(':')?;
    let path: PathBuf = [TRACEFS, "events", category, event, "id"].iter().collect();
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

/// The functions that ftrace can reach, of those asked for; absent when the list is unreadable.
/// Call it inside [`with_tracefs`].
pub fn traceable_functions<'a>(wanted: &[&'a str]) -> Option<Vec<&'a str>> {
    let list = fs::read_to_string(Path::new(TRACEFS).join("available_filter_functions")).ok()?;
    if list.is_empty() {
        return None;
    }
    let mut found = Vec::new();
    for line in list.lines() {
        let name = line.split_whitespace().next().unwrap_or_default();
        found.extend(wanted.iter().copied().filter(|wanted| *wanted == name));
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hands_back_what_the_task_made_and_leaves_the_mounts_alone() {
        let before = fs::read_to_string("/proc/self/mountinfo").unwrap();
        assert_eq!(with_tracefs(|| 42), 42);
        assert_eq!(fs::read_to_string("/proc/self/mountinfo").unwrap(), before);
    }

    #[test]
    fn an_unknown_tracepoint_has_no_number() {
        assert_eq!(with_tracefs(|| tracepoint_id("lock:no_such_event")), None);
        assert_eq!(tracepoint_id("no colon"), None);
    }
}
