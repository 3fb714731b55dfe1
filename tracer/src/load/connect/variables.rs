//! libpq's environment variables and defaults.

use std::env;
use std::path::PathBuf;

use super::servers::{DEFAULT_PORT, socket_name};
use super::target::TargetError;

/// Variables that say which server to use: with one of them set, no embedded server is made.
const SERVER_VARIABLES: &[&str] = &[
    "PGHOST",
    "PGHOSTADDR",
    "PGPORT",
    "PGUSER",
    "PGDATABASE",
    "PGPASSWORD",
    "PGPASSFILE",
    "PGSERVICE",
    "PGSSLMODE",
    "PGSSLROOTCERT",
    "PGTARGETSESSIONATTRS",
    "PGOPTIONS",
];

/// Where distributions and Postgres itself put the socket.
pub(super) const SOCKET_DIRECTORIES: [&str; 2] = ["/var/run/postgresql", "/tmp"];

/// Those that are set.
pub(super) fn that_name_a_server() -> Vec<&'static str> {
    SERVER_VARIABLES.iter().copied().filter(|name| env::var_os(name).is_some()).collect()
}

/// Adds what the `PG*` variables say and the options did not.
pub(super) fn add_variables(config: &mut tokio_postgres::Config) -> Result<(), TargetError> {
    if config.get_hosts().is_empty() && config.get_hostaddrs().is_empty() {
        for host in list_variable("PGHOST") {
            config.host(host);
        }
        for address in list_variable("PGHOSTADDR") {
            let expected = "an IP address";
            config.hostaddr(address.parse().map_err(|_| TargetError::Variable {
                name: "PGHOSTADDR",
                value: address,
                expected,
            })?);
        }
    }
    if config.get_ports().is_empty() {
        for port in list_variable("PGPORT") {
            let expected = "a port number";
            config.port(port.parse().map_err(|_| TargetError::Variable {
                name: "PGPORT",
                value: port,
                expected,
            })?);
        }
    }
    let set = |name: &str, is_set: bool| if is_set { None } else { env::var(name).ok() };
    if let Some(user) = set("PGUSER", config.get_user().is_some()) {
        config.user(user);
    }
    if let Some(database) = set("PGDATABASE", config.get_dbname().is_some()) {
        config.dbname(database);
    }
    if let Some(password) = set("PGPASSWORD", config.get_password().is_some()) {
        config.password(password);
    }
    if let Some(options) = set("PGOPTIONS", config.get_options().is_some()) {
        config.options(options);
    }
    if let Some(name) = set("PGAPPNAME", config.get_application_name().is_some()) {
        config.application_name(name);
    }
    Ok(())
}

fn list_variable(name: &str) -> Vec<String> {
    let value = env::var(name).unwrap_or_default();
    value.split(',').filter(|item| !item.is_empty()).map(str::to_owned).collect()
}

/// Adds libpq's defaults.
pub(super) fn add_defaults(config: &mut tokio_postgres::Config) {
    if config.get_hosts().is_empty() && config.get_hostaddrs().is_empty() {
        let port = config.get_ports().first().copied().unwrap_or(DEFAULT_PORT);
        match default_socket_directory(port) {
            Some(directory) => config.host_path(directory),
            None => config.host("localhost"),
        };
    }
    if config.get_user().is_none() {
        let user = nix::unistd::User::from_uid(nix::unistd::geteuid());
        if let Ok(Some(user)) = user {
            config.user(user.name);
        }
    }
    if config.get_dbname().is_none()
        && let Some(user) = config.get_user().map(str::to_owned)
    {
        config.dbname(user);
    }
}

/// The first of the usual directories that has this port's socket.
fn default_socket_directory(port: u16) -> Option<&'static str> {
    SOCKET_DIRECTORIES
        .into_iter()
        .find(|directory| PathBuf::from(directory).join(socket_name(port)).exists())
}
