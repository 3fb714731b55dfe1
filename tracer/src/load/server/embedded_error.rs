//! Why there is no throw-away server.

use std::io;
use std::path::PathBuf;
use std::process::ExitStatus;

use super::binaries::NoBinaries;
use super::embedded::START_TIMEOUT;

/// A cluster that cannot be made or started.
#[derive(Debug, thiserror::Error)]
pub enum EmbeddedError {
    /// Postgres is not installed.
    #[error(transparent)]
    NoBinaries(#[from] NoBinaries),
    /// Root needs another user to run the server as.
    #[error(
        "Postgres refuses to run as root, and there is neither a user `postgres` nor `nobody` to run it as; create one (useradd --system postgres), or name a running server with --dsn"
    )]
    NoUser,
    /// The directory cannot be made.
    #[error("cannot prepare a cluster in {path}: {source}; choose another directory with --data-dir", path = .path.display())]
    Directory {
        /// Where.
        path: PathBuf,
        /// The system's words.
        source: io::Error,
    },
    /// This root may not do what root may.
    #[error(
        "cannot give the cluster's directory to the user {user}, for Postgres refuses to run as root: {source}; run lockscope as {user}, or name a running server with --dsn"
    )]
    GiveAway {
        /// Whom the server would run as.
        user: String,
        /// The system's words.
        source: io::Error,
    },
    /// The socket's path would not fit.
    #[error("the directory {path} is too deep for a Unix socket; choose a shorter one with --data-dir", path = .0.display())]
    PathTooLong(PathBuf),
    /// The server's user may not pass a directory on the way.
    #[error(
        "the server would run as the user {user}, who may not enter {path} (mode {mode:03o}); choose another directory with --data-dir or TMPDIR, or let others enter this one (chmod o+x)", path = .path.display()
    )]
    Closed {
        /// Whom the server would run as.
        user: String,
        /// The first directory that is closed to it.
        path: PathBuf,
        /// Its permissions.
        mode: u32,
    },
    /// A program cannot be run.
    #[error("cannot run {program}: {source}", program = .program.display())]
    Run {
        /// Which.
        program: PathBuf,
        /// The system's words.
        source: io::Error,
    },
    /// A program failed.
    #[error("{program} failed ({status}) in {directory}; its last words:\n{log}", directory = .directory.display())]
    Failed {
        /// `initdb` or `postgres`.
        program: &'static str,
        /// Exit status.
        status: ExitStatus,
        /// The cluster's directory.
        directory: PathBuf,
        /// End of its log.
        log: String,
    },
    /// The server does not come up.
    #[error("the embedded server did not start within {seconds} s; its last words:\n{0}", seconds = START_TIMEOUT.as_secs())]
    Slow(String),
    /// The user gave up.
    #[error("interrupted while the embedded server was starting")]
    Interrupted,
}
