//! Which server, as whom: connection strings, options, `PG*` variables and libpq's defaults.

use std::env;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustls::ClientConfig;

use super::client_certificate::ClientCertificate;
use super::conninfo;
use super::options::{Balance, Binding, NoGss, Options, SessionAttributes, connect_timeout};
use super::secret::Secret;
use super::server_options::ServerOptions;
use super::servers::{Endpoint, Server, endpoints, socket_name, with_passwords};
use super::session::Session;
use super::tls::{SslMode, TlsError, client_config};
use super::variables::{self, add_defaults, add_variables};

const APPLICATION_NAME: &str = "lockscope";

/// Who connects, and to what within the server.
#[derive(Clone, Debug, Default)]
pub(crate) struct Identity {
    pub(crate) user: Option<String>,
    pub(crate) database: Option<String>,
    /// Settings for the session, as in `-c statement_timeout=1s`.
    pub(crate) options: Option<String>,
    pub(crate) application_name: Option<String>,
}

/// Servers and an identity, ready to connect with.
#[derive(Clone, Debug)]
pub struct Target {
    /// Where to connect; at least one.
    pub(crate) servers: Vec<Server>,
    pub(crate) identity: Identity,
    pub(crate) ssl_mode: SslMode,
    pub(crate) tls: Option<Arc<ClientConfig>>,
    pub(super) binding: Binding,
    pub(super) attributes: SessionAttributes,
    pub(super) balance: Balance,
    /// For the whole start of a connection to one address; `None` is for ever.
    pub(crate) connect_timeout: Option<Duration>,
    /// `PG*` variables that took part in choosing the server.
    pub(super) variables: Vec<&'static str>,
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
    /// An option, from the connection string or a variable, has a value that makes no sense.
    #[error("{name} is `{value}`, which is not {expected}")]
    Option {
        /// The keyword or the variable.
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
    /// `--dsn` and another in the database's place.
    #[error(
        "there are two connection strings, one as --dsn and one as the database; leave one away"
    )]
    TwoConnectionStrings,
    /// Neither one port nor one for each host.
    #[error("{hosts} hosts but {ports} ports are named; name one port for all, or one for each")]
    Ports {
        /// How many.
        hosts: usize,
        /// How many.
        ports: usize,
    },
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
        let (mut config, more) = match options.connection_string()? {
            Some(dsn) => parse_dsn(dsn)?,
            None => (tokio_postgres::Config::new(), Options::from_variables()),
        };
        let overridden = options.complete(&mut config);
        if !overridden.is_empty() {
            log::warn!(
                "not used: {}, for the connection string says otherwise",
                overridden.join(", ")
            );
        }
        add_variables(&mut config)?;
        add_defaults(&mut config);
        more.parse::<NoGss>("gssencmode", "disable or prefer (there is no GSSAPI here)")?;

        let endpoints = endpoints(&config)?;
        let identity = identity(&config, &more);
        let servers = with_passwords(endpoints, &config, &identity, &more);
        let ssl_mode = match more.get("sslmode") {
            // As in libpq, Unix sockets know no TLS whatever the mode.
            _ if servers.iter().all(|server| matches!(server.endpoint, Endpoint::Unix(_))) => {
                SslMode::Disable
            }
            Some(given) => given.value.parse()?,
            None => SslMode::default(),
        };
        let file = |keyword| more.get(keyword).map(|given| PathBuf::from(given.value));
        let certificate = match ssl_mode {
            SslMode::Disable => None,
            _ => ClientCertificate::find(file("sslcert"), file("sslkey"))?,
        };
        Ok(Self {
            servers,
            identity,
            ssl_mode,
            tls: client_config(ssl_mode, file("sslrootcert").as_deref(), certificate)?,
            binding: more
                .parse("channel_binding", "disable, prefer or require")?
                .unwrap_or_default(),
            attributes: more
                .parse("target_session_attrs", SessionAttributes::EXPECTED)?
                .unwrap_or_default(),
            balance: more.parse("load_balance_hosts", "disable or random")?.unwrap_or_default(),
            connect_timeout: connect_timeout(&more)?,
            variables: if options.are_empty() {
                variables::that_name_a_server()
            } else {
                Vec::new()
            },
        })
    }

    /// A server that lockscope runs itself.
    pub(crate) fn embedded(directory: &Path, port: u16, user: &str) -> Self {
        let endpoint = Endpoint::Unix(directory.join(socket_name(port)));
        Self {
            servers: vec![Server { endpoint, password: None }],
            identity: Identity {
                user: Some(user.to_owned()),
                database: Some("postgres".to_owned()),
                options: None,
                application_name: Some(APPLICATION_NAME.to_owned()),
            },
            ssl_mode: SslMode::Disable,
            tls: None,
            binding: Binding::default(),
            attributes: SessionAttributes::default(),
            balance: Balance::default(),
            connect_timeout: Some(Duration::from_secs(30)),
            variables: Vec::new(),
        }
    }

    /// The same for the server of `session` only, with TLS where that session uses it.
    pub(crate) fn narrowed(&self, session: &Session) -> Self {
        let servers = self.servers.get(session.server).cloned().into_iter().collect();
        let uses_tls = session.transport.uses_tls();
        let ssl_mode = match self.ssl_mode {
            _ if !uses_tls => SslMode::Disable,
            SslMode::Allow | SslMode::Prefer => SslMode::Require,
            mode => mode,
        };
        let tls = self.tls.clone().filter(|_| uses_tls);
        Self { servers, ssl_mode, tls, ..self.clone() }
    }

    /// Who connects.
    pub fn user(&self) -> &str {
        self.identity.user.as_deref().unwrap_or_default()
    }

    /// Where the servers are.
    pub fn endpoints(&self) -> impl Iterator<Item = &Endpoint> {
        self.servers.iter().map(|server| &server.endpoint)
    }

    /// Where to, for messages.
    pub fn place(&self) -> String {
        let places: Vec<_> = self.endpoints().map(ToString::to_string).collect();
        places.join(" or ")
    }
}

