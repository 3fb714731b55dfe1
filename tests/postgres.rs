//! A Postgres server of a case's own, in a temporary directory.

use std::fs;
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail};
use nix::unistd::User;
use tempfile::TempDir;

use crate::command::{finish, lockscope};

/// A running server, reachable by its socket only; stopped and removed when dropped.
#[derive(Debug)]
pub struct Postgres {
    dir: TempDir,
    bin: PathBuf,
    user: User,
    port: String,
}

impl Postgres {
    /// The superuser's name.
    pub const USER: &'static str = "tester";
    /// The superuser's password; connections need it.
    pub const PASSWORD: &'static str = "open sesame";

    /// Creates and starts a server with these settings.
    ///
    /// # Errors
    /// When Postgres is not installed or does not start.
    pub fn start(settings: &[(&str, &str)]) -> Result<Self> {
        let postgres = Self {
            dir: tempfile::tempdir().context("cannot create a directory")?,
            bin: find_bin_dir()?,
            user: unprivileged_user()?,
            port: settings
                .iter()
                .find_map(|(name, value)| (*name == "port").then(|| (*value).to_owned()))
                .unwrap_or("5432".to_owned()),
        };
        let dir = postgres.dir.path();
        chown(dir, Some(postgres.user.uid.as_raw()), Some(postgres.user.gid.as_raw()))
            .context("cannot give the directory away")?;
        let password_file = dir.join("password");
        fs::write(&password_file, Self::PASSWORD).context("cannot write the password")?;
        postgres.tool(
            "initdb",
            &[
                "--no-sync",
                "--auth=scram-sha-256",
                &format!("--username={}", Self::USER),
                &format!("--pwfile={}", password_file.display()),
                &format!("--pgdata={}", postgres.data().display()),
            ],
        )?;
        postgres.tool(
            "pg_ctl",
            &[
                "start",
                "--wait",
                "--silent",
                &format!("--pgdata={}", postgres.data().display()),
                &format!("--log={}", postgres.log_file().display()),
                &format!("--options={}", postgres.options(settings).join(" ")),
            ],
        )?;
        Ok(postgres)
    }

    /// What the server is started with.
    fn options(&self, settings: &[(&str, &str)]) -> Vec<String> {
        let sockets = format!("unix_socket_directories={}", self.dir.path().display());
        let own = [sockets, "listen_addresses=".to_owned(), "fsync=off".to_owned()];
        let settings = settings.iter().map(|(name, value)| format!("{name}={value}"));
        own.into_iter().chain(settings).flat_map(|setting| ["-c".to_owned(), setting]).collect()
    }

    /// The server as a program in the foreground, behind the words of a program that starts it. It
    /// must not run already.
    #[must_use]
    pub fn foreground(&self, wrapper: &[&str], settings: &[(&str, &str)]) -> Command {
        let mut words = wrapper.iter();
        let mut command = Command::new(words.next().unwrap_or(&"env"));
        command.args(words).arg(self.bin.join("postgres")).arg("-D").arg(self.data());
        command.args(self.options(settings)).current_dir("/");
        command
    }

