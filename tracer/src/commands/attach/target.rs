//! Which servers are meant. Where nothing says so, they are listed: lockscope never guesses silently.

use super::AttachError;
use crate::attach::servers::{RunningServer, find_server, running_servers};
use crate::cli::AttachArgs;
use crate::commands::output::say;

/// Servers that have an account of their own.
const MOST: usize = 16;

/// Those of `--postgres`. With a command and without the option: the only one that runs, which is said.
pub(super) fn servers(args: &AttachArgs) -> Result<Vec<RunningServer>, AttachError> {
    let mut servers: Vec<RunningServer> = Vec::new();
    for given in &args.postgres {
        let server = find_server(given)?;
        if servers.contains(&server) {
            return Err(AttachError::SameServer(server.to_string()));
        }
        servers.push(server);
    }
    if servers.len() > MOST {
        return Err(AttachError::TooManyServers { given: servers.len(), most: MOST });
    }
    if !args.client.is_empty() && !args.all && servers.is_empty() {
        return only_server(args).map(|server| server.into_iter().collect());
    }
    if servers.is_empty() && !args.all && args.filter.names_no_task() {
        return Err(AttachError::NoTarget(described(&running_servers())));
    }
    Ok(servers)
}

fn only_server(args: &AttachArgs) -> Result<Option<RunningServer>, AttachError> {
    let mut running = running_servers();
    if running.len() > 1 {
        return Err(AttachError::WhichServer(described(&running)));
    }
    let only = running.pop();
    if !args.output.quiet {
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

fn described(servers: &[RunningServer]) -> String {
    let servers: Vec<String> = servers.iter().map(RunningServer::to_string).collect();
    match servers.is_empty() {
        true => "no Postgres server runs here".to_owned(),
        false => format!("Postgres servers that run: {}", servers.join("; ")),
    }
}
