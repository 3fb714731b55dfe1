//! What lockscope must not leave behind.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use std::{env, fs};

use anyhow::{Context as _, Result, bail};
use serde_json::Value;

use crate::command::wait_until;
use crate::postgres::processes_in;

/// The kernel frees programs a moment after their last holder is gone.
const SETTLE_LIMIT: Duration = Duration::from_secs(30);

/// The eBPF programs in the kernel, by id.
///
/// # Errors
/// When bpftool is missing or may not look.
pub fn bpf_programs() -> Result<BTreeSet<u64>> {
    let tool = find_bpftool().context("bpftool is missing; `cargo xtask setup` installs it")?;
    let output = Command::new(tool)
        .args(["prog", "show", "--json"])
        .output()
        .context("cannot start bpftool")?;
    if !output.status.success() {
        bail!("bpftool failed: {}", String::from_utf8_lossy(&output.stderr));
    }
    let programs: Vec<Value> = serde_json::from_slice(&output.stdout).context("bpftool's JSON")?;
    Ok(programs.iter().filter_map(|program| program["id"].as_u64()).collect())
}

fn find_bpftool() -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let system = ["/usr/sbin", "/usr/local/sbin", "/sbin"].map(PathBuf::from);
    env::split_paths(&path).chain(system).map(|dir| dir.join("bpftool")).find(|tool| tool.exists())
}

/// Nothing is left of a run that kept its server in `dir`: no file, no process, no program.
///
/// # Errors
/// Says what is left.
pub fn nothing_left(dir: &Path, programs_before: &BTreeSet<u64>) -> Result<()> {
    let files: Vec<PathBuf> = fs::read_dir(dir)
        .context("cannot list the directory")?
        .flatten()
        .map(|entry| entry.path())
        .collect();
    if !files.is_empty() {
        bail!("left behind: {files:?}");
    }
    let processes = processes_in(dir);
    if !processes.is_empty() {
        bail!("still running: {processes:?}");
    }
    no_program_left(programs_before)
}

/// No program is left of processes that have ended.
///
/// # Errors
/// Says which are.
pub fn no_program_left(before: &BTreeSet<u64>) -> Result<()> {
    let left = || -> Result<BTreeSet<u64>> {
        // In this order: what begins in between is held by somebody who lives.
        let now = bpf_programs()?;
        let held = held_programs();
        Ok(now.into_iter().filter(|id| !before.contains(id) && !held.contains(id)).collect())
    };
    let is_clean = || left().is_ok_and(|left| left.is_empty());
    wait_until(SETTLE_LIMIT, is_clean)
        .with_context(|| format!("eBPF programs were left: {:?}", left()))
}

/// The programs that some living process holds, other tracers on this machine above all.
fn held_programs() -> BTreeSet<u64> {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let descriptors = processes
        .flat_map(|process| fs::read_dir(process.path().join("fdinfo")).into_iter().flatten())
        .flatten();
    let ids = descriptors.filter_map(|descriptor| {
        let text = fs::read_to_string(descriptor.path()).ok()?;
        let id = text.lines().find_map(|line| line.strip_prefix("prog_id:"))?;
        id.trim().parse().ok()
    });
    ids.collect()
}
