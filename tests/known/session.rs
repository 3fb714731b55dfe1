//! Running loads while they are watched.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use nix::sys::signal::Signal;
use serde_json::Value;

use super::{Counts, Load, Perf, Reference, Totals};
use crate::command::{Running, lockscope, wait_until};
use crate::traced::Run;

/// Emulated CPUs take their time.
const LIMIT: Duration = Duration::from_secs(240);
/// Room for every wait's stack and tid.
const RING_BYTES: &str = "16777216";

/// What to run, and how to watch it.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The loads, in this order.
    pub loads: Vec<&'static Load>,
    /// How long each goes on.
    pub seconds: f64,
    /// The server of the small benchmark beside them.
    pub dsn: String,
    /// Where the stressors are.
    pub stressors: PathBuf,
    /// Where everything that was printed is kept.
    pub results: PathBuf,
    /// Whether bpftrace counts along.
    pub reference: bool,
    /// Whether perf records along.
    pub perf: bool,
    /// More options for lockscope.
    pub options: Vec<String>,
}

/// What was seen.
#[derive(Debug)]
pub struct Seen {
    /// lockscope's JSON.
    pub run: Run,
    /// Each load with the line it printed.
    pub lines: Vec<(&'static Load, Value)>,
    /// What bpftrace counted.
    pub counts: Option<Counts>,
    /// What perf recorded.
    pub totals: Option<Totals>,
}

/// Runs the loads one after the other. All their processes are there before lockscope is, so that it
/// sees every wait of theirs.
///
/// # Errors
/// When anything fails to start, to do its work or to end.
pub fn watch(plan: &Plan) -> Result<Seen> {
    let loads = plan.loads.iter().map(|load| Waiting::start(load, plan));
    let loads = loads.collect::<Result<Vec<_>>>()?;
    let pids: Vec<u32> = loads.iter().map(|load| load.child.id()).collect();
    let tracer = trace(plan, &pids)?;
    let reference = plan.reference.then(|| Reference::start(&pids, &plan.results)).transpose()?;
    let perf = plan.perf.then(|| Perf::start(&plan.results)).transpose()?;
    let lines = loads.into_iter().map(Waiting::work).collect::<Result<Vec<_>>>()?;
    let counts = reference.map(Reference::finish).transpose()?;
    let totals = perf.map(Perf::finish).transpose()?;
    tracer.signal(Signal::SIGINT)?;
    let done = tracer.wait()?;
    fs::write(plan.results.join("run.json"), &done.stdout).context("cannot keep the run")?;
    if done.code != Some(0) {
        bail!("lockscope ended with {:?}: {}", done.code, done.stderr);
    }
    Ok(Seen { run: Run::of(&done)?, lines, counts, totals })
}

/// Starts lockscope and waits until it measures.
fn trace(plan: &Plan, pids: &[u32]) -> Result<Running> {
    let mut words = ["run", "-S", "-M", "prepared", "--no-init", "--no-vacuum", "-c", "1"].to_vec();
    words.extend(["-T", "600", "--warmup", "0", "--no-control", "--json", "--progress", "0.1"]);
    words.extend(["--no-profile", "--no-counters"]);
    words.extend(["--sample-every", "1", "--ring-bytes", RING_BYTES, "--dsn", &plan.dsn]);
    let pids: Vec<String> = pids.iter().map(ToString::to_string).collect();
    words.extend(pids.iter().flat_map(|pid| ["--also-pid", pid]));
    words.extend(plan.options.iter().map(String::as_str));
    let mut running = Running::start(&mut lockscope(&words))?;
    let mut ended = false;
    wait_until(LIMIT, || {
        ended = running.has_ended().unwrap_or(true);
        ended || running.said().contains("progress: ")
    })
    .context("lockscope does not begin to measure")?;
    if ended {
        bail!("lockscope ended before it measured: {}", running.wait()?.stderr);
    }
    Ok(running)
}

/// A stressor that waits for the sign to start; ended when dropped.
struct Waiting {
    load: &'static Load,
    child: Child,
    output: PathBuf,
}

impl Waiting {
    fn start(load: &'static Load, plan: &Plan) -> Result<Self> {
        let (program, arguments) = load.command.split_first().context("a load without program")?;
        let output = plan.results.join(format!("{}.json", load.name));
        let stdout = fs::File::create(&output).context("cannot keep the stressor's output")?;
        let child = Command::new(plan.stressors.join(format!("stress-{program}")))
            .args(arguments)
            .args(["--seconds", &plan.seconds.to_string(), "--wait"])
            .stdin(Stdio::piped())
            .stdout(stdout)
            .spawn()
            .with_context(|| format!("cannot start stress-{program}"))?;
        Ok(Self { load, child, output })
    }

    fn work(mut self) -> Result<(&'static Load, Value)> {
        // The end of its input is the sign.
        drop(self.child.stdin.take());
        wait_until(LIMIT, || self.child.try_wait().is_ok_and(|status| status.is_some()))
            .with_context(|| format!("{} does not end", self.load.name))?;
        let status = self.child.wait().context("cannot wait for a stressor")?;
        if !status.success() {
            bail!("{} failed: {status}", self.load.name);
        }
        let line = read_line(&self.output).with_context(|| format!("of {}", self.load.name))?;
        Ok((self.load, line))
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        // Most have ended by themselves.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn read_line(path: &Path) -> Result<Value> {
    let text = fs::read_to_string(path).context("cannot read the line")?;
    serde_json::from_str(&text).with_context(|| format!("`{text}` is no line of JSON"))
}
