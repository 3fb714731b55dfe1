//! A throw-away Postgres on one CPU, reachable by its socket only.

use std::fs;
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, User};
use tempfile::TempDir;

use super::child::{finish, pinned};
use crate::setup;

const START_LIMIT: Duration = Duration::from_secs(30);
const POLL: Duration = Duration::from_millis(50);

/// Stopped and removed when dropped.
#[derive(Debug)]
pub(super) struct Server {
    dir: TempDir,
    bin: PathBuf,
    user: User,
    cpus: String,
    postmaster: Option<Child>,
}

impl Server {
    /// The superuser, and the database's name.
    pub(super) const USER: &'static str = "postgres";

    /// Nothing that a benchmark does not ask for runs in it: no autovacuum, no waiting for disks.
    pub(super) fn start(cpus: &str) -> Result<Self> {
        let mut server = Self {
            dir: tempfile::tempdir().context("cannot create a directory")?,
            bin: setup::postgres_bin_dir()?,
            user: unprivileged_user()?,
            cpus: cpus.to_owned(),
            postmaster: None,
        };
        chown(server.dir(), Some(server.user.uid.as_raw()), Some(server.user.gid.as_raw()))
            .context("cannot give the server's directory away")?;
        server.initdb()?;
        server.postmaster = Some(server.spawn()?);
        server.wait_until_ready()?;
        Ok(server)
    }

    /// The directory of its socket.
    pub(super) fn dir(&self) -> &Path {
        self.dir.path()
    }

    pub(super) fn cpus(&self) -> &str {
        &self.cpus
    }

    /// Where its programs are.
    pub(super) fn program(&self, name: &str) -> PathBuf {
        self.bin.join(name)
    }

    /// Runs a statement.
    pub(super) fn execute(&self, sql: &str) -> Result<()> {
        let mut psql = Command::new(self.program("psql"));
        psql.args(["--no-psqlrc", "--quiet", "--username", Self::USER, "--command", sql]);
        finish(psql.arg("--host").arg(self.dir())).map(drop)
    }

    fn initdb(&self) -> Result<()> {
        let output = self
            .as_owner(Command::new(self.program("initdb")))
            .args(["--no-sync", "--auth=trust", "--locale=C", "--encoding=UTF8"])
            .arg(format!("--username={}", Self::USER))
            .arg(format!("--pgdata={}", self.data().display()))
            .output()
            .context("cannot start initdb")?;
        if !output.status.success() {
            bail!("initdb failed: {}", String::from_utf8_lossy(&output.stderr).trim());
        }
        Ok(())
    }

    /// As a child in this process group: an interrupt at the terminal ends it too.
    fn spawn(&self) -> Result<Child> {
        let log = fs::File::create(self.log()).context("cannot create the server's log")?;
        let settings = [
            format!("unix_socket_directories={}", self.dir().display()),
            "listen_addresses=".to_owned(),
            "fsync=off".to_owned(),
            "autovacuum=off".to_owned(),
            "max_connections=200".to_owned(),
        ];
        let mut command = self.as_owner(pinned(&self.cpus, self.program("postgres")));
        command.arg("-D").arg(self.data());
        for setting in settings {
            command.args(["-c", &setting]);
        }
        let stdout = log.try_clone().context("cannot share the server's log")?;
        command.stdin(Stdio::null()).stdout(stdout).stderr(log);
        command.spawn().context("cannot start postgres")
    }

    fn wait_until_ready(&mut self) -> Result<()> {
        let began = Instant::now();
        while !self.is_ready()? {
            let exited = self.postmaster.as_mut().map(Child::try_wait).transpose();
            let ended = exited.context("cannot watch postgres")?.flatten();
            if ended.is_some() || began.elapsed() > START_LIMIT {
                let log = fs::read_to_string(self.log()).unwrap_or_default();
                bail!("the throw-away server does not start:\n{}", log.trim());
            }
            thread::sleep(POLL);
        }
        Ok(())
    }

    fn is_ready(&self) -> Result<bool> {
        let status = Command::new(self.program("pg_isready"))
            .arg("--quiet")
            .arg("--host")
            .arg(self.dir())
            .status()
            .context("cannot start pg_isready")?;
        Ok(status.success())
    }

    /// Postgres refuses to run as root.
    fn as_owner(&self, mut command: Command) -> Command {
        command.uid(self.user.uid.as_raw()).gid(self.user.gid.as_raw()).current_dir("/");
        command
    }

    /// Its data directory.
    pub(super) fn data(&self) -> PathBuf {
        self.dir().join("data")
    }

    fn log(&self) -> PathBuf {
        self.dir().join("log")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(postmaster) = &mut self.postmaster {
            // SIGINT is Postgres's fast shutdown. If it is gone already, waiting returns at once.
            let _ = kill(Pid::from_raw(postmaster.id().cast_signed()), Signal::SIGINT);
            let _ = postmaster.wait();
        }
    }
}

fn unprivileged_user() -> Result<User> {
    let current = nix::unistd::geteuid();
    if !current.is_root() {
        return User::from_uid(current)?.context("the current user has no name");
    }
    for name in ["postgres", "nobody"] {
        if let Some(user) = User::from_name(name)? {
            return Ok(user);
        }
    }
    bail!("neither a user `postgres` nor `nobody` exists")
}
