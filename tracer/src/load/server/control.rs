//! The control connection: asking the server what it is, and setting it up.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};
use tokio_postgres::tls::{MakeTlsConnect, TlsConnect};
use tokio_postgres::{Client, Config, NoTls, Socket};
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::load::connect::{ConnectError, Target};
use crate::load::engine::ServerError;
use crate::model::Postgres;
use crate::signals::Interrupt;

/// How long a request to cancel a statement may take.
const CANCEL_PATIENCE: Duration = Duration::from_secs(1);

/// Settings that may explain a benchmark's result.
const SETTINGS: &[&str] = &[
    "autovacuum",
    "checkpoint_timeout",
    "commit_delay",
    "effective_cache_size",
    "fsync",
    "full_page_writes",
    "huge_pages",
    "io_method",
    "jit",
    "max_connections",
    "max_wal_size",
    "random_page_cost",
    "shared_buffers",
    "shared_preload_libraries",
    "synchronous_commit",
    "track_activities",
    "track_io_timing",
    "wal_buffers",
    "wal_compression",
    "wal_level",
    "work_mem",
];

/// The control connection failed.
#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    /// It cannot be opened.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// The runtime cannot be made.
    #[error("cannot start the control connection: {0}")]
    Io(#[from] std::io::Error),
    /// A statement failed.
    #[error("{what} failed: {reason}")]
    Sql {
        /// What lockscope was doing.
        what: String,
        /// The server's words.
        reason: String,
    },
    /// Not enough connection slots.
    #[error(
        "{clients} clients and the control connection need {wanted} connections, but the server \
         has {free} free: max_connections is {max}, of which {reserved} are reserved for \
         superusers and {used} are in use; use fewer clients (-c) or raise max_connections"
    )]
    TooFewConnections {
        /// `-c`.
        clients: u32,
        /// Clients and control.
        wanted: i64,
        /// What is left.
        free: i64,
        /// `max_connections`.
        max: i64,
        /// What this user may not use.
        reserved: i64,
        /// Other sessions.
        used: i64,
    },
    /// The user gave up.
    #[error("interrupted while {0}")]
    Interrupted(String),
}

/// A session for set-up and questions.
pub struct Control {
    runtime: Runtime,
    client: Client,
    tls: Option<Arc<rustls::ClientConfig>>,
    interrupt: Interrupt,
}

