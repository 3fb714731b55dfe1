//! The benchmarks that run here, for a user who has to name one.

use std::collections::BTreeSet;
use std::fmt;

use super::command::base_name;
use super::peers::client_processes;
use super::processes::{Process, ProcessTable};
use super::role::CLIENT_BACKEND;
use super::servers::RunningServer;
use crate::kernel::task::command_line;

/// Columns of a command line that are shown.
const SHOWN: usize = 70;

/// A client program that is known to be one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Benchmark {
    /// Its process.
    pub pid: u32,
    /// `pgbench`, `sysbench`, `HammerDB`.
    pub name: &'static str,
    /// Its command line, without what looks like a password.
    pub command: String,
}

impl fmt::Display for Benchmark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (pid {}: {})", self.name, self.pid, self.command)
    }
}

/// By their programs. HammerDB is a Tcl script: its name stands among the arguments.
pub fn running_benchmarks(processes: &ProcessTable) -> Vec<Benchmark> {
    processes.iter().filter_map(|process| benchmark(process.pid)).collect()
}

fn benchmark(pid: u32) -> Option<Benchmark> {
    let words = command_line(pid);
    let name = name_of(&words)?;
    let command = crate::load::scrub_arguments(words).join(" ");
    let shown: String = command.chars().take(SHOWN).collect();
    let ellipsis = if shown.len() < command.len() { "…" } else { "" };
    Some(Benchmark { pid, name, command: format!("{shown}{ellipsis}") })
}

fn name_of(words: &[String]) -> Option<&'static str> {
    let program = base_name(words.first()?);
    match program.as_str() {
        "pgbench" => Some("pgbench"),
        "sysbench" => Some("sysbench"),
        own if own.to_lowercase().starts_with("hammerdb") => Some("HammerDB"),
        tcl if tcl.starts_with("tclsh") || tcl.starts_with("wish") => {
            let is_hammer = |word: &String| base_name(word).to_lowercase().starts_with("hammerdb");
            words.iter().skip(1).any(is_hammer).then_some("HammerDB")
        }
        _ => None,
    }
}

/// Who is connected to a server, by name and pid; empty where the kernel does not tell.
pub fn clients_of(server: &RunningServer, processes: &ProcessTable) -> Vec<String> {
    let children = processes.children(server.postmaster).into_iter();
    let backends = children.filter(|process| process.role() == CLIENT_BACKEND);
    let backends: BTreeSet<u32> = backends.map(|process| process.pid).collect();
    if backends.is_empty() {
        return Vec::new();
    }
    let clients = client_processes(processes, &backends).unwrap_or_default();
    let clients = clients.into_iter().filter_map(|pid| processes.of(pid));
    clients.map(|Process { pid, comm, .. }| format!("{comm} (pid {pid})")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(line: &str) -> Option<&'static str> {
        name_of(&line.split(' ').map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn benchmarks_go_by_their_program() {
        assert_eq!(name("/usr/lib/postgresql/15/bin/pgbench -S"), Some("pgbench"));
        assert_eq!(name("sysbench oltp_read_only run"), Some("sysbench"));
        assert_eq!(name("tclsh8.6 ./hammerdbcli auto run.tcl"), Some("HammerDB"));
        assert_eq!(name("/opt/HammerDB-5.0/hammerdbws run.tcl"), Some("HammerDB"));
        assert_eq!(name("tclsh8.6 other.tcl"), None);
        assert_eq!(name("vim pgbench.c"), None);
    }
}
