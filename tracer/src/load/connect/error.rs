//! Why a connection is not to be had.

use std::io;

use super::servers::Server;
use super::target::Target;
use crate::load::engine::ServerError;

/// A connection that is not to be had.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// Nobody listens there.
    #[error(
        "cannot reach a Postgres server at {place}: {reason}; is it running there? (-h, -p, --dsn or PG* variables name the server{variables})"
    )]
    Unreachable {
        /// Where.
        place: String,
        /// The system's words.
        reason: String,
        /// Which `PG*` variables took part in choosing the place.
        variables: String,
    },
    /// Nobody answered in time.
    #[error(
        "the server at {place} did not complete the start of a connection within {seconds} s; is it a Postgres server, and does it still accept connections? (connect_timeout= or PGCONNECT_TIMEOUT sets the limit)"
    )]
    Slow {
        /// Where.
        place: String,
        /// The limit.
        seconds: u64,
    },
    /// Something else listens there.
    #[error(
        "what listens at {place} is no Postgres server: it answered {answer}; check host and port (-h, -p, --dsn)"
    )]
    NotPostgres {
        /// Where.
        place: String,
        /// The beginning of its words.
        answer: String,
    },
    /// The stream ended.
    #[error(
        "what listens at {0} closed the connection during its start, without a word; is it a Postgres server? Its log may say more"
    )]
    Closed(String),
    /// None of several will do.
    #[error("none of the servers will do:{}", .0.iter().map(|reason| format!("\n  {reason}")).collect::<String>())]
    NoneOf(Vec<String>),
    /// The server is of another kind than asked for.
    #[error("the server at {place} is not {wanted}, which target_session_attrs asks for")]
    OtherKind {
        /// Where.
        place: String,
        /// What it is not.
        wanted: &'static str,
    },
    /// The server refused the user or the password.
    #[error(
        "the server at {place} refused user `{user}`: {error}; check the user and how it proves itself (password by --dsn, PGPASSWORD or ~/.pgpass; certificate by sslcert)"
    )]
    Refused {
        /// Where.
        place: String,
        /// Who.
        user: String,
        /// The server's words.
        error: Box<ServerError>,
    },
    /// The server asks for a password and there is none.
    #[error(
        "the server at {place} asks user `{user}` for a password; give one with PGPASSWORD, ~/.pgpass or --dsn"
    )]
    NoPassword {
        /// Where.
        place: String,
        /// Who.
        user: String,
    },
    /// No such database.
    #[error(
        "the server at {place} has no such database: {error}; name another (-d, --dsn or PGDATABASE), or create it with createdb"
    )]
    NoDatabase {
        /// Where.
        place: String,
        /// The server's words.
        error: Box<ServerError>,
    },
    /// All connection slots are taken.
    #[error(
        "the server at {place} has no free connection: {error}; raise max_connections or use fewer clients (-c)"
    )]
    TooMany {
        /// Where.
        place: String,
        /// The server's words.
        error: Box<ServerError>,
    },
    /// It is starting, stopping or recovering.
    #[error("the server at {place} takes no connections now: {error}; try again when it is up")]
    NotNow {
        /// Where.
        place: String,
        /// The server's words.
        error: Box<ServerError>,
    },
    /// Any other refusal.
    #[error("the server at {place} ended the start-up: {error}")]
    Server {
        /// Where.
        place: String,
        /// The server's words.
        error: Box<ServerError>,
    },
    /// TLS was asked for and the server has none.
    #[error(
        "the server at {0} does not offer TLS; use sslmode=disable or prefer, or set ssl=on there"
    )]
    NoTls(String),
    /// The handshake failed.
    #[error(
        "TLS with the server at {place} failed: {reason}; check sslmode, sslrootcert, sslcert and the server's certificate"
    )]
    Tls {
        /// Where.
        place: String,
        /// What was wrong.
        reason: String,
    },
    /// Channel binding was asked for and is not to be had.
    #[error(
        "channel_binding=require, but {reason} (server at {place}); it needs TLS and SCRAM: check sslmode and pg_hba.conf, or use channel_binding=prefer"
    )]
    NotBound {
        /// Where.
        place: String,
        /// Why not.
        reason: &'static str,
    },
    /// The start-up went wrong on this side.
    #[error("starting a connection to {place} failed: {source}")]
    Startup {
        /// Where.
        place: String,
        /// What happened.
        source: io::Error,
    },
}

