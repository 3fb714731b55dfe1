//! Which server, as whom: connection strings, options, `PG*` variables and libpq's defaults.

use std::env;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustls::ClientConfig;
use tokio_postgres::config::Host;

use super::conninfo::{self, take_options};
use super::pgpass;
use super::secret::Secret;
use super::tls::{SslMode, TlsError, client_config};
use super::variables::{self, SOCKET_DIRECTORIES, add_defaults, add_variables};

pub(super) const DEFAULT_PORT: u16 = 5432;
pub(super) const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// What the command line says about the server.
#[derive(Clone, Debug, Default)]
pub struct ServerOptions {
    /// `--dsn`: a conninfo string or a URL.
    pub dsn: Option<Secret>,
    /// `-h`: a host or a directory with a socket.
    pub host: Option<String>,
    /// `-p`.
    pub port: Option<u16>,
    /// `-U`.
    pub user: Option<String>,
    /// `-d`.
    pub database: Option<String>,
}

impl ServerOptions {
    /// True when the user chose a server, by option or by variable.
    pub fn names_a_server(&self) -> bool {
        self.dsn.is_some()
            || self.host.is_some()
            || self.port.is_some()
            || self.user.is_some()
            || self.database.is_some()
            || variables::name_a_server()
    }
}

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

/// A server and an identity, ready to connect with.
#[derive(Clone, Debug)]
pub struct Target {
    /// For tokio-postgres; holds user, database, password and options.
    pub(crate) config: tokio_postgres::Config,
    /// Where to connect, in order.
    pub(crate) endpoints: Vec<Endpoint>,
    pub(crate) ssl_mode: SslMode,
    pub(crate) tls: Option<Arc<ClientConfig>>,
}

/// The server's address cannot be made out.
#[derive(Debug, thiserror::Error)]
pub enum TargetError {
    /// The connection string does not parse.
    #[error("cannot read the connection string `{scrubbed}`: {reason}")]
    Dsn {
        /// The string without its password.
        scrubbed: String,
        /// The parser's words.
        reason: String,
    },
    /// A variable has a value that makes no sense.
    #[error("the environment variable {name} is `{value}`, which is not {expected}")]
    Variable {
        /// Its name.
        name: &'static str,
        /// Its value.
        value: String,
        /// What it should be.
        expected: &'static str,
    },
    /// Service files are not read.
    #[error(
        "PGSERVICE is set, but lockscope does not read service files; \
         unset it and name the server with --dsn or PGHOST, PGPORT, PGUSER and PGDATABASE"
    )]
    Service,
    /// Sockets and TCP in one list.
    #[error(
        "the list of hosts mixes Unix sockets and TCP hosts, which is not supported; name one kind"
    )]
    MixedHosts,
    /// TLS cannot be set up.
    #[error(transparent)]
    Tls(#[from] TlsError),
}

impl Target {
    /// Puts options, `PG*` variables and libpq's defaults together, in this order of preference.
    pub fn resolve(options: &ServerOptions) -> Result<Self, TargetError> {
        if env::var_os("PGSERVICE").is_some() {
            return Err(TargetError::Service);
        }
        let (mut config, tls_options) = match &options.dsn {
            Some(dsn) => parse_dsn(dsn)?,
            None => (tokio_postgres::Config::new(), Vec::new()),
        };
        add_options(&mut config, options);
        add_variables(&mut config)?;
        add_defaults(&mut config);
        let tls_option = |key: &str, variable: &str| {
            let given = tls_options.iter().rev().find(|(name, _)| name == key);
            given.map(|(_, value)| value.clone()).or_else(|| env::var(variable).ok())
        };
        let ssl_mode = match tls_option("sslmode", "PGSSLMODE") {
            Some(mode) => mode.parse()?,
            None => SslMode::default(),
        };
        let root_file = tls_option("sslrootcert", "PGSSLROOTCERT").map(PathBuf::from);
        Self::new(config, ssl_mode, root_file.as_deref())
    }

    /// A server that lockscope runs itself.
    pub(crate) fn embedded(directory: PathBuf, port: u16, user: &str) -> Result<Self, TargetError> {
        let mut config = tokio_postgres::Config::new();
        config.host_path(directory).port(port).user(user).dbname("postgres");
        add_defaults(&mut config);
        Self::new(config, SslMode::Disable, None)
    }

    fn new(
        mut config: tokio_postgres::Config,
        ssl_mode: SslMode,
        root_file: Option<&Path>,
    ) -> Result<Self, TargetError> {
        let endpoints = endpoints(&config);
        let sockets = endpoints.iter().filter(|place| matches!(place, Endpoint::Unix(_))).count();
        if sockets > 0 && sockets < endpoints.len() {
            return Err(TargetError::MixedHosts);
        }
        // As in libpq, Unix sockets know no TLS whatever the mode.
        let ssl_mode = if sockets > 0 { SslMode::Disable } else { ssl_mode };
        let tls = client_config(ssl_mode, root_file)?;
        config.ssl_mode(match ssl_mode {
            SslMode::Disable => tokio_postgres::config::SslMode::Disable,
            SslMode::Prefer => tokio_postgres::config::SslMode::Prefer,
            _ => tokio_postgres::config::SslMode::Require,
        });
        if config.get_password().is_none()
            && let Some(password) = password_from_file(&config, &endpoints)
        {
            config.password(password.reveal());
        }
        Ok(Self { config, endpoints, ssl_mode, tls })
    }

