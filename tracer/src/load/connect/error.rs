//! Why a connection is not to be had.

use std::io;

use super::target::Target;
use crate::load::engine::ServerError;

/// A connection that is not to be had.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// Nobody listens there.
    #[error(
        "cannot reach a Postgres server at {place}: {reason}; is it running there? (-h, -p, --dsn or PG* variables name the server)"
    )]
    Unreachable {
        /// Where.
        place: String,
        /// The system's words.
        reason: String,
    },
    /// The server refused the user or the password.
    #[error(
        "the server at {place} refused user `{user}`: {error}; check the user and the password (--dsn, PGPASSWORD or ~/.pgpass)"
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
        "TLS with the server at {place} failed: {reason}; check sslmode, sslrootcert and the server's certificate"
    )]
    Tls {
        /// Where.
        place: String,
        /// What was wrong.
        reason: String,
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
    /// Sorts a server's refusal by its SQLSTATE.
    pub(crate) fn from_server(target: &Target, error: ServerError) -> Self {
        let (place, user) = (target.place(), target.user().to_owned());
        let error = Box::new(error);
        match error.sqlstate.as_str() {
            "28000" | "28P01" => Self::Refused { place, user, error },
            "53300" => Self::TooMany { place, error },
            _ => Self::Server { place, error },
        }
    }
}
