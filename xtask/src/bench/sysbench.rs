//! sysbench, the yardstick for its own workloads.

use std::process::Command;

use anyhow::{Context as _, Result};

use super::child::{Finished, finish, pinned};
use super::pgbench::Run;
use super::server::Server;

const WORKLOAD: &str = "oltp_read_only";
/// Rows of the one table, sysbench's default.
const TABLE_SIZE: &str = "--table-size=10000";
/// How rows are chosen; its default differs between versions.
pub(super) const RANDOM: &str = "--rand-type=uniform";

/// Makes the table; one that is there is made anew.
pub(super) fn fill(server: &Server) -> Result<()> {
    finish(command(server).arg("cleanup"))?;
    finish(command(server).arg("prepare")).map(drop)
}

/// A run with a thread a client.
pub(super) fn run(server: &Server, clients: u32, seconds: u32) -> Result<Run> {
    let options = [format!("--threads={clients}"), format!("--time={seconds}")];
    let finished = finish(command(server).args(options).arg("run"))?;
    Ok(Run { transactions: transactions(&finished)?, cpu_ns: finished.cpu_ns })
}

fn command(server: &Server) -> Command {
    let mut command = pinned(server.cpus(), "sysbench");
    command.args([WORKLOAD, "--db-driver=pgsql", TABLE_SIZE, RANDOM]);
    command.arg(format!("--pgsql-host={}", server.dir().display()));
    command.arg(format!("--pgsql-user={}", Server::USER));
    command.arg(format!("--pgsql-db={}", Server::USER));
    command
}

/// `    transactions:                        12345  (1234.50 per sec.)`
fn transactions(finished: &Finished) -> Result<u64> {
    let count = |line: &str| {
        line.trim().strip_prefix("transactions:")?.split_whitespace().next()?.parse().ok()
    };
    finished
        .stdout
        .lines()
        .find_map(count)
        .with_context(|| format!("sysbench did not say how much it did:\n{}", finished.stdout))
}
