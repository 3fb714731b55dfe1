//! `cargo xtask demo`: from a bare machine to a first report.

use std::process::Command;

use anyhow::{Result, bail};

use crate::setup::{self, Part};
use crate::shell::{cargo, is_root, run, target_dir};

const SECONDS: &str = "10";

/// Installs what is missing, builds, and measures a throw-away Postgres with tracing.
pub(crate) fn run_demo(arguments: &[String]) -> Result<()> {
    if !is_root() {
        bail!("tracing the kernel needs root; run `sudo -E env \"PATH=$PATH\" cargo xtask demo`");
    }
    setup::ensure(&[Part::Build, Part::Postgres])?;
    run(cargo().args(["build", "--package", "lockscope"]))?;
    let mut command = Command::new(target_dir().join("debug/lockscope"));
    command.args(["run", "--workload", "select-prepared", "-T", SECONDS]).args(arguments);
    run(&mut command)
}
