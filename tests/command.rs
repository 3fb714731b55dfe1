//! The `lockscope` under test, run as a user would.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};
use std::{env, thread};

use anyhow::{Context as _, Result, bail};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::NamedTempFile;

/// Far beyond what any case needs; a command that is still there then hangs.
const LIMIT: Duration = Duration::from_secs(120);

/// What a finished command left.
#[derive(Debug)]
pub struct Finished {
    /// The exit code; `None` after a signal.
    pub code: Option<i32>,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

/// `lockscope` with these arguments, away from the user's own Postgres settings.
#[must_use]
pub fn lockscope(arguments: &[&str]) -> Command {
    let mut command = Command::new(binary("LOCKSCOPE_BIN", "lockscope"));
    command.args(arguments);
    for (name, _) in env::vars_os() {
        if name.to_string_lossy().starts_with("PG") {
            command.env_remove(name);
        }
    }
    command
}

/// A program of this workspace: named by a variable, or beside the test's own directory.
#[must_use]
pub fn binary(variable: &str, name: &str) -> PathBuf {
    if let Some(path) = env::var_os(variable).filter(|_| !variable.is_empty()) {
        return PathBuf::from(path);
    }
    let test = env::current_exe().unwrap_or_default();
    let beside = test.ancestors().nth(2).unwrap_or(Path::new(".")).join(name);
    assert!(
        beside.exists(),
        "{} is missing: `cargo build -p lockscope` makes it, or name one in {variable}",
        beside.display()
    );
    beside
}

/// Runs the command to its end.
///
/// # Errors
/// When it cannot be started or does not end.
pub fn finish(command: &mut Command) -> Result<Finished> {
    Running::start(command)?.wait()
}

/// A command under way; killed when dropped.
#[derive(Debug)]
pub struct Running {
    child: Option<Child>,
    /// A file, not a pipe, so that it can be looked at meanwhile.
    stderr: NamedTempFile,
}

impl Running {
    /// Starts the command with its output kept.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn start(command: &mut Command) -> Result<Self> {
        let stderr = NamedTempFile::new().context("cannot create a file")?;
        let end = stderr.reopen().context("cannot open the file")?;
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(end);
        let child = command.spawn().with_context(|| format!("cannot start {command:?}"))?;
        Ok(Self { child: Some(child), stderr })
    }

    /// Its process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.as_ref().map_or(0, Child::id)
    }

    /// Whether it is gone.
    ///
    /// # Errors
    /// When the system does not say.
    pub fn has_ended(&mut self) -> Result<bool> {
        let Some(child) = &mut self.child else { return Ok(true) };
        Ok(child.try_wait().context("cannot look after the command")?.is_some())
    }

    /// What it has said on standard error so far.
    #[must_use]
    pub fn said(&self) -> String {
        let bytes = std::fs::read(self.stderr.path()).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Sends it a signal.
    ///
    /// # Errors
    /// When it is no longer there.
    pub fn signal(&self, signal: Signal) -> Result<()> {
        let pid = Pid::from_raw(i32::try_from(self.pid())?);
        kill(pid, signal).with_context(|| format!("cannot send {signal} to {pid}"))
    }

    /// Waits for its end and takes its output.
    ///
    /// # Errors
    /// When it does not end.
    pub fn wait(mut self) -> Result<Finished> {
        let child = self.child.take().context("already waited for")?;
        let pid = Pid::from_raw(i32::try_from(child.id())?);
        let waiter = thread::spawn(move || child.wait_with_output());
        let hung = wait_until(LIMIT, || waiter.is_finished()).is_err();
        if hung {
            // The waiter returns only when the child is gone.
            let _ = kill(pid, Signal::SIGKILL);
        }
        let Ok(output) = waiter.join() else { bail!("the waiting thread panicked") };
        let Output { status, stdout, .. } = output.context("cannot wait for the command")?;
        let stderr = self.said();
        if hung {
            bail!("still running after {} s; it said:\n{stderr}", LIMIT.as_secs());
        }
        Ok(Finished {
            code: status.code(),
            stdout: String::from_utf8_lossy(&stdout).into_owned(),
            stderr,
        })
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            // A child that ended by itself is fine too.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Waits for a condition.
///
/// # Errors
/// When it does not come true within the limit.
pub fn wait_until(limit: Duration, mut condition: impl FnMut() -> bool) -> Result<()> {
    let began = Instant::now();
    while !condition() {
        if began.elapsed() > limit {
            bail!("not true within {} s", limit.as_secs());
        }
        thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

/// Says why a case cannot be judged on this machine; `cargo xtask test` counts and shows it.
pub fn skip(case: &str, reason: &str) {
    use std::io::Write as _;
    // Directly, not with eprintln: the test harness would swallow it.
    let _ = writeln!(std::io::stderr(), "lockscope-skip: {case}: {reason}");
}
