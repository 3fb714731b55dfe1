//! A Postgres server's programs, without a running service.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail};

use super::{apt, say};
use crate::shell::{capture, find_program};

const PROGRAMS: [&str; 3] = ["initdb", "postgres", "pgbench"];
const CLUSTER_CONFIG: &str = "/etc/postgresql-common/createcluster.conf";

/// Makes sure that initdb, postgres and pgbench are there.
pub(super) fn ensure() -> Result<()> {
    if bin_dir().is_some() {
        return Ok(());
    }
    if !apt::is_available() {
        bail!("no Postgres server found; install one with initdb, postgres and pgbench");
    }
    let server = server_package()?;
    say(&format!(
        "no Postgres server: installing {server} (no cluster is created, no service started)"
    ));
    apt::install_missing(&["postgresql-common".to_owned()])?;
    without_default_cluster(|| apt::install_missing(std::slice::from_ref(&server)))
}

/// The directory that has all of them.
pub(super) fn bin_dir() -> Option<PathBuf> {
    let has_all = |dir: &PathBuf| PROGRAMS.iter().all(|program| dir.join(program).exists());
    bin_dirs().into_iter().find(has_all)
}

/// Where Postgres's programs may be, as `lockscope run` looks for them.
fn bin_dirs() -> Vec<PathBuf> {
    let on_path = find_program("initdb").and_then(|path| path.parent().map(Path::to_path_buf));
    let configured = capture(Command::new("pg_config").arg("--bindir")).ok();
    let packaged = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    on_path
        .into_iter()
        .chain(configured.map(|dir| PathBuf::from(dir.trim())))
        .chain(packaged.map(|entry| entry.path().join("bin")))
        .collect()
}

/// `postgresql-15` and the like: what the distribution's `postgresql` stands for.
fn server_package() -> Result<String> {
    let find = || {
        apt::dependencies("postgresql").into_iter().find(|name| {
            name.strip_prefix("postgresql-").is_some_and(|version| version.parse::<u32>().is_ok())
        })
    };
    if let Some(package) = find() {
        return Ok(package);
    }
    apt::update()?;
    find().context("apt knows no `postgresql` package; add a source that has it")
}

/// Debian's server packages create and start a cluster when installed, unless this file forbids it.
/// The file gets its old content back afterwards: later installations behave as before.
fn without_default_cluster(install: impl FnOnce() -> Result<()>) -> Result<()> {
    let before = fs::read_to_string(CLUSTER_CONFIG)
        .with_context(|| format!("cannot read {CLUSTER_CONFIG}"))?;
    fs::write(CLUSTER_CONFIG, format!("{before}\ncreate_main_cluster = false\n"))
        .with_context(|| format!("cannot write {CLUSTER_CONFIG}"))?;
    let installed = install();
    fs::write(CLUSTER_CONFIG, before)
        .with_context(|| format!("cannot restore {CLUSTER_CONFIG}"))?;
    installed
}