impl Control {
    /// Connects.
    pub fn connect(target: &Target, interrupt: &Interrupt) -> Result<Self, ControlError> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let connecting = async {
            match &target.tls {
                Some(tls) => open(&target.config, MakeRustlsConnect::new((**tls).clone())).await,
                None => open(&target.config, NoTls).await,
            }
        };
        let connected =
            runtime.block_on(unless_interrupted(interrupt, "connecting", connecting))?;
        let client = connected.map_err(|error| connect_error(target, &error))?;
        Ok(Self { runtime, client, tls: target.tls.clone(), interrupt: interrupt.clone() })
    }

    /// Version, settings and data directory, as far as this user may see them.
    pub fn describe_server(&self) -> Result<Postgres, ControlError> {
        let rows = self.query(
            "reading the settings",
            "select name, current_setting(name) from pg_settings \
             where name = any($1) or name in ('server_version', 'data_directory')",
            &[&SETTINGS],
        )?;
        let mut settings: BTreeMap<String, String> =
            rows.iter().map(|row| (row.get(0), row.get(1))).collect();
        Ok(Postgres {
            version: settings.remove("server_version").unwrap_or_default(),
            data_directory: settings.remove("data_directory"),
            settings,
            embedded: false,
        })
    }

    /// `server_version_num`: 150018 for 15.18.
    pub(in crate::load) fn server_version(&self) -> Result<u32, ControlError> {
        let sql = "select current_setting('server_version_num')::bigint";
        let rows = self.query("asking for the server's version", sql, &[])?;
        let number = rows.first().map_or(0, |row| row.get::<_, i64>(0));
        Ok(u32::try_from(number).unwrap_or(u32::MAX))
    }

    /// Refuses more clients than the server has slots for.
    pub fn check_connections(&self, clients: u32) -> Result<(), ControlError> {
        let rows = self.query(
            "counting the free connections",
            "select current_setting('max_connections')::bigint, \
                    case when rolsuper then 0 else \
                      current_setting('superuser_reserved_connections')::bigint \
                      + coalesce(current_setting('reserved_connections', true), '0')::bigint end, \
                    (select count(*) from pg_stat_activity \
                     where datid is not null and pid <> pg_backend_pid() \
                       and coalesce(backend_type, 'client backend') = 'client backend') \
             from pg_roles where rolname = current_user",
            &[],
        )?;
        let Some(row) = rows.first() else { return Ok(()) };
        let (max, reserved, used): (i64, i64, i64) = (row.get(0), row.get(1), row.get(2));
        let free = max - reserved - used;
        let wanted = i64::from(clients) + 1;
        if wanted > free {
            let error =
                ControlError::TooFewConnections { clients, wanted, free, max, reserved, used };
            return Err(error);
        }
        Ok(())
    }

    /// Runs a query with parameters.
    pub(in crate::load) fn query(
        &self,
        what: &str,
        sql: &str,
        parameters: &[&(dyn tokio_postgres::types::ToSql + Sync)],
    ) -> Result<Vec<tokio_postgres::Row>, ControlError> {
        self.run(what, self.client.query(sql, parameters))
    }

    /// Runs statements without results.
    pub(in crate::load) fn execute(&self, what: &str, sql: &str) -> Result<(), ControlError> {
        self.run(what, self.client.batch_execute(sql))
    }

    /// Runs an operation on the connection, ended by an interrupt.
    pub(in crate::load) fn run<T>(
        &self,
        what: &str,
        operation: impl Future<Output = Result<T, tokio_postgres::Error>>,
    ) -> Result<T, ControlError> {
        let done = self.runtime.block_on(unless_interrupted(&self.interrupt, what, operation));
        if matches!(done, Err(ControlError::Interrupted(_))) {
            self.cancel();
        }
        done?.map_err(|error| ControlError::Sql { what: what.to_owned(), reason: words(&error) })
    }

    /// Asks the server to end the statement that runs: without that it would go on with it when
    /// nobody waits for the result any more.
    fn cancel(&self) {
        let token = self.client.cancel_token();
        let cancelling = async {
            match &self.tls {
                Some(tls) => token.cancel_query(MakeRustlsConnect::new((**tls).clone())).await,
                None => token.cancel_query(NoTls).await,
            }
        };
        let cancelled = self
            .runtime
            .block_on(async { tokio::time::timeout(CANCEL_PATIENCE, cancelling).await });
        if !matches!(cancelled, Ok(Ok(()))) {
            log::warn!("the server did not take the cancel request: its last statement may go on");
        }
    }

    pub(in crate::load) fn client(&self) -> &Client {
        &self.client
    }
}

async fn open<T>(config: &Config, tls: T) -> Result<Client, tokio_postgres::Error>
where
    T: MakeTlsConnect<Socket> + 'static,
    T::Stream: Send,
    <T::TlsConnect as TlsConnect<Socket>>::Future: Send,
    T::TlsConnect: Send,
{
    let (client, connection) = config.connect(tls).await?;
    tokio::spawn(async move {
        // A connection that fails makes the next statement fail, which says why.
        if let Err(error) = connection.await {
            log::debug!("control connection: {error}");
        }
    });
    Ok(client)
}

async fn unless_interrupted<T>(
    interrupt: &Interrupt,
    what: &str,
    operation: impl Future<Output = T>,
) -> Result<T, ControlError> {
    tokio::select! {
        result = operation => Ok(result),
        () = interrupt.wait() => Err(ControlError::Interrupted(what.to_owned())),
    }
}

fn connect_error(target: &Target, error: &tokio_postgres::Error) -> ConnectError {
    if let Some(error) = server_error(error) {
        return ConnectError::from_server(target, error);
    }
    let reason = words(error);
    let place = target.place();
    if reason.contains("password missing") {
        return ConnectError::NoPassword { place, user: target.user().to_owned() };
    }
    // tokio-postgres does not show the kind of its errors; its words for this one are fixed.
    if error.to_string().starts_with("error performing TLS handshake") {
        return ConnectError::Tls { place, reason };
    }
    ConnectError::Unreachable { place, reason }
}

fn server_error(error: &tokio_postgres::Error) -> Option<ServerError> {
    error.as_db_error().map(|error| ServerError {
        severity: error.severity().to_owned(),
        sqlstate: error.code().code().to_owned(),
        message: error.message().to_owned(),
    })
}

/// The cause without tokio-postgres's generic first words.
fn words(error: &tokio_postgres::Error) -> String {
    if let Some(error) = server_error(error) {
        return error.to_string();
    }
    std::error::Error::source(error).map_or_else(|| error.to_string(), ToString::to_string)
}

impl std::fmt::Debug for Control {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Control").finish_non_exhaustive()
    }
}
