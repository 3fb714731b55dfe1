//! What the end-to-end tests share: servers of their own and runs of the program.

#![allow(dead_code, reason = "every test binary uses its own part")]
#![expect(clippy::unwrap_used, reason = "a test helper that fails is a failed test")]

use std::fs;
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, User, geteuid};
use serde_json::Value;
use tempfile::TempDir;

const PATIENCE: Duration = Duration::from_secs(60);

/// A Postgres server that ends with the value.
pub(crate) struct Cluster {
    directory: TempDir,
    settings: Vec<String>,
    postmaster: Child,
}

impl Cluster {
    pub(crate) fn start() -> Self {
        Self::with_settings(&[], &|_| {})
    }

    /// A server with `settings`, after `prepare` has changed the data directory.
    pub(crate) fn with_settings(settings: &[&str], prepare: &dyn Fn(&Path)) -> Self {
        let directory = tempfile::Builder::new().prefix("lsc-test-").tempdir().unwrap();
        let data = directory.path().join("data");
        give_away(directory.path());
        let initdb = ["-U", "postgres", "-A", "trust", "--no-sync", "--no-locale", "-E", "UTF8"];
        let mut command = as_server_user(&program("initdb"));
        let output = command.args(initdb).arg("-D").arg(&data).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        prepare(&data);
        let settings: Vec<String> = settings.iter().map(|setting| (*setting).to_owned()).collect();
        let postmaster = start(&directory, &settings);
        let cluster = Self { directory, settings, postmaster };
        wait_until_ready(&cluster.directory);
        cluster
    }

    pub(crate) fn host(&self) -> &str {
        self.directory.path().to_str().unwrap()
    }

    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.directory.path().join("log")).unwrap()
    }

    /// One value of a query, as text.
    pub(crate) fn value(&self, sql: &str) -> String {
        let output = self.psql(sql).output().unwrap();
        assert!(output.status.success(), "{sql}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    pub(crate) fn psql(&self, sql: &str) -> Command {
        let mut psql = Command::new(program("psql"));
        psql.args(["-X", "-A", "-t", "-U", "postgres", "-d", "postgres", "-h", self.host()]);
        psql.args(["-c", sql]);
        psql
    }

    pub(crate) fn pgbench(&self, arguments: &[&str]) {
        let mut pgbench = Command::new(program("pgbench"));
        pgbench.args(["-h", self.host(), "-U", "postgres"]).args(arguments).arg("postgres");
        let output = pgbench.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }

    /// A run against this server.
    pub(crate) fn run(&self, arguments: &str) -> Finished {
        finish(self.command(arguments).spawn().unwrap())
    }

    pub(crate) fn command(&self, arguments: &str) -> Command {
        let mut command = lockscope(arguments);
        command.args(["-h", self.host(), "-U", "postgres", "-d", "postgres"]);
        command
    }

    /// `lockscope load` against this server.
    pub(crate) fn load(&self, arguments: &str) -> Finished {
        finish(self.load_command(arguments).spawn().unwrap())
    }

    pub(crate) fn load_command(&self, arguments: &str) -> Command {
        let mut command = load(arguments);
        command.args(["-h", self.host(), "-U", "postgres", "-d", "postgres"]);
        command
    }

    /// What pgbench prints.
    pub(crate) fn pgbench_output(&self, arguments: &str) -> String {
        let mut pgbench = Command::new(program("pgbench"));
        pgbench.args(["-h", self.host(), "-U", "postgres"]);
        let output = pgbench.args(arguments.split_whitespace()).arg("postgres").output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    /// Stops the server as an administrator does, without waiting for its clients, and starts it again.
    pub(crate) fn restart(&mut self) {
        self.signal(Signal::SIGINT);
        self.postmaster.wait().unwrap();
        self.postmaster = start(&self.directory, &self.settings);
        wait_until_ready(&self.directory);
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.postmaster.id().cast_signed()), signal).unwrap();
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.signal(Signal::SIGQUIT);
        self.postmaster.wait().unwrap();
    }
}

fn start(directory: &TempDir, settings: &[String]) -> Child {
    let log = directory.path().join("log");
    let log = fs::OpenOptions::new().create(true).append(true).open(log).unwrap();
    let mut command = as_server_user(&program("postgres"));
    command.arg("-D").arg(directory.path().join("data")).stderr(log).process_group(0);
    let socket = format!("unix_socket_directories={}", directory.path().display());
    let own = ["listen_addresses=".to_owned(), socket, "fsync=off".to_owned()];
    for setting in own.iter().chain(settings) {
        command.args(["-c", setting]);
    }
    command.spawn().unwrap()
}

fn wait_until_ready(directory: &TempDir) {
    let pid_file = directory.path().join("data/postmaster.pid");
    eventually("the server is ready", || {
        fs::read_to_string(&pid_file)
            .is_ok_and(|text| text.contains("ready") || text.contains("standby"))
    });
}

