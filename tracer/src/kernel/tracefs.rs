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

/// Byte offset of a field in a classic tracepoint's record, from its format file. Call it inside
/// [`with_tracefs`].
pub fn field_offset(name: &str, field: &str) -> Option<u32> {
    let (category, event) = name.split_once(':')?;
    let path: PathBuf = [TRACEFS, "events", category, event, "format"].iter().collect();
    parse_field_offset(&fs::read_to_string(path).ok()?, field)
}

/// Finds the line `field:pid_t child_pid; offset:44; size:4; signed:1;` (tabs between the parts).
fn parse_field_offset(format: &str, field: &str) -> Option<u32> {
    let line = format.lines().find(|line| {
        let declaration =
            line.trim().strip_prefix("field:").and_then(|rest| rest.split(';').next());
        declaration.and_then(|text| text.split_whitespace().last()) == Some(field)
    })?;
    line.split(';').find_map(|part| part.trim().strip_prefix("offset:")?.parse().ok())
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
    fn a_fields_offset_comes_from_the_format() {
        let format = "name: sched_process_fork\nformat:\n\
            \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
            \tfield:char parent_comm[16];\toffset:8;\tsize:16;\tsigned:0;\n\
            \tfield:pid_t parent_pid;\toffset:24;\tsize:4;\tsigned:1;\n\
            \tfield:pid_t child_pid;\toffset:44;\tsize:4;\tsigned:1;\n";
        assert_eq!(parse_field_offset(format, "child_pid"), Some(44));
        assert_eq!(parse_field_offset(format, "pid"), None);
        // This kernel's own format has the field somewhere behind the common header.
        let real = with_tracefs(|| field_offset("sched:sched_process_fork", "child_pid"));
        assert!(real.is_none_or(|offset| offset >= 8), "{real:?}");
    }

    #[test]
    fn an_unknown_tracepoint_has_no_number() {
        assert_eq!(with_tracefs(|| tracepoint_id("lock:no_such_event")), None);
        assert_eq!(tracepoint_id("no colon"), None);
    }
}
