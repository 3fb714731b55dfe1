//! Traced runs: one at a time on a machine, whichever test wants one.

use std::fs::{File, OpenOptions};
use std::process::Command;
use std::sync::LazyLock;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use serde_json::Value;

use crate::command::{Finished, Running, finish, lockscope, skip};

/// Somebody else on this machine may be tracing.
const PATIENCE: Duration = Duration::from_secs(120);
/// The load of most cases: short, with the programs on all the time.
pub const BRIEF: [&str; 8] =
    ["--workload", "select-prepared", "-T", "1", "--warmup", "0", "--no-control", "--quiet"];

static CAN_TRACE: LazyLock<bool> = LazyLock::new(|| {
    let doctor = finish(&mut lockscope(&["doctor"])).expect("doctor ends");
    doctor.code == Some(0)
});

/// The right to trace, among all tests of all processes; given back when dropped.
#[derive(Debug)]
pub struct Turn {
    _lock: File,
}

impl Turn {
    /// Waits for it. `None`, and said so, where this machine cannot trace at all.
    ///
    /// # Panics
    /// When the lock file cannot be made or the `lockscope` under test cannot be run.
    #[must_use]
    pub fn take(case: &str) -> Option<Self> {
        let path = std::env::temp_dir().join("lockscope-tests.lock");
        let mut options = OpenOptions::new();
        let lock = options.create(true).truncate(false).write(true).open(path).expect("a file");
        lock.lock().expect("locked");
        if !*CAN_TRACE {
            skip(case, "`lockscope doctor` says that nothing can be traced here");
            return None;
        }
        Some(Self { _lock: lock })
    }

    /// `lockscope run` to its end.
    ///
    /// # Panics
    /// When it cannot be run, or the machine is always being traced by somebody else.
    #[must_use]
    pub fn run(&self, words: &[&str]) -> Finished {
        self.finish(|| run_command(words))
    }

    /// The same with a command that needs more than words.
    ///
    /// # Panics
    /// As `run`.
    #[must_use]
    pub fn finish(&self, command: impl Fn() -> Command) -> Finished {
        let began = Instant::now();
        loop {
            let done = finish(&mut command()).expect("it ends");
            if !is_taken(&done) {
                return done;
            }
            assert!(began.elapsed() < PATIENCE, "{}", done.stderr);
            thread::sleep(Duration::from_millis(500));
        }
    }

    /// Starts `lockscope run` and waits until it measures.
    ///
    /// # Errors
    /// It ends before, with its words.
    pub fn start(&self, words: &[&str]) -> Result<Running> {
        let began = Instant::now();
        let words = [words, &["--progress", "0.1"]].concat();
        loop {
            let mut running = Running::start(&mut run_command(&words))?;
            while !running.has_ended()? {
                if running.said().contains("progress: ") {
                    return Ok(running);
                }
                thread::sleep(Duration::from_millis(20));
            }
            let done = running.wait()?;
            if !is_taken(&done) || began.elapsed() > PATIENCE {
                bail!("it ended ({:?}) before it measured: {}", done.code, done.stderr);
            }
            thread::sleep(Duration::from_millis(500));
        }
    }
}

fn run_command(words: &[&str]) -> Command {
    lockscope(&[&["run"], words].concat())
}

/// Refused because of a tracer that is no test's.
fn is_taken(done: &Finished) -> bool {
    matches!(done.code, Some(2 | 125)) && done.stderr.contains("another lockscope")
}

/// A run's JSON.
#[derive(Debug)]
pub struct Run(pub Value);

impl Run {
    /// What a run printed with `--json`.
    ///
    /// # Errors
    /// It printed something else.
    pub fn of(done: &Finished) -> Result<Self> {
        let value = serde_json::from_str(&done.stdout);
        Ok(Self(value.with_context(|| format!("{:?}: {}", done.code, done.stderr))?))
    }

    /// A number at a JSON pointer; 0 where there is none.
    #[must_use]
    pub fn count(&self, pointer: &str) -> u64 {
        self.0.pointer(pointer).and_then(Value::as_u64).unwrap_or(0)
    }

    /// The elements of a list.
    #[must_use]
    pub fn list(&self, name: &str) -> Vec<&Value> {
        self.0[name].as_array().map(|list| list.iter().collect()).unwrap_or_default()
    }

    /// The codes of the warnings.
    #[must_use]
    pub fn warnings(&self) -> Vec<&str> {
        self.list("warnings").iter().filter_map(|warning| warning["code"].as_str()).collect()
    }

    /// How often a loss occurred.
    ///
    /// # Panics
    /// When the run does not count that loss.
    #[must_use]
    pub fn loss(&self, kind: &str) -> u64 {
        self.0["losses"][kind].as_u64().unwrap_or_else(|| panic!("{kind}: {}", self.0["losses"]))
    }

    /// Transactions that all backends ended.
    #[must_use]
    pub fn backends_transactions(&self) -> u64 {
        let tasks = self.list("backends");
        tasks.iter().filter_map(|task| task["transactions_count"].as_u64()).sum()
    }

    /// How a capability is attached.
    #[must_use]
    pub fn method(&self, capability: &str) -> &str {
        let probes = self.list("probes");
        let found = probes.into_iter().find(|probe| probe["capability"] == capability);
        found.and_then(|probe| probe["method"].as_str()).unwrap_or("none")
    }
}

/// All of a `per_transaction_ns`: its states and what is left of the latency.
///
/// # Panics
/// When a member is neither a number nor numbers by class.
#[must_use]
pub fn account_sum(account: &Value) -> f64 {
    let account = account.as_object().expect("an account");
    // The sum of its causes, which are there too.
    let members = account.iter().filter(|(name, _)| *name != "runq");
    let of = |(name, value): (&String, &Value)| match value.as_object() {
        Some(classes) => classes.values().filter_map(Value::as_f64).sum(),
        None => value.as_f64().unwrap_or_else(|| panic!("{name}: {value}")),
    };
    members.map(of).sum()
}
