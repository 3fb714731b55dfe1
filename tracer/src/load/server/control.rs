//! The control connection: asking the server what it is, and setting it up.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};
use tokio_postgres::tls::{MakeTlsConnect, TlsConnect};
use tokio_postgres::{Client, Config, NoTls, Socket, config};
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::load::connect::{ConnectError, Endpoint, Identity, Server, Session, SslMode, Target};
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
        "-c {clients} and the control connection need {wanted} connections, but the server \
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
            let target = find_server(target.clone()).await?;
            let opened = match &target.tls {
                Some(tls) => open(&target, MakeRustlsConnect::new((**tls).clone())).await,
                None => open(&target, NoTls).await,
            };
            opened.map(|client| (client, target))
        };
        let connected =
            runtime.block_on(unless_interrupted(interrupt, "connecting", connecting))?;
        let (client, target) = connected?;
        Ok(Self { runtime, client, tls: target.tls, interrupt: interrupt.clone() })
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

    /// Has the server write everything out.
    pub fn checkpoint(&self) -> Result<(), ControlError> {
        self.execute("a checkpoint", "checkpoint")
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

/// The server that a client would be connected to, and whether with TLS.
///
/// A client's own start-up decides: it knows libpq's rules, and stands garbage and silence.
async fn find_server(target: Target) -> Result<Target, ConnectError> {
    let place = target.place();
    let (sender, receiver) = tokio::sync::oneshot::channel();
    // It blocks; on a thread of its own an interrupt need not wait for it.
    std::thread::spawn(move || {
        let session = Session::open(&target);
        // Nobody waits any more after an interrupt.
        let _ = sender.send(session.map(|session| target.narrowed(&session)));
    });
    receiver.await.unwrap_or(Err(ConnectError::Closed(place)))
}

async fn open<T>(target: &Target, tls: T) -> Result<Client, ConnectError>
where
    T: MakeTlsConnect<Socket> + 'static,
    T::Stream: Send,
    <T::TlsConnect as TlsConnect<Socket>>::Future: Send,
    T::TlsConnect: Send,
{
    let config = config(target);
    let connecting = config.connect(tls);
    let patience = target.connect_timeout.unwrap_or(Duration::MAX);
    let (client, connection) = tokio::time::timeout(patience, connecting)
        .await
        .map_err(|_| ConnectError::Slow { place: target.place(), seconds: patience.as_secs() })?
        .map_err(|error| connect_error(target, &error))?;
    tokio::spawn(async move {
        // A connection that fails makes the next statement fail, which says why.
        if let Err(error) = connection.await {
            log::debug!("control connection: {error}");
        }
    });
    Ok(client)
}

/// The same target as tokio-postgres knows it. It binds no TLS channel to SCRAM, whatever
/// `channel_binding` says: its TLS does not offer the certificate's hash. The clients' connections do.
fn config(target: &Target) -> Config {
    let mut config = Config::new();
    for Server { endpoint, password } in &target.servers {
        match endpoint {
            Endpoint::Unix(path) => {
                config.host_path(path.parent().unwrap_or(path));
                let port = path.extension().and_then(|port| port.to_str()?.parse().ok());
                config.port(port.unwrap_or_default());
            }
            Endpoint::Tcp { host, address, port } => {
                config.host(host).port(*port);
                if let Some(address) = address {
                    config.hostaddr(*address);
                }
            }
        }
        if let Some(password) = password {
            config.password(password.reveal());
        }
    }
    let Identity { user, database, options, application_name } = &target.identity;
    if let Some(user) = user {
        config.user(user);
    }
    if let Some(database) = database {
        config.dbname(database);
    }
    if let Some(options) = options {
        config.options(options);
    }
    if let Some(name) = application_name {
        config.application_name(name);
    }
    config.ssl_mode(match target.ssl_mode {
        SslMode::Disable => config::SslMode::Disable,
        SslMode::Allow | SslMode::Prefer => config::SslMode::Prefer,
        SslMode::Require | SslMode::VerifyCa | SslMode::VerifyFull => config::SslMode::Require,
    });
    config
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
        return ConnectError::from_server(target.place(), target.user(), error);
    }
    let reason = words(error);
    let place = target.place();
    // tokio-postgres does not show the kind of its errors; its words for this one are fixed.
    if error.to_string().starts_with("error performing TLS handshake") {
        return ConnectError::Tls { place, reason };
    }
    ConnectError::Unreachable { place, reason, variables: String::new() }
}

fn server_error(error: &tokio_postgres::Error) -> Option<ServerError> {
    error.as_db_error().map(|error| ServerError {
        severity: error.severity().to_owned(),
        sqlstate: error.code().code().to_owned(),
        message: error.message().to_owned(),
    })
}

/// The cause without tokio-postgres's generic first words, with what the server adds to it.
fn words(error: &tokio_postgres::Error) -> String {
    if let Some(server) = server_error(error) {
        let more = error.as_db_error().map_or([None, None], |error| {
            [error.detail().map(|text| ("DETAIL", text)), error.hint().map(|text| ("HINT", text))]
        });
        return more
            .into_iter()
            .flatten()
            .fold(server.to_string(), |words, (kind, text)| format!("{words}\n{kind}: {text}"));
    }
    std::error::Error::source(error).map_or_else(|| error.to_string(), ToString::to_string)
}

impl std::fmt::Debug for Control {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Control").finish_non_exhaustive()
    }
}
