//! What the command line says about the server.

use tokio_postgres::Config;

use super::secret::Secret;
use super::target::TargetError;
use super::variables;

const URL_SCHEMES: [&str; 2] = ["postgres://", "postgresql://"];

/// What the command line says about the server.
#[derive(Clone, Debug, Default)]
pub struct ServerOptions {
    /// `--dsn`: a conninfo string or a URL.
    pub dsn: Option<Secret>,
    /// `-h`: a host or a directory with a socket, or several between commas.
    pub host: Option<String>,
    /// `-p`: one for all hosts, or one for each.
    pub ports: Vec<u16>,
    /// `-U`.
    pub user: Option<String>,
    /// `-d`.
    pub database: Option<Database>,
}

/// What stands in the place of a database's name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Database {
    /// Its name.
    Name(String),
    /// A connection string, which may hold a password.
    Connection(Secret),
}

impl Database {
    /// Told apart as libpq tells them.
    pub fn new(text: &str) -> Self {
        if text.contains('=') || URL_SCHEMES.iter().any(|scheme| text.starts_with(scheme)) {
            Self::Connection(Secret::new(text))
        } else {
            Self::Name(text.to_owned())
        }
    }
}

impl ServerOptions {
    /// True when the user chose a server, by option or by variable.
    pub fn names_a_server(&self) -> bool {
        !self.are_empty() || !variables::that_name_a_server().is_empty()
    }

    pub(super) fn are_empty(&self) -> bool {
        self.dsn.is_none()
            && self.host.is_none()
            && self.ports.is_empty()
            && self.user.is_none()
            && self.database.is_none()
    }

    /// The connection string, if there is one.
    pub(super) fn connection_string(&self) -> Result<Option<&Secret>, TargetError> {
        match (&self.dsn, &self.database) {
            (Some(_), Some(Database::Connection(_))) => Err(TargetError::TwoConnectionStrings),
            (Some(dsn), _) | (None, Some(Database::Connection(dsn))) => Ok(Some(dsn)),
            _ => Ok(None),
        }
    }

    /// Adds what the connection string, already in `config`, leaves open. The result names the
    /// options that it overrides, as libpq lets it override them.
    pub(super) fn complete(&self, config: &mut Config) -> Vec<&'static str> {
        let mut overridden = Vec::new();
        if let Some(hosts) = &self.host {
            if config.get_hosts().is_empty() {
                for host in hosts.split(',') {
                    config.host(host);
                }
            } else {
                overridden.push("-h");
            }
        }
        if !self.ports.is_empty() {
            if config.get_ports().is_empty() {
                for port in &self.ports {
                    config.port(*port);
                }
            } else {
                overridden.push("-p");
            }
        }
        if let Some(user) = &self.user {
            if config.get_user().is_none() {
                config.user(user);
            } else if config.get_user() != Some(user) {
                overridden.push("-U");
            }
        }
        if let Some(Database::Name(name)) = &self.database {
            if config.get_dbname().is_none() {
                config.dbname(name);
            } else if config.get_dbname() != Some(name) {
                overridden.push("-d");
            }
        }
        overridden
    }
}

#[cfg(test)]
mod tests {
    use super::super::Target;
    use super::*;

    fn resolve(dsn: Option<&str>, database: &str) -> Result<Target, TargetError> {
        Target::resolve(&ServerOptions {
            dsn: dsn.map(Secret::new),
            host: Some("/from/option".to_owned()),
            ports: vec![7],
            user: Some("me".to_owned()),
            database: Some(Database::new(database)),
        })
    }

    #[test]
    fn a_connection_string_may_stand_for_the_database() {
        for text in ["dbname=d user=u", "postgres:///d?user=u", "postgresql://u@/d"] {
            let target = resolve(None, text).unwrap();
            assert_eq!(target.identity.database.as_deref(), Some("d"), "{text}");
            assert_eq!(target.user(), "u", "{text}");
            // What it leaves open, the options say.
            assert_eq!(target.place(), "socket /from/option/.s.PGSQL.7", "{text}");
        }
        assert_eq!(resolve(None, "bench").unwrap().identity.database.as_deref(), Some("bench"));
    }

    #[test]
    fn a_connection_string_goes_before_the_options_as_in_libpq() {
        let target = resolve(Some("host=/from/string port=8 dbname=theirs"), "mine").unwrap();
        assert_eq!(target.place(), "socket /from/string/.s.PGSQL.8");
        assert_eq!(target.identity.database.as_deref(), Some("theirs"));
        assert_eq!(target.user(), "me");
        let error = resolve(Some("host=a"), "host=b").unwrap_err().to_string();
        assert!(error.contains("two connection strings"), "{error}");
    }

    #[test]
    fn what_is_overridden_is_named() {
        let options = ServerOptions {
            host: Some("a".to_owned()),
            user: Some("same".to_owned()),
            database: Some(Database::new("mine")),
            ..ServerOptions::default()
        };
        let mut config: Config = "host=b user=same dbname=theirs".parse().unwrap();
        assert_eq!(options.complete(&mut config), ["-h", "-d"]);
    }

    #[test]
    fn its_password_does_not_show() {
        let database = Database::new("host=h password=hunter2");
        assert!(!format!("{database:?}").contains("hunter2"));
    }
}
