//! pgbench, the yardstick.

use std::ffi::OsString;
use std::process::Command;

use anyhow::{Context as _, Result};

use super::child::{Finished, finish, pinned};
use super::server::Server;

const TRANSACTIONS: &str = "number of transactions actually processed: ";

/// A run and what it used.
#[derive(Debug)]
pub(super) struct Run {
    pub(super) transactions: u64,
    pub(super) cpu_ns: u64,
}

/// Makes the tables.
pub(super) fn fill(server: &Server) -> Result<()> {
    finish(command(server).args(["--initialize", "--quiet"])).map(drop)
}

/// What `pgbench` with `options` says at its end.
pub(super) fn report(server: &Server, options: &[&str]) -> Result<String> {
    Ok(finish(command(server).args(options))?.stdout)
}

/// The same as a command line, for somebody else to run on the same CPUs.
pub(super) fn line(server: &Server, options: &[&str]) -> Vec<OsString> {
    let mut command = command(server);
    command.args(options);
    let program = std::iter::once(command.get_program());
    program.chain(command.get_args()).map(OsString::from).collect()
}

/// `pgbench` with `options`.
pub(super) fn run(server: &Server, options: &[&str]) -> Result<Run> {
    let finished = finish(command(server).arg("--no-vacuum").args(options))?;
    Ok(Run { transactions: transactions(&finished)?, cpu_ns: finished.cpu_ns })
}

fn command(server: &Server) -> Command {
    let mut command = pinned(server.cpus(), server.program("pgbench"));
    command.arg("--host").arg(server.dir()).arg(format!("--username={}", Server::USER));
    // The letter of the database differs between pgbench's versions; as a word it is understood.
    command.arg(Server::USER);
    command
}

fn transactions(finished: &Finished) -> Result<u64> {
    finished
        .stdout
        .lines()
        .find_map(|line| line.strip_prefix(TRANSACTIONS)?.split('/').next()?.parse().ok())
        .with_context(|| format!("pgbench did not say how much it did:\n{}", finished.stdout))
}
