//! A command of the user's, traced from its first instruction.
//!
//! Its process is there before its program is: the child waits on a pipe until the probes are
//! attached, and only then executes. It runs as the user who called sudo, in lockscope's own
//! process group, so that a terminal treats both as one job.

use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsRawFd as _, OwnedFd, RawFd};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::Sender;
use std::thread::{self, JoinHandle};

use nix::errno::Errno;
use nix::sys::wait::{Id, WaitPidFlag, waitid};
use nix::unistd::{Pid, pipe2};

use super::invoker::Invoker;
use super::pump::{Event, Stream, pump};
use crate::clock::monotonic_ns;

/// A shell's way of telling a signal in an exit code.
const SIGNALLED: i32 = 128;

/// Why the command does not run.
#[derive(Debug, thiserror::Error)]
pub enum CommandError {
    /// It cannot be executed.
    #[error("cannot start `{program}`: {source}; is it installed, and in PATH for this user?")]
    Start {
        /// As given.
        program: String,
        /// What the system said.
        source: io::Error,
    },
    /// Pipes, threads, the user's groups.
    #[error("cannot prepare the command: {0}")]
    Prepare(#[source] io::Error),
    /// The system does not tell how it ended.
    #[error("cannot wait for the command: {0}")]
    Wait(#[source] io::Error),
}

/// A child that has not executed its program yet. Dropped, it ends without having done so.
#[derive(Debug)]
pub struct Blocked {
    pid: u32,
    program: String,
    go: OwnedFd,
    spawner: JoinHandle<io::Result<Child>>,
}

/// The command under way.
#[derive(Debug)]
pub struct Running {
    child: Child,
    pumps: Vec<JoinHandle<()>>,
}

/// How it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended(ExitStatus);

impl Blocked {
    /// Makes the child. `reads` says whether its standard output and error go through lockscope,
    /// which passes them on; else they are lockscope's own.
    ///
    /// # Errors
    /// [`CommandError::Prepare`].
    pub fn start(words: &[String], reads: bool) -> Result<Blocked, CommandError> {
        let (program, arguments) = words.split_first().ok_or_else(|| {
            CommandError::Prepare(io::Error::new(io::ErrorKind::InvalidInput, "no command"))
        })?;
        let prepare = CommandError::Prepare;
        let pipe = || pipe2(nix::fcntl::OFlag::O_CLOEXEC).map_err(|e| prepare(e.into()));
        let ((told, tell), (wait, go)) = (pipe()?, pipe()?);
        let invoker = Invoker::find().map_err(prepare)?;
        let mut command = Command::new(program);
        command.args(arguments);
        if reads {
            command.stdout(Stdio::piped()).stderr(Stdio::piped());
        }
        invoker.describe(&mut command);
        let held = go.as_raw_fd();
        let until_told = move || {
            announce_and_wait(&tell, &wait, held)?;
            invoker.become_user()
        };
        // SAFETY: between fork and exec only system calls are made; nothing is allocated.
        unsafe { command.pre_exec(until_told) };
        // `spawn` returns when the program has been executed.
        let spawner = thread::Builder::new().name("spawner".into()).spawn(move || command.spawn());
        let spawner = spawner.map_err(prepare)?;
        let mut pid = [0; 4];
        // Without an answer the fork itself failed, and the spawner knows why.
        if std::fs::File::from(told).read_exact(&mut pid).is_err() {
            let failed = spawner.join().map_or_else(|_| Err(lost()), |spawned| spawned.map(drop));
            return Err(prepare(failed.err().unwrap_or_else(lost)));
        }
        Ok(Blocked { pid: u32::from_ne_bytes(pid), program: program.clone(), go, spawner })
    }

    /// The process that it will be.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// The name of its program.
    pub fn name(&self) -> String {
        base_name(&self.program)
    }

    /// Lets it go. What it says, and its end, come through `events`.
    ///
    /// # Errors
    /// [`CommandError::Start`] when there is no such program, or it must not be executed.
    pub fn release(self, events: &Sender<Event>) -> Result<Running, CommandError> {
        let start = |source| CommandError::Start { program: self.program.clone(), source };
        std::fs::File::from(self.go).write_all(&[1]).map_err(CommandError::Prepare)?;
        let spawned = self.spawner.join().unwrap_or_else(|_| Err(lost()));
        let mut child = spawned.map_err(start)?;
        let mut pumps = Vec::new();
        if let Some(stdout) = child.stdout.take() {
            pumps.push(pump(Stream::Output, stdout.into(), events.clone()));
        }
        if let Some(stderr) = child.stderr.take() {
            pumps.push(pump(Stream::Error, stderr.into(), events.clone()));
        }
        let pid = child.id();
        let events = events.clone();
        thread::spawn(move || {
            // It stays a zombie until its status is asked for: its pid is nobody else's meanwhile.
            let id = || Id::Pid(Pid::from_raw(pid.cast_signed()));
            while waitid(id(), WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT) == Err(Errno::EINTR) {}
            let _ = events.send(Event::Ended { at_ns: monotonic_ns() });
        });
        Ok(Running { child, pumps })
    }
}

impl Running {
    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits for its end; what it has said is passed on by then. A process that it leaves behind may
    /// hold its output for ever: that is not waited for.
    ///
    /// # Errors
    /// [`CommandError::Wait`].
    pub fn wait(mut self) -> Result<Ended, CommandError> {
        let status = self.child.wait().map_err(CommandError::Wait)?;
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(1);
        while self.pumps.iter().any(|pump| !pump.is_finished())
            && std::time::Instant::now() < deadline
        {
            thread::sleep(std::time::Duration::from_millis(5));
        }
        Ok(Ended(status))
    }
}

impl Ended {
    /// As a shell would tell it: the exit code, or 128 and the signal's number.
    pub fn code(self) -> u8 {
        let signalled = || SIGNALLED + self.0.signal().unwrap_or(0);
        let code = self.0.code().unwrap_or_else(signalled);
        u8::try_from(code).unwrap_or(u8::MAX)
    }
}

/// In the child: tells the pid, and waits for the byte that lets it go on. The end of the pipe means
/// that lockscope is gone or has given up.
fn announce_and_wait(tell: &OwnedFd, wait: &OwnedFd, held: RawFd) -> io::Result<()> {
    // SAFETY: the child's own copy of the parent's end, which nothing else in the child uses.
    unsafe { libc::close(held) };
    nix::unistd::write(tell, &std::process::id().to_ne_bytes())?;
    let mut go = [0];
    loop {
        match nix::unistd::read(wait, &mut go) {
            Ok(1) => return Ok(()),
            Ok(_) => return Err(io::Error::from_raw_os_error(libc::ECANCELED)),
            Err(Errno::EINTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
}

fn lost() -> io::Error {
    io::Error::other("the thread that starts it was lost")
}

/// The last part of a path.
pub fn base_name(program: &str) -> String {
    let name = Path::new(program).file_name();
    name.map_or(program.to_owned(), |name| name.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;
    use std::time::Duration;

    use super::*;

    fn words(line: &[&str]) -> Vec<String> {
        line.iter().map(|word| (*word).to_owned()).collect()
    }

    fn comm(pid: u32) -> String {
        std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default()
    }

    #[test]
    fn nothing_of_the_program_runs_before_it_is_released() {
        let directory = tempfile::tempdir().unwrap();
        let mark = directory.path().join("mark");
        // Whoever called sudo writes here.
        std::fs::set_permissions(
            directory.path(),
            std::os::unix::fs::PermissionsExt::from_mode(0o777),
        )
        .unwrap();
        let script = format!("echo > {}; exit 7", mark.display());
        let blocked = Blocked::start(&words(&["/bin/sh", "-c", &script]), false).unwrap();
        thread::sleep(Duration::from_millis(50));
        assert!(!mark.exists());
        assert_ne!(comm(blocked.pid()), "sh\n");
        let (sender, receiver) = channel();
        let running = blocked.release(&sender).unwrap();
        assert!(matches!(receiver.recv().unwrap(), Event::Ended { .. }));
        assert_eq!(running.wait().unwrap().code(), 7);
        assert!(mark.exists());
    }

    #[test]
    fn a_command_that_is_given_up_never_runs() {
        let blocked = Blocked::start(&words(&["/bin/sleep", "60"]), false).unwrap();
        let pid = blocked.pid();
        let Blocked { go, spawner, .. } = blocked;
        drop(go);
        assert!(spawner.join().unwrap().is_err());
        assert_eq!(comm(pid), "");
    }

    #[test]
    fn a_signal_is_told_as_a_shell_does_and_output_comes_in_lines() {
        let script = "echo one; echo two >&2; kill -TERM $$";
        let blocked = Blocked::start(&words(&["/bin/sh", "-c", script]), true).unwrap();
        let (sender, receiver) = channel();
        let running = blocked.release(&sender).unwrap();
        assert_eq!(running.wait().unwrap().code(), 128 + 15);
        drop(sender);
        let mut lines: Vec<String> = receiver
            .iter()
            .filter_map(|event| match event {
                Event::Line { text, .. } => Some(text),
                Event::Ended { .. } => None,
            })
            .collect();
        lines.sort();
        assert_eq!(lines, ["one", "two"]);
    }

    #[test]
    fn a_program_that_is_not_there_is_named() {
        let blocked = Blocked::start(&words(&["/no/such/program"]), false).unwrap();
        let (sender, _receiver) = channel();
        let error = blocked.release(&sender).unwrap_err().to_string();
        assert!(error.contains("/no/such/program") && error.contains("No such file"), "{error}");
    }
}
