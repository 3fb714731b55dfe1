//! From a bare stream to a session: TLS, the start-up message, authentication.
//!
//! Nothing that the other side sends may make this panic, wait beyond the deadline or hold more
//! than a message of bounded length.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;

use bytes::BytesMut;
use fallible_iterator::FallibleIterator as _;
use nix::poll::PollFlags;
use postgres_protocol::message::backend::Message;
use postgres_protocol::message::frontend;
use rustls::ClientConnection;
use rustls::pki_types::ServerName;

use super::cancel::CancelKey;
use super::deadline::Deadline;
use super::error::{ConnectError, Failure};
use super::servers::{Endpoint, Server};
use super::target::Target;
use super::transport::{Received, Transport};
use crate::load::engine::ServerError;

/// Longest message that a server may send before the session is ready; libpq allows less.
const MESSAGE_MAX: usize = 1024 * 1024;

/// What this attempt does about TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TlsUse {
    Never,
    IfOffered,
    Always,
}

/// A stream on which a session is being started.
#[derive(Debug)]
pub(super) struct Startup<'a> {
    pub(super) target: &'a Target,
    pub(super) server: &'a Server,
    pub(super) transport: Transport,
    pub(super) deadline: Deadline,
    pub(super) received: BytesMut,
    /// What the server has said about itself.
    pub(super) parameters: HashMap<String, String>,
}

impl Startup<'_> {
    /// Up to the first ReadyForQuery; the backend's key.
    pub(super) fn run(&mut self, tls: TlsUse) -> Result<CancelKey, Failure> {
        self.negotiate_tls(tls)?;
        self.send_startup_message()?;
        self.authenticate()?;
        let key = self.wait_until_ready()?;
        key.ok_or_else(|| unexpected("no BackendKeyData"))
    }

    fn negotiate_tls(&mut self, tls: TlsUse) -> Result<(), Failure> {
        let (Endpoint::Tcp { host, .. }, Some(config)) = (&self.server.endpoint, &self.target.tls)
        else {
            return Ok(());
        };
        if tls == TlsUse::Never {
            return Ok(());
        }
        let mut request = BytesMut::new();
        frontend::ssl_request(&mut request);
        self.send(&request)?;
        let mut answer = [0];
        self.receive_some(&mut answer)?;
        match answer[0] {
            b'S' => {
                let name = ServerName::try_from(host.clone()).map_err(io::Error::other)?;
                let connection =
                    ClientConnection::new(Arc::clone(config), name).map_err(io::Error::other)?;
                self.transport.start_tls(connection);
                Ok(())
            }
            b'N' if tls == TlsUse::IfOffered => Ok(()),
            b'N' => Err(ConnectError::NoTls(self.server.endpoint.to_string()).into()),
            // An error message, from a server too busy to fork.
            b'E' => {
                self.received.extend_from_slice(b"E");
                self.receive().and(Err(unexpected("an answer to the request for TLS")))
            }
            other => {
                let mut more = [0; 31];
                let mut answer = vec![other];
                if let Received::Bytes { count, .. } = self.transport.receive(&mut more)? {
                    answer.extend_from_slice(&more[..count]);
                }
                Err(Failure::Garbage(answer))
            }
        }
    }

    fn send_startup_message(&mut self) -> Result<(), Failure> {
        let identity = &self.target.identity;
        let optional = [
            ("database", &identity.database),
            ("options", &identity.options),
            ("application_name", &identity.application_name),
        ];
        let parameters = [("user", self.target.user()), ("client_encoding", "UTF8")]
            .into_iter()
            .chain(optional.into_iter().filter_map(|(key, value)| Some((key, value.as_deref()?))));
        let mut message = BytesMut::new();
        frontend::startup_message(parameters, &mut message)?;
        self.send(&message)
    }

    /// Reads up to ReadyForQuery; the backend's key when it was told.
    pub(super) fn wait_until_ready(&mut self) -> Result<Option<CancelKey>, Failure> {
        let mut key = None;
        loop {
            match self.receive()? {
                Message::BackendKeyData(body) => {
                    key = Some(CancelKey {
                        backend_pid: body.process_id().cast_unsigned(),
                        secret: body.secret_key().cast_unsigned(),
                    });
                }
                Message::ReadyForQuery(_) => return Ok(key),
                _ => {}
            }
        }
    }

    /// The first row of a query, as text.
    pub(super) fn ask(&mut self, sql: &str) -> Result<Vec<Option<String>>, Failure> {
        let mut message = BytesMut::new();
        frontend::query(sql, &mut message)?;
        self.send(&message)?;
        let mut row = Vec::new();
        loop {
            match self.receive()? {
                Message::DataRow(body) if row.is_empty() => {
                    let bytes = body.buffer();
                    row = body
                        .ranges()
                        .map(|range| {
                            let value = range.and_then(|range| bytes.get(range));
                            Ok(value.map(|value| String::from_utf8_lossy(value).into_owned()))
                        })
                        .collect()?;
                }
                Message::ReadyForQuery(_) => return Ok(row),
                _ => {}
            }
        }
    }

    pub(super) fn send(&mut self, message: &[u8]) -> Result<(), Failure> {
        let mut is_sent = self.transport.send(message)?;
        while !is_sent {
            self.deadline.wait(&self.transport, PollFlags::POLLOUT)?;
            is_sent = self.transport.send_unsent()?;
        }
        Ok(())
    }

    /// The next message; a server's error is one here.
    pub(super) fn receive(&mut self) -> Result<Message, Failure> {
        loop {
            check_frame(&self.received)?;
            match Message::parse(&mut self.received) {
                Ok(Some(Message::ErrorResponse(body))) => {
                    return Err(Failure::Server(ServerError::from_body(&body)));
                }
                Ok(Some(Message::ParameterStatus(body))) => {
                    let (name, value) = (body.name()?.to_owned(), body.value()?.to_owned());
                    self.parameters.insert(name, value);
                    continue;
                }
                Ok(Some(Message::NoticeResponse(_))) => continue,
                Ok(Some(message)) => return Ok(message),
                Ok(None) => {}
                Err(error) => return Err(unexpected(&error.to_string())),
            }
            let mut chunk = [0; 4096];
            let count = self.receive_some(&mut chunk)?;
            self.received.extend_from_slice(&chunk[..count]);
        }
    }

    fn receive_some(&mut self, buffer: &mut [u8]) -> Result<usize, Failure> {
        // Whoever never stops talking is never waited for.
        self.deadline.left()?;
        loop {
            match self.transport.receive(buffer)? {
                Received::Bytes { count, .. } => return Ok(count),
                Received::End => return Err(Failure::Closed),
                Received::Nothing => {
                    // A TLS handshake has something to answer by itself.
                    let mut events = PollFlags::POLLIN;
                    if !self.transport.send_unsent()? {
                        events |= PollFlags::POLLOUT;
                    }
                    self.deadline.wait(&self.transport, events)?;
                }
            }
        }
    }
}

