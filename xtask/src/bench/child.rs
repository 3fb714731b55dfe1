//! A program on one CPU, run to its end, with what it used.

use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};
use std::{env, io};

use anyhow::{Context as _, Result, bail};

use crate::shell::display;

/// What a program said and used.
#[derive(Debug)]
pub(super) struct Finished {
    pub(super) stdout: String,
    /// From the call of exec to its end.
    pub(super) wall: Duration,
    /// CPU time, user and system, of all its threads.
    pub(super) cpu_ns: u64,
    /// Its largest resident set.
    pub(super) max_rss_bytes: u64,
}

/// `program`, to be run on `cpus` (a list as taskset takes it), away from the user's own Postgres
/// settings.
pub(super) fn pinned(cpus: &str, program: impl AsRef<std::ffi::OsStr>) -> Command {
    let mut command = Command::new("taskset");
    command.args(["--cpu-list", cpus]).arg(program).env("LC_ALL", "C");
    for (name, _) in env::vars_os() {
        if name.to_string_lossy().starts_with("PG") {
            command.env_remove(name);
        }
    }
    command
}

/// Runs the command; anything but success is an error with what it said.
pub(super) fn finish(command: &mut Command) -> Result<Finished> {
    let line = display(command);
    // A file instead of a pipe: nobody has to read while the clock runs.
    let mut complaints = tempfile::tempfile().context("cannot create a temporary file")?;
    let stderr = complaints.try_clone().context("cannot share a temporary file")?;
    let began = Instant::now();
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(stderr)
        .spawn()
        .with_context(|| format!("cannot start `{line}`"))?;
    let mut stdout = String::new();
    if let Some(pipe) = &mut child.stdout {
        pipe.read_to_string(&mut stdout).with_context(|| format!("cannot read from `{line}`"))?;
    }
    let (status, usage) = wait4(child.id()).with_context(|| format!("cannot wait for `{line}`"))?;
    let wall = began.elapsed();
    if !status.success() {
        bail!("`{line}` failed: {status}\n{}", text(&mut complaints)?);
    }
    Ok(Finished {
        stdout,
        wall,
        cpu_ns: nanoseconds(usage.ru_utime) + nanoseconds(usage.ru_stime),
        max_rss_bytes: usage.ru_maxrss as u64 * 1024,
    })
}

/// Waits as `Child::wait` does, and learns what this child used.
fn wait4(pid: u32) -> io::Result<(ExitStatus, libc::rusage)> {
    let mut status = 0;
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    loop {
        // SAFETY: both pointers are valid for writing; the child was started here and nobody else
        // waits for it.
        let waited =
            unsafe { libc::wait4(pid.cast_signed(), &raw mut status, 0, usage.as_mut_ptr()) };
        if waited >= 0 {
            // SAFETY: all zeroes are a valid value, and the kernel has written over them.
            return Ok((ExitStatus::from_raw(status), unsafe { usage.assume_init() }));
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

fn nanoseconds(time: libc::timeval) -> u64 {
    time.tv_sec as u64 * 1_000_000_000 + time.tv_usec as u64 * 1_000
}

fn text(file: &mut File) -> Result<String> {
    let mut text = String::new();
    file.seek(SeekFrom::Start(0)).context("cannot rewind a temporary file")?;
    file.read_to_string(&mut text).context("cannot read a temporary file")?;
    Ok(text.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_program_used_is_its_own() {
        let script = "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; echo done";
        let finished = finish(pinned("0", "sh").args(["-c", script])).expect("sh runs");
        assert_eq!(finished.stdout, "done\n");
        assert!(finished.cpu_ns > 0 && finished.max_rss_bytes > 0, "{finished:?}");
    }

    #[test]
    fn a_failure_is_told_with_what_the_program_said() {
        let error = finish(pinned("0", "sh").args(["-c", "echo no luck >&2; exit 3"]))
            .expect_err("it exits with 3");
        assert!(format!("{error:#}").contains("no luck"), "{error:#}");
    }
}