fn parse_dsn(dsn: &Secret) -> Result<(tokio_postgres::Config, Options), TargetError> {
    let (rest, options) = Options::take(dsn.reveal());
    let config = rest.parse().map_err(|error: tokio_postgres::Error| {
        let reason = std::error::Error::source(&error)
            .map_or_else(|| error.to_string(), ToString::to_string);
        TargetError::Dsn { scrubbed: conninfo::scrub(dsn.reveal()), reason }
    })?;
    Ok((config, options))
}

fn identity(config: &tokio_postgres::Config, more: &Options) -> Identity {
    let owned = |text: Option<&str>| text.map(str::to_owned);
    let fallback = more.get("fallback_application_name").map(|given| given.value);
    Identity {
        user: owned(config.get_user()),
        database: owned(config.get_dbname()),
        options: owned(config.get_options()),
        application_name: owned(config.get_application_name())
            .or(fallback)
            .or_else(|| Some(APPLICATION_NAME.to_owned())),
    }
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
            assert!(target.endpoints().eq(&expected));
            assert_eq!(target.user(), "u");
            assert_eq!(target.ssl_mode, SslMode::Require);
            assert_eq!(target.identity.application_name.as_deref(), Some("lockscope"));
        }
    }

    #[test]
    fn a_user_s_application_name_is_kept() {
        let dsn = "host=h fallback_application_name=other";
        let name = |dsn: &str| resolve(dsn).unwrap().identity.application_name.unwrap();
        assert_eq!(name(dsn), "other");
        assert_eq!(name(&format!("{dsn} application_name=mine")), "mine");
    }

    #[test]
    fn a_directory_is_a_socket() {
        let target = resolve("host=/run/pg port=5555").unwrap();
        assert!(target.endpoints().eq(&[Endpoint::Unix("/run/pg/.s.PGSQL.5555".into())]));
    }

    #[test]
    fn hosts_and_ports_go_together() {
        let target = resolve("host=/run/pg,b,c port=1,2,3").unwrap();
        let places: Vec<_> = target.endpoints().map(ToString::to_string).collect();
        assert_eq!(places, ["socket /run/pg/.s.PGSQL.1", "b port 2", "c port 3"]);
        let error = resolve("host=a,b,c port=1,2").unwrap_err().to_string();
        assert!(error.contains("3 hosts but 2 ports"), "{error}");
        let options =
            ServerOptions { host: Some("a,b".to_owned()), ports: vec![7], ..Default::default() };
        assert_eq!(Target::resolve(&options).unwrap().place(), "a port 7 or b port 7");
    }

    #[test]
    fn values_that_make_no_sense_are_named_with_what_would() {
        for (dsn, words) in [
            (
                "host=h target_session_attrs=master",
                "target_session_attrs is `master`, which is not any, read-write",
            ),
            ("host=h channel_binding=yes", "disable, prefer or require"),
            ("host=h load_balance_hosts=always", "disable or random"),
            ("host=h connect_timeout=1s", "whole number"),
            ("host=h gssencmode=require", "no GSSAPI"),
            ("host=h sslmode=maybe", "verify-full"),
        ] {
            let error = resolve(dsn).unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        }
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
