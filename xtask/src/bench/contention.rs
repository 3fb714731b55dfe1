//! A lock whose contention can be turned off: how much of the loss `lockscope ab` accounts for, and whether the
//! estimate of what its removal would buy holds (`docs/scenarios.md`).

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use anyhow::{Context as _, Result};
use clap::Args;
use serde_json::Value;

use super::child::finish;
use super::lockscope::Lockscope;
use super::machine;
use super::server::Server;
use crate::shell::{cargo, run as run_command, target_dir};

/// Its rows do not fit into 64 kB: they go to a file in `pgsql_tmp`.
const SPILL: &str = "SELECT count(*) FROM generate_series(1, 3000);\n";

#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Rounds of both sides
    #[arg(long, default_value = "5")]
    rounds: u32,
    /// Measured seconds of each run
    #[arg(long, default_value = "5")]
    seconds: u32,
    /// Clients
    #[arg(long, default_value = "4")]
    clients: u32,
    /// The CPUs that server, load and tracer share
    #[arg(long, default_value = "0,1")]
    cpus: String,
}

pub(super) fn run(options: &Options) -> Result<()> {
    let stressor = ["build", "--package", "lockscope-tests", "--bin", "stress-list"];
    run_command(cargo().args(stressor))?;
    println!("{}", machine::describe());
    let server = Server::start(&options.cpus)?;
    server.execute("ALTER ROLE CURRENT_USER SET work_mem = '64kB'")?;
    let lockscope = Lockscope::new(&server);
    let directory = tempfile::tempdir().context("cannot create a directory")?;
    let own = directory.path().join("own");
    let held = directory.path().join("held");
    fs::create_dir(&own).context("cannot create a directory")?;
    symlink(&own, &held).context("cannot make a link")?;
    let script = directory.path().join("spill.sql");
    fs::write(&script, SPILL).context("cannot write the script")?;
    // Postgres makes that directory when it first needs it.
    server.execute(SPILL)?;
    let _neighbour = Neighbour::start(&held)?;

    let runs = directory.path().join("runs");
    let hold = |what: &Path| format!("ln -sfn {} {}", what.display(), held.display());
    let mut command = lockscope.command(&["ab", "--json", "--control-rounds", "0"]);
    let clients = format!("client={}", options.clients);
    command
        .args(["--rounds", &options.rounds.to_string(), "--a", &clients, "--b", &clients])
        .args(["--setup-a", &hold(&own)])
        .args(["--setup-b", &hold(&server.data().join("base/pgsql_tmp"))])
        .arg("-o")
        .arg(&runs)
        .args(["--", "--quiet", "--no-init", "--no-vacuum", "--dsn", lockscope.dsn()])
        .args(["-T", &options.seconds.to_string(), "-f"])
        .arg(&script);
    let comparison =
        serde_json::from_str(&finish(&mut command)?.stdout).context("the comparison is no JSON")?;
    println!("layout: server and client on CPUs {}; {} clients", options.cpus, options.clients);
    accounted(&comparison)?;
    bounds(&runs, options.rounds)
}

/// How much of what a transaction takes longer is waiting for which lock.
fn accounted(comparison: &Value) -> Result<()> {
    let parts = comparison.pointer("/decompositions/0").context("nothing was decomposed")?;
    let loss_ns = number(parts, "/new_ns")? - number(parts, "/base_ns")?;
    println!("mean latency longer by {:.0} us, of which waits for", loss_ns / 1e3);
    let rows = parts["parts"].as_array().context("no parts")?;
    for part in rows.iter().filter(|part| part["lock"].is_object()) {
        let (part_ns, lock) = (number(part, "/difference_ns")?, &part["lock"]["name"]);
        let share = 100.0 * part_ns / loss_ns;
        if share.abs() >= 1.0 {
            println!("  {}: {share:.1} % (goal: at least 90 %)", lock.as_str().unwrap_or_default());
        }
    }
    Ok(())
}

/// What the contended runs promise without the lock, beside the same round without the contention.
fn bounds(runs: &Path, rounds: u32) -> Result<()> {
    println!("round  contended  at least  rest as now  at most  measured without  within");
    let mut within_count = 0;
    for round in 1..=rounds {
        let load = |side: &str| -> Result<Value> {
            let path = runs.join(format!("{side}{round}.lockscope"));
            let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
            serde_json::from_str(&text).with_context(|| path.display().to_string())
        };
        let (without, with) = (number(&load("a")?, "/throughput/tps")?, load("b")?);
        let now = number(&with, "/throughput/tps")?;
        let bound = |name: &str| number(&with, &format!("/removal/bounds/{name}"));
        let (low, rest, high) = (bound("tps_low")?, bound("tps_rest_as_now")?, bound("tps_high")?);
        let is_within = (low..=high).contains(&without);
        within_count += u32::from(is_within);
        let beyond = without / if without > high { high } else { low } - 1.0;
        let word = if is_within { "yes".to_owned() } else { format!("{:+.0} %", 100.0 * beyond) };
        println!(
            "{round:>5}  {now:>9.0}  {low:>8.0}  {rest:>11.0}  {high:>7.0}  {without:>16.0}  {word}"
        );
    }
    println!("within the bounds: {within_count} of {rounds}");
    Ok(())
}

fn number(value: &Value, pointer: &str) -> Result<f64> {
    let found = value.pointer(pointer).and_then(Value::as_f64);
    found.with_context(|| format!("lockscope's JSON has no {pointer}"))
}

/// Lists the directory to which a link leads, slowly; ended when dropped.
struct Neighbour(Child);

impl Neighbour {
    fn start(link: &Path) -> Result<Self> {
        let mut command = Command::new(target_dir().join("debug/stress-list"));
        command.args(["--seconds", "86400", "--path"]).arg(link);
        let started = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn();
        Ok(Self(started.context("cannot start stress-list")?))
    }
}

impl Drop for Neighbour {
    fn drop(&mut self) {
        // Where it is gone already, the rounds have shown it.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