    /// Who connects.
    pub fn user(&self) -> &str {
        self.config.get_user().unwrap_or_default()
    }

    /// Where to, for messages.
    pub fn place(&self) -> String {
        let places: Vec<_> = self.endpoints.iter().map(ToString::to_string).collect();
        places.join(" or ")
    }

    pub(crate) fn connect_timeout(&self) -> Duration {
        self.config.get_connect_timeout().copied().unwrap_or(CONNECT_TIMEOUT)
    }
}

fn parse_dsn(dsn: &Secret) -> Result<(tokio_postgres::Config, Vec<(String, String)>), TargetError> {
    let (rest, tls_options) = take_options(dsn.reveal(), &["sslmode", "sslrootcert"]);
    let config = rest.parse().map_err(|error: tokio_postgres::Error| {
        let reason = std::error::Error::source(&error)
            .map_or_else(|| error.to_string(), ToString::to_string);
        TargetError::Dsn { scrubbed: conninfo::scrub(dsn.reveal()), reason }
    })?;
    Ok((config, tls_options))
}

fn add_options(config: &mut tokio_postgres::Config, options: &ServerOptions) {
    if let Some(host) = &options.host {
        config.host(host);
    }
    if let Some(port) = options.port {
        config.port(port);
    }
    if let Some(user) = &options.user {
        config.user(user);
    }
    if let Some(database) = &options.database {
        config.dbname(database);
    }
}

pub(super) fn socket_name(port: u16) -> String {
    format!(".s.PGSQL.{port}")
}

/// Host n goes with address n and port n; a single port serves all.
fn endpoints(config: &tokio_postgres::Config) -> Vec<Endpoint> {
    let (hosts, addresses, ports) =
        (config.get_hosts(), config.get_hostaddrs(), config.get_ports());
    (0..hosts.len().max(addresses.len()))
        .map(|index| {
            let port = ports.get(index).or_else(|| ports.first()).copied().unwrap_or(DEFAULT_PORT);
            let address = addresses.get(index).copied();
            match hosts.get(index) {
                Some(Host::Unix(directory)) => Endpoint::Unix(directory.join(socket_name(port))),
                Some(Host::Tcp(host)) => Endpoint::Tcp { host: host.clone(), address, port },
                None => Endpoint::Tcp {
                    host: address.map(|address| address.to_string()).unwrap_or_default(),
                    address,
                    port,
                },
            }
        })
        .collect()
}

fn password_from_file(config: &tokio_postgres::Config, endpoints: &[Endpoint]) -> Option<Secret> {
    let port = config.get_ports().first().copied().unwrap_or(DEFAULT_PORT);
    let host = match endpoints.first()? {
        Endpoint::Tcp { host, .. } => host.clone(),
        Endpoint::Unix(path) => {
            let directory = path.parent()?.to_str()?;
            // libpq's file calls the default socket localhost.
            let is_default = SOCKET_DIRECTORIES.contains(&directory);
            if is_default { "localhost" } else { directory }.to_owned()
        }
    };
    pgpass::lookup(&host, port, config.get_dbname()?, config.get_user()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolve(dsn: &str) -> Result<Target, TargetError> {
        Target::resolve(&ServerOptions { dsn: Some(Secret::new(dsn)), ..Default::default() })
    }

    #[test]
    fn conninfo_strings_and_urls_mean_the_same() {
        let expected = [Endpoint::Tcp { host: "db.example".into(), address: None, port: 6543 }];
        for dsn in [
            "host=db.example port=6543 user=u dbname=d sslmode=require",
            "postgres://u@db.example:6543/d?sslmode=require",
        ] {
            let target = resolve(dsn).unwrap();
            assert_eq!(target.endpoints, expected);
            assert_eq!(target.user(), "u");
            assert_eq!(target.ssl_mode, SslMode::Require);
            assert_eq!(target.config.get_application_name(), Some("lockscope"));
        }
    }

    #[test]
    fn a_user_s_application_name_is_kept() {
        let target = resolve("host=h application_name=mine").unwrap();
        assert_eq!(target.config.get_application_name(), Some("mine"));
    }

    #[test]
    fn a_directory_is_a_socket() {
        let target = resolve("host=/run/pg port=5555").unwrap();
        assert_eq!(target.endpoints, [Endpoint::Unix("/run/pg/.s.PGSQL.5555".into())]);
    }

    #[test]
    fn a_bad_string_is_shown_without_its_password() {
        let error = resolve("host=h password=hunter2 nonsense=1").unwrap_err().to_string();
        assert!(error.contains("nonsense"), "{error}");
        assert!(!error.contains("hunter2"), "{error}");
    }

    #[test]
    fn debug_shows_no_password() {
        let target = resolve("host=h password=hunter2").unwrap();
        assert!(!format!("{target:?}").contains("hunter2"));
    }
}
