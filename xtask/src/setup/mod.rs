//! What the sub-commands need from the machine: found, or installed after saying so.

mod apt;
mod bpf;
mod llvm;
mod postgres;
mod tools;

use std::path::PathBuf;

use anyhow::{Context as _, Result};

/// A group of needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    /// A linker, a compiler for the eBPF object and bpf-linker.
    Build,
    /// A server to benchmark.
    Postgres,
    /// What the tests on this machine's kernel look at.
    HostTests,
    /// QEMU and what its guests are made of.
    Vm,
}

impl Part {
    pub(crate) const ALL: [Self; 4] = [Self::Build, Self::Postgres, Self::HostTests, Self::Vm];
}

/// Installs what is missing of these parts; does nothing, quickly, when nothing is.
pub(crate) fn ensure(parts: &[Part]) -> Result<()> {
    install(parts).with_context(|| format!("setup on {} is incomplete", apt::distribution()))
}

/// Where initdb, postgres and pgbench are.
pub(crate) fn postgres_bin_dir() -> Result<PathBuf> {
    postgres::bin_dir().context("no Postgres server; `cargo xtask setup` installs one")
}

fn install(parts: &[Part]) -> Result<()> {
    tools::ensure(parts)?;
    if parts.contains(&Part::Build) {
        bpf::ensure()?;
    }
    if parts.contains(&Part::Postgres) {
        postgres::ensure()?;
    }
    Ok(())
}

/// One line about what setup is going to do.
fn say(line: &str) {
    eprintln!("setup: {line}");
}
