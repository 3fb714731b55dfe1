//! Opening a session: which of the servers, with or without TLS, and whether it will do.

use std::collections::HashMap;
use std::io;

use bytes::BytesMut;

use super::cancel::CancelKey;
use super::deadline::Deadline;
use super::error::{ConnectError, Failure};
use super::options::{Balance, SessionAttributes};
use super::reach::{Address, addresses, reach};
use super::servers::{Endpoint, Server};
use super::startup::{Startup, TlsUse};
use super::target::Target;
use super::tls::SslMode;
use super::transport::Transport;

/// An open connection; its socket does not block.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) transport: Transport,
    pub(crate) key: CancelKey,
    /// Number of the server in [`Target::servers`].
    pub(super) server: usize,
}

impl Session {
    /// Connects to the first server that will do, and authenticates.
    ///
    /// The limit of `connect_timeout` holds for each address and covers all of it.
    pub(crate) fn open(target: &Target) -> Result<Self, ConnectError> {
        let wanted = target.attributes;
        if wanted == SessionAttributes::PreferStandby {
            match open_one(target, SessionAttributes::Standby) {
                Err(error) if error.allows_next() => {}
                decided => return decided,
            }
            return open_one(target, SessionAttributes::Any);
        }
        open_one(target, wanted)
    }
}

/// Tries the servers in their order. One that answers and refuses the user ends the search, as in
/// libpq: the next would not be the one that was meant.
fn open_one(target: &Target, wanted: SessionAttributes) -> Result<Session, ConnectError> {
    let mut order: Vec<usize> = (0..target.servers.len()).collect();
    if target.balance == Balance::Random {
        fastrand::shuffle(&mut order);
    }
    let mut errors = Vec::new();
    for index in order {
        let server = &target.servers[index];
        match open_server(target, index, wanted) {
            Ok(session) => return Ok(session),
            Err(error) if error.allows_next() => errors.push((server, error)),
            Err(error) => return Err(error),
        }
    }
    Err(ConnectError::none_of(target, errors))
}

fn open_server(
    target: &Target,
    index: usize,
    wanted: SessionAttributes,
) -> Result<Session, ConnectError> {
    let server = &target.servers[index];
    let unreachable =
        |error: &io::Error| ConnectError::unreachable(target, server, &error.to_string());
    let mut addresses = addresses(&server.endpoint).map_err(|error| unreachable(&error))?;
    if target.balance == Balance::Random {
        fastrand::shuffle(&mut addresses);
    }
    let mut last = ConnectError::unreachable(target, server, "the name has no address");
    for address in &addresses {
        match open_address(target, index, address, wanted) {
            Err(error) if error.allows_next() => last = error,
            decided => return decided,
        }
    }
    Err(last)
}

/// Tries what `sslmode` allows, in its order; of two failures the first is told.
fn open_address(
    target: &Target,
    index: usize,
    address: &Address<'_>,
    wanted: SessionAttributes,
) -> Result<Session, ConnectError> {
    let server = &target.servers[index];
    let open = |tls| {
        let attempt = Attempt { target, server, index, wanted };
        attempt.run(address, tls).map_err(|failure| failure.explain(target, server))
    };
    let is_socket = matches!(server.endpoint, Endpoint::Unix(_));
    let (first, second) = match target.ssl_mode {
        _ if is_socket => (TlsUse::Never, None),
        SslMode::Disable => (TlsUse::Never, None),
        SslMode::Allow => (TlsUse::Never, Some(TlsUse::Always)),
        SslMode::Prefer => (TlsUse::IfOffered, Some(TlsUse::Never)),
        SslMode::Require | SslMode::VerifyCa | SslMode::VerifyFull => (TlsUse::Always, None),
    };
    let error = match open(first) {
        Ok(session) => return Ok(session),
        Err(error) => error,
    };
    match second {
        Some(second) if error.may_be_about_tls() => open(second).map_err(|_| error),
        _ => Err(error),
    }
}

struct Attempt<'a> {
    target: &'a Target,
    server: &'a Server,
    index: usize,
    wanted: SessionAttributes,
}

impl Attempt<'_> {
    fn run(&self, address: &Address<'_>, tls: TlsUse) -> Result<Session, Failure> {
        let deadline = Deadline::after(self.target.connect_timeout);
        let transport = reach(address, deadline).map_err(Failure::Unreachable)?;
        let mut startup = Startup {
            target: self.target,
            server: self.server,
            transport,
            deadline,
            received: BytesMut::new(),
            parameters: HashMap::new(),
        };
        let key = startup.run(tls)?;
        check_attributes(&mut startup, self.wanted)?;
        Ok(Session { transport: startup.transport, key, server: self.index })
    }
}

fn check_attributes(startup: &mut Startup<'_>, wanted: SessionAttributes) -> Result<(), Failure> {
    if wanted == SessionAttributes::Any {
        return Ok(());
    }
    let (is_standby, is_read_only) = kind_of_server(startup)?;
    let (will_do, kind) = match wanted {
        SessionAttributes::ReadWrite => (!is_standby && !is_read_only, "read-write"),
        SessionAttributes::ReadOnly => (is_standby || is_read_only, "read-only"),
        SessionAttributes::Primary => (!is_standby, "a primary"),
        SessionAttributes::Standby => (is_standby, "a standby"),
        SessionAttributes::Any | SessionAttributes::PreferStandby => return Ok(()),
    };
    if will_do { Ok(()) } else { Err(Failure::OtherKind(kind)) }
}

/// Whether the server is a standby, and whether its sessions are read-only by default. Servers tell
/// so by themselves since 14; a pooler may not pass it on.
fn kind_of_server(startup: &mut Startup<'_>) -> Result<(bool, bool), Failure> {
    let told = |name: &str| startup.parameters.get(name).map(|value| value == "on");
    if let (Some(is_standby), Some(is_read_only)) =
        (told("in_hot_standby"), told("default_transaction_read_only"))
    {
        return Ok((is_standby, is_read_only));
    }
    let sql = "select pg_is_in_recovery(), current_setting('default_transaction_read_only')::bool";
    let row = startup.ask(sql)?;
    let is_true = |index: usize| row.get(index).and_then(Option::as_deref) == Some("t");
    Ok((is_true(0), is_true(1)))
}