impl ConnectError {
    pub(super) fn unreachable(target: &Target, server: &Server, reason: &str) -> Self {
        let variables = match target.variables.as_slice() {
            [] => String::new(),
            names => format!("; set now: {}", names.join(", ")),
        };
        let (place, reason) = (server.endpoint.to_string(), reason.to_owned());
        Self::Unreachable { place, reason, variables }
    }

    /// Sorts a server's refusal by its SQLSTATE.
    pub(crate) fn from_server(place: String, user: &str, error: ServerError) -> Self {
        let (user, error) = (user.to_owned(), Box::new(error));
        match error.sqlstate.as_str() {
            "28000" | "28P01" => Self::Refused { place, user, error },
            "3D000" => Self::NoDatabase { place, error },
            "53300" => Self::TooMany { place, error },
            "57P03" => Self::NotNow { place, error },
            _ => Self::Server { place, error },
        }
    }

    /// All servers of a list failed.
    pub(super) fn none_of(target: &Target, mut errors: Vec<(&Server, Self)>) -> Self {
        match (errors.len(), errors.pop()) {
            (1, Some((_, error))) => error,
            (_, Some(last)) => {
                let all = errors.into_iter().chain([last]);
                Self::NoneOf(all.map(|(_, error)| error.to_string()).collect())
            }
            (_, None) => Self::NoneOf(vec![format!("no server is named ({})", target.user())]),
        }
    }

    /// Whether another server of the list may be tried.
    pub(super) fn allows_next(&self) -> bool {
        matches!(
            self,
            Self::Unreachable { .. }
                | Self::Slow { .. }
                | Self::NotPostgres { .. }
                | Self::Closed(_)
                | Self::OtherKind { .. }
                | Self::NotNow { .. }
                | Self::NoneOf(_)
        )
    }

    /// Whether the same server might take the connection with, or without, TLS.
    pub(super) fn may_be_about_tls(&self) -> bool {
        match self {
            Self::Tls { .. } => true,
            // No line of pg_hba.conf for this kind of connection.
            Self::Refused { error, .. } => error.sqlstate == "28000",
            _ => false,
        }
    }
}

/// What can go wrong with one attempt.
#[derive(Debug)]
pub(super) enum Failure {
    Decided(ConnectError),
    Unreachable(io::Error),
    Io(io::Error),
    Server(ServerError),
    Garbage(Vec<u8>),
    Unsupported(String),
    OtherKind(&'static str),
    Closed,
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<ConnectError> for Failure {
    fn from(error: ConnectError) -> Self {
        Self::Decided(error)
    }
}

impl Failure {
    pub(super) fn explain(self, target: &Target, server: &Server) -> ConnectError {
        let place = server.endpoint.to_string();
        match self {
            Self::Decided(error) => error,
            Self::Unreachable(error) | Self::Io(error)
                if error.kind() == io::ErrorKind::TimedOut =>
            {
                let seconds = target.connect_timeout.unwrap_or_default().as_secs();
                ConnectError::Slow { place, seconds }
            }
            Self::Unreachable(error) => {
                ConnectError::unreachable(target, server, &error.to_string())
            }
            Self::Io(error) => match tls_error(&error) {
                Some(reason) => ConnectError::Tls { place, reason },
                None if error.kind() == io::ErrorKind::ConnectionReset => {
                    ConnectError::Closed(place)
                }
                None => ConnectError::Startup { place, source: error },
            },
            Self::Server(error) => ConnectError::from_server(place, target.user(), error),
            Self::Garbage(bytes) => {
                ConnectError::NotPostgres { place, answer: format!("`{}`", bytes.escape_ascii()) }
            }
            Self::Unsupported(what) => {
                let text = format!("the server's answer is not supported: {what}");
                ConnectError::Startup { place, source: io::Error::other(text) }
            }
            Self::OtherKind(wanted) => ConnectError::OtherKind { place, wanted },
            Self::Closed => ConnectError::Closed(place),
        }
    }
}

fn tls_error(error: &io::Error) -> Option<String> {
    error.get_ref()?.downcast_ref::<rustls::Error>().map(ToString::to_string)
}