    /// Whether the server can be connected to.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        finish(&mut self.client("pg_isready")).is_ok_and(|done| done.code == Some(0))
    }

    /// Whom the server runs as.
    #[must_use]
    pub fn user(&self) -> &User {
        &self.user
    }

    /// A connection string with the right password.
    #[must_use]
    pub fn dsn(&self) -> String {
        self.dsn_with_password(Self::PASSWORD)
    }

    /// A connection string with any password.
    #[must_use]
    pub fn dsn_with_password(&self, password: &str) -> String {
        let dir = self.dir.path().display();
        self.dsn_of(&dir.to_string(), password)
    }

    /// A connection string for TCP, with the right password.
    #[must_use]
    pub fn tcp_dsn(&self) -> String {
        self.dsn_of("127.0.0.1", Self::PASSWORD)
    }

    fn dsn_of(&self, host: &str, password: &str) -> String {
        let (user, port) = (Self::USER, &self.port);
        format!("host={host} port={port} user={user} dbname=postgres password='{password}'")
    }

    /// One of Postgres's client programs as the superuser, with the server's address in its
    /// variables.
    #[must_use]
    pub fn client(&self, program: &str) -> Command {
        let mut command = Command::new(self.bin.join(program));
        command
            .env("PGHOST", self.dir.path())
            .env("PGPORT", &self.port)
            .env("PGUSER", Self::USER)
            .env("PGPASSWORD", Self::PASSWORD)
            .env("PGDATABASE", "postgres");
        command
    }

    /// Makes pgbench's tables, so that a run does not.
    ///
    /// # Errors
    /// When `lockscope` cannot make them.
    pub fn make_tables(&self) -> Result<()> {
        let dsn = self.dsn();
        let words = ["run", "--no-trace", "--quiet", "-S", "-t", "1", "--dsn", &dsn];
        let made = finish(&mut lockscope(&words))?;
        if made.code != Some(0) {
            bail!("no tables: {}", made.stderr);
        }
        Ok(())
    }

    /// The postmaster's process id.
    ///
    /// # Errors
    /// When the server does not run.
    pub fn postmaster_pid(&self) -> Result<u32> {
        let file = self.data().join("postmaster.pid");
        let text = fs::read_to_string(file).context("the server does not run")?;
        text.lines().next().unwrap_or_default().parse().context("postmaster.pid")
    }

    /// Stops the server without waiting for its clients.
    ///
    /// # Errors
    /// When `pg_ctl` fails.
    pub fn stop(&self) -> Result<()> {
        let data = format!("--pgdata={}", self.data().display());
        self.tool("pg_ctl", &["stop", "--wait", "--silent", "--mode=immediate", &data])
    }

    /// Where the server writes its log.
    #[must_use]
    pub fn log_file(&self) -> PathBuf {
        self.dir.path().join("log")
    }

    /// What the server has logged so far.
    ///
    /// # Errors
    /// When its log cannot be read.
    pub fn log(&self) -> Result<String> {
        fs::read_to_string(self.log_file()).context("the server's log")
    }

    /// Its data directory; the one above has its socket.
    #[must_use]
    pub fn data(&self) -> PathBuf {
        self.dir.path().join("data")
    }

    fn tool(&self, program: &str, arguments: &[&str]) -> Result<()> {
        let log =
            fs::File::create(self.dir.path().join("tool.log")).context("cannot create a log")?;
        let status = Command::new(self.bin.join(program))
            .args(arguments)
            .uid(self.user.uid.as_raw())
            .gid(self.user.gid.as_raw())
            .current_dir("/")
            .stdout(log.try_clone().context("cannot share the log")?)
            .stderr(log)
            .status()
            .with_context(|| format!("cannot start {program}"))?;
        if !status.success() {
            let log = fs::read_to_string(self.dir.path().join("tool.log")).unwrap_or_default();
            bail!("{program} failed: {status}\n{log}");
        }
        Ok(())
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        if self.data().join("postmaster.pid").exists() {
            // Stopped by the case already, perhaps; the directory goes in any case.
            let _ = self.stop();
        }
    }
}

fn find_bin_dir() -> Result<PathBuf> {
    let packaged = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let mut dirs: Vec<PathBuf> = packaged.map(|entry| entry.path().join("bin")).collect();
    dirs.extend(std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()));
    let has_server = |dir: &PathBuf| dir.join("initdb").exists() && dir.join("postgres").exists();
    dirs.into_iter()
        .find(has_server)
        .context("no Postgres server; `cargo xtask setup` installs one")
}

/// Whom servers run as: Postgres refuses to run as root.
///
/// # Errors
/// When there is no such user.
pub fn unprivileged_user() -> Result<User> {
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

/// Processes whose command line mentions a path.
#[must_use]
pub fn processes_in(path: &Path) -> Vec<u32> {
    let needle = path.to_string_lossy().into_owned();
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries
        .filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok())
        .filter(|pid| {
            let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            String::from_utf8_lossy(&line).contains(&needle)
        })
        .collect()
}
