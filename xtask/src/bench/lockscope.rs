//! The lockscope that is measured: the release binary.

use std::ffi::OsString;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use serde_json::Value;

use super::child::{Finished, finish, pinned};
use super::server::Server;
use crate::shell::target_dir;

const ANOTHER_TRACES: &str = "another lockscope";
const PATIENCE: Duration = Duration::from_secs(120);
const RETRY: Duration = Duration::from_secs(2);

/// How to start it.
#[derive(Debug)]
pub(super) struct Lockscope {
    dsn: String,
    cpus: String,
}

/// A run and what it used.
#[derive(Debug)]
pub(super) struct Run {
    /// The report, as `--json` gives it.
    pub(super) json: Value,
    /// From exec to the end of the process.
    pub(super) wall: Duration,
    /// CPU time of the whole process.
    pub(super) cpu_ns: u64,
    pub(super) max_rss_bytes: u64,
}

impl Lockscope {
    pub(super) fn new(server: &Server) -> Self {
        let (host, user) = (server.dir().display(), Server::USER);
        Self {
            dsn: format!("host={host} user={user} dbname={user}"),
            cpus: server.cpus().to_owned(),
        }
    }

    /// `lockscope run` of the prepared select, with one worker on the tables that are there.
    pub(super) fn select_prepared(&self, clients: u32, options: &[&str]) -> Result<Run> {
        let mut command = self.command(&["run", "--workload", "select-prepared", "--json"]);
        command.args(["--quiet", "--no-init", "--no-vacuum", "--dsn", &self.dsn]);
        command.args(["-c", &clients.to_string(), "-j", "1"]).args(options);
        Run::of(&finish_alone(&mut command)?)
    }

    /// `lockscope load` on the tables that are there.
    pub(super) fn load(&self, options: &[&str]) -> Result<Run> {
        let mut command = self.command(&["load", "--json", "--quiet", "--no-init", "--no-vacuum"]);
        command.args(["--dsn", &self.dsn]).args(options);
        Run::of(&finish(&mut command)?)
    }

    /// Standard output of a command that lockscope starts and traces.
    pub(super) fn around(&self, options: &[&str], line: &[OsString]) -> Result<String> {
        let mut command = self.command(options);
        command.args(line);
        Ok(finish_alone(&mut command)?.stdout)
    }

    /// Of the server.
    pub(super) fn dsn(&self) -> &str {
        &self.dsn
    }

    /// lockscope with any arguments, on its CPU.
    pub(super) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = pinned(&self.cpus, target_dir().join("release/lockscope"));
        command.args(arguments);
        command
    }
}

/// Only one lockscope may trace at a time: waits for another's end rather than lose the round.
fn finish_alone(command: &mut Command) -> Result<Finished> {
    let began = Instant::now();
    loop {
        match finish(command) {
            Err(error)
                if error.to_string().contains(ANOTHER_TRACES) && began.elapsed() < PATIENCE =>
            {
                eprintln!("another lockscope is tracing; waiting for its end");
                thread::sleep(RETRY);
            }
            finished => return finished,
        }
    }
}

impl Run {
    fn of(finished: &Finished) -> Result<Self> {
        let json = serde_json::from_str(&finished.stdout).context("lockscope's JSON is broken")?;
        let (wall, cpu_ns, max_rss_bytes) =
            (finished.wall, finished.cpu_ns, finished.max_rss_bytes);
        Ok(Self { json, wall, cpu_ns, max_rss_bytes })
    }

    /// A number of the report.
    pub(super) fn number(&self, pointer: &str) -> Option<f64> {
        self.json.pointer(pointer).and_then(Value::as_f64)
    }

    /// The same, where it must be there.
    pub(super) fn require(&self, pointer: &str) -> Result<f64> {
        self.number(pointer).with_context(|| format!("lockscope's JSON has no {pointer}"))
    }

    pub(super) fn tps(&self) -> Result<f64> {
        self.require("/throughput/tps")
    }
}
