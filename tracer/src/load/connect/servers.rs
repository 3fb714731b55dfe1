//! The list of servers: where each listens, and its password.

use std::net::IpAddr;
use std::path::PathBuf;

use tokio_postgres::config::Host;

use super::options::Options;
use super::pgpass;
use super::secret::Secret;
use super::target::{Identity, TargetError};
use super::variables::SOCKET_DIRECTORIES;

pub(super) const DEFAULT_PORT: u16 = 5432;

/// One place where the server may listen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Endpoint {
    /// The socket file.
    Unix(PathBuf),
    /// A TCP address.
    Tcp {
        /// The name, for certificates and messages.
        host: String,
        /// The address, where it was given apart from the name.
        address: Option<IpAddr>,
        /// The port.
        port: u16,
    },
}

impl std::fmt::Display for Endpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "socket {}", path.display()),
            Self::Tcp { host, port, .. } => write!(f, "{host} port {port}"),
        }
    }
}

/// A server of the list.
#[derive(Clone, Debug)]
pub(crate) struct Server {
    pub(crate) endpoint: Endpoint,
    /// For this server; the password file may have another for each.
    pub(crate) password: Option<Secret>,
}

pub(super) fn socket_name(port: u16) -> String {
    format!(".s.PGSQL.{port}")
}

/// Host n goes with address n and port n; a single port serves all.
pub(super) fn endpoints(config: &tokio_postgres::Config) -> Result<Vec<Endpoint>, TargetError> {
    let (hosts, addresses, ports) =
        (config.get_hosts(), config.get_hostaddrs(), config.get_ports());
    let count = hosts.len().max(addresses.len());
    if ports.len() > 1 && ports.len() != count {
        return Err(TargetError::Ports { hosts: count, ports: ports.len() });
    }
    let endpoint = |index| {
        let port = ports.get(index).or_else(|| ports.first()).copied().unwrap_or(DEFAULT_PORT);
        let address: Option<IpAddr> = addresses.get(index).copied();
        match hosts.get(index) {
            Some(Host::Unix(directory)) => Endpoint::Unix(directory.join(socket_name(port))),
            Some(Host::Tcp(host)) => Endpoint::Tcp { host: host.clone(), address, port },
            None => Endpoint::Tcp {
                host: address.map(|address| address.to_string()).unwrap_or_default(),
                address,
                port,
            },
        }
    };
    Ok((0..count).map(endpoint).collect())
}

/// The password that was given for all, else for each server what the password file says.
pub(super) fn with_passwords(
    endpoints: Vec<Endpoint>,
    config: &tokio_postgres::Config,
    identity: &Identity,
    more: &Options,
) -> Vec<Server> {
    let given = config.get_password().map(|bytes| Secret::new(String::from_utf8_lossy(bytes)));
    let file = more.get("passfile").map(|given| given.value.into()).or_else(pgpass::default_path);
    let from_file = |endpoint: &Endpoint| {
        let (host, port) = pgpass_key(endpoint)?;
        let (database, user) = (identity.database.as_deref()?, identity.user.as_deref()?);
        pgpass::lookup(file.as_deref()?, &host, port, database, user)
    };
    let server = |endpoint: Endpoint| {
        let password = given.clone().or_else(|| from_file(&endpoint));
        Server { endpoint, password }
    };
    endpoints.into_iter().map(server).collect()
}

/// Host and port as libpq's password file knows them: the default socket is called localhost.
fn pgpass_key(endpoint: &Endpoint) -> Option<(String, u16)> {
    match endpoint {
        Endpoint::Tcp { host, port, .. } => Some((host.clone(), *port)),
        Endpoint::Unix(path) => {
            let directory = path.parent()?.to_str()?;
            let port = path.extension()?.to_str()?.parse().ok()?;
            let is_default = SOCKET_DIRECTORIES.contains(&directory);
            Some((if is_default { "localhost" } else { directory }.to_owned(), port))
        }
    }
}