/// Refuses what cannot be the beginning of a message before anything is allocated for it.
fn check_frame(received: &[u8]) -> Result<(), Failure> {
    let Some((&tag, rest)) = received.split_first() else { return Ok(()) };
    let length = rest.first_chunk().map(|bytes| u32::from_be_bytes(*bytes) as usize);
    let is_plausible = length.is_none_or(|length| (4..=MESSAGE_MAX).contains(&length));
    if b"RSKZENATDCIvn12s".contains(&tag) && is_plausible {
        Ok(())
    } else {
        Err(Failure::Garbage(received[..received.len().min(32)].to_vec()))
    }
}

pub(super) fn unexpected(what: &str) -> Failure {
    Failure::Unsupported(what.to_owned())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_length_that_no_start_up_message_has_is_refused_at_once() {
        assert!(check_frame(b"R\0\0\0\x08\0\0\0\0").is_ok());
        assert!(check_frame(b"R\0").is_ok());
        assert!(check_frame(b"R\x7f\xff\xff\xff").is_err());
        assert!(check_frame(b"R\0\0\0\x03").is_err());
        assert!(check_frame(b"HTTP/1.1 400 Bad Request").is_err());
    }

    proptest! {
        #[test]
        fn no_accepted_frame_is_longer_than_allowed(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
            if check_frame(&bytes).is_ok() && bytes.len() >= 5 {
                let length = u32::from_be_bytes([bytes[1], bytes[2], bytes[3], bytes[4]]);
                prop_assert!(length as usize <= MESSAGE_MAX);
            }
        }
    }
}
