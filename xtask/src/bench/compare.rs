//! `lockscope compare` of two runs of an hour: how long it takes, and how much memory.

use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result};
use clap::Args;
use serde_json::{Value, json};

use super::child::finish;
use super::machine;
use super::pairs::Spread;
use crate::shell::{target_dir, workspace_root};

/// A run with every part of a report, whose intervals are replaced.
const PATTERN: &str = "tracer/tests/fixtures/vm-6.1-contended.lockscope";
/// Lock classes of each interval.
const CLASSES: [&str; 8] =
    ["osq", "mutex_owner", "mutex_spin", "rwsem_owner", "qspinlock", "rq", "rwlock", "rt"];
/// Locks that a run keeps.
const LOCKS: usize = 200;

#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct Options {
    /// Intervals of each run
    #[arg(long, default_value = "3600")]
    intervals: u64,
    /// Comparisons
    #[arg(long, default_value = "10")]
    repetitions: usize,
}

pub(super) fn run(options: Options) -> Result<()> {
    println!("{}", machine::describe());
    let directory = tempfile::tempdir().context("cannot create a temporary directory")?;
    let path = |name: &str| directory.path().join(name).display().to_string();
    let (base, new) = (path("base.lockscope"), path("new.lockscope"));
    write_run(Path::new(&base), options.intervals, 1)?;
    write_run(Path::new(&new), options.intervals, 2)?;
    let (mut walls, mut cpus, mut largest) = (Vec::new(), Vec::new(), 0);
    for _ in 0..options.repetitions {
        let lockscope = target_dir().join("release/lockscope");
        let done = finish(Command::new(lockscope).args(["compare", &base, &new]))?;
        walls.push(done.wall.as_secs_f64() * 1e3);
        cpus.push(done.cpu_ns as f64 / 1e6);
        largest = largest.max(done.max_rss_bytes);
    }
    println!(
        "compare of two runs of {} intervals, {} times:",
        options.intervals, options.repetitions
    );
    for (name, values, goal) in [("time", walls, "at most 500 ms"), ("CPU time", cpus, "no goal")] {
        if let Some(spread) = Spread::of(values) {
            println!("{name}: median {spread:.0} ms ({goal})");
        }
    }
    println!("memory: at most {:.0} MiB (at most 200 MiB)", largest as f64 / 1024.0 / 1024.0);
    Ok(())
}

/// An hour of values that vary by some percent, and a full lock table.
fn write_run(path: &Path, count: u64, seed: u64) -> Result<()> {
    let pattern = workspace_root().join(PATTERN);
    let text = std::fs::read_to_string(&pattern)
        .with_context(|| format!("cannot read {}", pattern.display()))?;
    let mut run: Value = serde_json::from_str(&text).context("the pattern is no JSON")?;
    let mut state = seed;
    let mut about = |value: f64| {
        // Knuth's MMIX generator; the upper bits are the good ones.
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        value * (0.95 + 0.1 * ((state >> 11) as f64 / (1_u64 << 53) as f64))
    };
    let intervals = (0..count).map(|index| interval(index, &mut about));
    run["intervals"] = intervals.collect();
    let locks = run["locks"].as_array().cloned().context("the pattern has no locks")?;
    let many = (0..LOCKS).map(|index| {
        let mut lock = locks[index % locks.len()].clone();
        lock["name"] = json!(format!("lock_{index}"));
        lock
    });
    run["locks"] = many.collect();
    std::fs::write(path, run.to_string())
        .with_context(|| format!("cannot write {}", path.display()))
}

fn interval(index: u64, about: &mut impl FnMut(f64) -> f64) -> Value {
    let spin: serde_json::Map<String, Value> =
        CLASSES.iter().map(|class| ((*class).to_owned(), json!(about(1_000.0)))).collect();
    let queued = about(20_000.0);
    json!({
        "start_ns": index * 1_000_000_000,
        "duration_ns": 1_000_000_000_u64,
        "tps": about(20_000.0),
        "latency_ns": about(150_000.0) as u64,
        "latency_p99_ns": about(900_000.0) as u64,
        "per_transaction_ns": {
            "cpu": about(90_000.0),
            "runq": queued,
            "runq_by_cause": { "queued": queued },
            "io": about(100.0),
            "irq": about(10.0),
            "spin": spin,
            "lock_sleep": { "rwsem": about(500.0), "mutex": about(500.0) },
            "wait": { "LWLock": about(3_000.0), "IPC": about(100.0) },
            "client_and_transport": about(30_000.0),
        },
    })
}
