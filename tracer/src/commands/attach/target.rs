//! Which servers are meant. Where nothing says so, they are listed: lockscope never guesses silently.

use super::{AttachError, view};
use crate::analyse::units::plural;
use crate::attach::ProcessTable;
use crate::attach::benchmarks::{clients_of, running_benchmarks};
use crate::attach::servers::{RunningServer, find_server, running_servers};
use crate::cli::AttachArgs;
use crate::commands::output::say;
use crate::filter::Filter;
use crate::load::server::View;

/// Servers that have an account of their own.
const MOST: usize = 16;

/// Those of `--postgres`. With a command and without the option: the only one that runs, which is said.
pub(super) fn servers(args: &AttachArgs) -> Result<Vec<RunningServer>, AttachError> {
    let processes = ProcessTable::read();
    let mut servers: Vec<RunningServer> = Vec::new();
    for given in &args.postgres {
        let server = find_server(given, &processes)?;
        if servers.contains(&server) {
            return Err(AttachError::SameServer(server.to_string()));
        }
        servers.push(server);
    }
    if servers.len() > MOST {
        return Err(AttachError::TooManyServers { given: servers.len(), most: MOST });
    }
    if !args.client.is_empty() && !args.all && servers.is_empty() {
        return only_server(args, &processes).map(|server| server.into_iter().collect());
    }
    if servers.is_empty() && !args.all && args.filter.names_no_task() {
        let mut known = described(&running_servers(&processes), &processes);
        if let Some(view) = view::open(args)? {
            known += &applications(&view)?;
        }
        return Err(AttachError::NoTarget(known));
    }
    Ok(servers)
}

fn only_server(
    args: &AttachArgs,
    processes: &ProcessTable,
) -> Result<Option<RunningServer>, AttachError> {
    let mut running = running_servers(processes);
    if running.len() > 1 {
        return Err(AttachError::WhichServer(described(&running, processes)));
    }
    let only = running.pop();
    if !args.output.series.quiet {
        say(&match &only {
            Some(server) => format!(
                "lockscope: the command's server is taken to be the only one here ({server})"
            ),
            None => {
                "lockscope: no Postgres server runs here; the command alone is traced".to_owned()
            }
        });
    }
    Ok(only)
}

/// A container's tasks are meant, its servers among them: those have transactions.
pub(super) fn with_container(
    mut servers: Vec<RunningServer>,
    args: &AttachArgs,
    filter: &Filter,
) -> Vec<RunningServer> {
    if servers.is_empty() && filter.tasks.names_container() && !args.all {
        let is_in =
            |server: &RunningServer| filter.tasks.passes(server.postmaster, server.postmaster);
        let running = running_servers(&ProcessTable::read());
        servers.extend(running.into_iter().filter(is_in).take(MOST));
        for server in servers.iter().filter(|_| !args.output.series.quiet) {
            say(&format!("lockscope: the container holds a server ({server})"));
        }
    }
    servers
}

/// The sessions of `--dsn`'s server.
fn applications(view: &View) -> Result<String, AttachError> {
    let found = view.applications()?;
    let of = |(name, count): &(String, u64)| format!("{name} ({})", plural(*count, "session"));
    let found = found.iter().map(of).collect::<Vec<_>>().join(", ");
    let found = if found.is_empty() { "none".to_owned() } else { found };
    Ok(format!("\napplications connected to the server of --dsn: {found}"))
}

/// The servers with their clients, and the benchmarks.
fn described(servers: &[RunningServer], processes: &ProcessTable) -> String {
    let mut lines = vec![match servers.is_empty() {
        true => "no Postgres server runs here".to_owned(),
        false => "Postgres servers that run:".to_owned(),
    }];
    for server in servers {
        let clients = clients_of(server, processes);
        let clients = match clients.is_empty() {
            true => "no client of this machine is connected".to_owned(),
            false => format!("connected: {}", clients.join(", ")),
        };
        lines.push(format!("  {server}; {clients}"));
    }
    let benchmarks = running_benchmarks(processes);
    if !benchmarks.is_empty() {
        lines.push("benchmarks that run:".to_owned());
        lines.extend(benchmarks.iter().map(|benchmark| format!("  {benchmark}")));
    }
    lines.join("\n")
}
