//! Processes by pid: whether one is still the one that was meant, and ending a postmaster.

use std::fs;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;

use crate::kernel::task::{self, TaskStat};

const POLL: Duration = Duration::from_millis(10);

/// Start time of a process in clock ticks since boot; pid and start time together are unique.
/// `None` when there is no such process, or only its zombie.
pub(super) fn start_ticks(pid: u32) -> Option<u64> {
    let lives = |stat: &TaskStat| !matches!(stat.state, 'Z' | 'X');
    task::stat(pid).filter(lives).map(|stat| stat.started_ticks)
}

/// The postmaster that `data_directory/postmaster.pid` names, if that process really runs there.
pub(super) fn postmaster_of(data_directory: &Path) -> Option<u32> {
    let content = fs::read_to_string(data_directory.join("postmaster.pid")).ok()?;
    let pid: u32 = content.lines().next()?.trim().parse().ok()?;
    // A postmaster works in its data directory; a pid that was used again does not.
    let working_directory = fs::read_link(format!("/proc/{pid}/cwd")).ok()?;
    (working_directory == data_directory.canonicalize().ok()?).then_some(pid)
}

/// Ends a postmaster: fast shutdown, then immediate, then by force.
///
/// `has_ended` tells whether it is gone, and reaps it where it is a child.
pub(super) fn stop_postmaster(pid: u32, mut has_ended: impl FnMut() -> bool) {
    let steps = [
        (Signal::SIGINT, Duration::from_secs(15)),
        (Signal::SIGQUIT, Duration::from_secs(5)),
        (Signal::SIGKILL, Duration::from_secs(5)),
    ];
    for (signal, patience) in steps {
        if has_ended() {
            return;
        }
        // It may end by itself in between.
        let _ = kill(Pid::from_raw(pid.cast_signed()), signal);
        let deadline = Instant::now() + patience;
        while Instant::now() < deadline {
            if has_ended() {
                return;
            }
            sleep(POLL);
        }
    }
    log::warn!("postmaster {pid} does not end, not even by SIGKILL");
}

/// Ends what a process group's leader has left running, and waits until it is gone.
pub(super) fn end_group(leader_pid: u32) {
    let group = Pid::from_raw(leader_pid.cast_signed());
    let deadline = Instant::now() + Duration::from_secs(5);
    while killpg(group, Signal::SIGKILL) != Err(Errno::ESRCH) && Instant::now() < deadline {
        sleep(POLL);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_has_a_start_time_and_a_zombie_has_none() {
        assert!(start_ticks(std::process::id()).is_some());
        let mut child = std::process::Command::new("true").spawn().unwrap();
        while start_ticks(child.id()).is_some() {
            sleep(POLL);
        }
        child.wait().unwrap();
    }

    #[test]
    fn a_group_outlives_its_leader_only_until_it_is_ended() {
        use std::os::unix::process::CommandExt as _;
        let mut shell = std::process::Command::new("sh");
        let mut leader = shell.args(["-c", "sleep 100 & exit"]).process_group(0).spawn().unwrap();
        leader.wait().unwrap();
        let group = Pid::from_raw(leader.id().cast_signed());
        assert_eq!(killpg(group, None), Ok(()));
        end_group(leader.id());
        assert_eq!(killpg(group, None), Err(Errno::ESRCH));
    }

    #[test]
    fn a_pid_file_that_names_another_process_is_not_believed() {
        let directory = tempfile::tempdir().unwrap();
        let content = format!("{}\n{}\n", std::process::id(), directory.path().display());
        fs::write(directory.path().join("postmaster.pid"), content).unwrap();
        assert_eq!(postmaster_of(directory.path()), None);
    }
}