/// How a run ended.
#[derive(Debug)]
pub(crate) struct Finished {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Finished {
    /// The run's JSON, when it went well.
    pub(crate) fn json(&self) -> Value {
        assert_eq!(self.code, Some(0), "{}", self.stderr);
        self.any_json()
    }

    /// The run's JSON, however it ended.
    pub(crate) fn any_json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|_| panic!("{self:?}"))
    }

    /// Checks that the run was refused, and with which words.
    pub(crate) fn refused(&self, words: &[&str]) {
        assert_eq!(self.code, Some(2), "{self:?}");
        for word in words {
            assert!(self.stderr.contains(word), "no `{word}` in: {}", self.stderr);
        }
    }

    /// Checks that a warning of this code was given.
    pub(crate) fn warned(&self, code: &str) {
        let json = self.any_json();
        let warnings = json["warnings"].as_array().unwrap();
        assert!(warnings.iter().any(|warning| warning["code"] == code), "{code}: {warnings:?}");
    }
}

pub(crate) fn count(json: &Value, name: &str) -> u64 {
    json["throughput"][name].as_u64().unwrap()
}

/// `lockscope run --no-trace --json` with `arguments`, free of the caller's `PG*` variables.
pub(crate) fn lockscope(arguments: &str) -> Command {
    let mut command = lockscope_itself();
    command.args(["run", "--no-trace", "--json"]).args(arguments.split_whitespace());
    command
}

/// `lockscope load --json` with `arguments`.
pub(crate) fn load(arguments: &str) -> Command {
    let mut command = lockscope_itself();
    command.args(["load", "--json"]).args(arguments.split_whitespace());
    command
}

/// `lockscope` without arguments, free of the caller's `PG*` variables.
pub(crate) fn lockscope_itself() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lockscope"));
    prepare(&mut command);
    command
}

/// Frees a command of the caller's `PG*` variables and catches what it prints.
pub(crate) fn prepare(command: &mut Command) -> &mut Command {
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("PG")) {
        command.env_remove(name);
    }
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped())
}

pub(crate) fn run(arguments: &str) -> Finished {
    finish(lockscope(arguments).spawn().unwrap())
}

/// Waits for a run, at most a minute.
pub(crate) fn finish(child: Child) -> Finished {
    let pid = Pid::from_raw(child.id().cast_signed());
    let (sender, receiver) = std::sync::mpsc::channel();
    let waiter = std::thread::spawn(move || sender.send(child.wait_with_output().unwrap()));
    let output: Output = receiver.recv_timeout(PATIENCE).unwrap_or_else(|_| {
        kill(pid, Signal::SIGKILL).unwrap();
        panic!("the run does not end");
    });
    waiter.join().unwrap().unwrap();
    Finished {
        code: output.status.code(),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}

/// Waits until `condition` holds.
pub(crate) fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !condition() {
        assert!(Instant::now() < deadline, "it never happened that {what}");
        sleep(Duration::from_millis(20));
    }
}

pub(crate) fn entries(directory: &Path) -> Vec<PathBuf> {
    fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect()
}

/// A directory that the server's user may enter.
pub(crate) fn open_directory() -> TempDir {
    let directory = tempfile::Builder::new().prefix("lsc-").tempdir().unwrap();
    give_away(directory.path());
    directory
}

/// Processes that work in `directory` or below.
pub(crate) fn processes_in(directory: &Path) -> Vec<u32> {
    let pids = fs::read_dir("/proc")
        .unwrap()
        .filter_map(|entry| entry.unwrap().file_name().to_str()?.parse::<u32>().ok());
    pids.filter(|pid| {
        fs::read_link(format!("/proc/{pid}/cwd")).is_ok_and(|cwd| cwd.starts_with(directory))
    })
    .collect()
}

fn program(name: &str) -> PathBuf {
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let mut candidates: Vec<PathBuf> =
        versions.map(|version| version.path().join("bin").join(name)).collect();
    candidates.extend(which::which(name));
    candidates.sort();
    candidates.into_iter().rfind(|path| path.exists()).expect("Postgres is installed")
}

fn server_user() -> Option<User> {
    geteuid().is_root().then(|| User::from_name("postgres").unwrap().expect("user postgres"))
}

fn give_away(path: &Path) {
    if let Some(user) = server_user() {
        chown(path, Some(user.uid.as_raw()), Some(user.gid.as_raw())).unwrap();
    }
}

fn as_server_user(program: &Path) -> Command {
    let mut command = Command::new(program);
    command.current_dir("/").stdin(Stdio::null()).stdout(Stdio::null());
    if let Some(user) = server_user() {
        command.uid(user.uid.as_raw()).gid(user.gid.as_raw());
    }
    command
}
