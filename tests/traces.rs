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

/// Programs of other tracers come and go on a shared machine; lockscope's own would stay.
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
    let is_clean = || bpf_programs().is_ok_and(|now| now.is_subset(programs_before));
    wait_until(SETTLE_LIMIT, is_clean).with_context(|| {
        format!("eBPF programs were left: {:?}", bpf_programs().map(|now| &now - programs_before))
    })
}
