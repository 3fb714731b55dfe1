//! Opening a client's connection: reaching the server, TLS, authentication, preparing statements.
//!
//! This runs before the load starts, with blocking calls.

use std::io::{self, Read as _, Write as _};
use std::net::{TcpStream, ToSocketAddrs as _};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use fallible_iterator::FallibleIterator as _;
use postgres_protocol::authentication::md5_hash;
use postgres_protocol::authentication::sasl::{ChannelBinding, SCRAM_SHA_256, ScramSha256};
use postgres_protocol::message::backend::Message;
use postgres_protocol::message::frontend;
use rustls::ClientConnection;
use rustls::pki_types::ServerName;

use super::cancel::CancelKey;
use super::error::ConnectError;
use super::target::{Endpoint, Target};
use super::tls::SslMode;
use super::transport::Transport;
use crate::load::engine::ServerError;

/// How long the server may take to answer a step of the start-up.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);

/// An open connection.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) transport: Transport,
    pub(crate) key: CancelKey,
}

impl Session {
    /// Connects, authenticates, sends `preparations` one by one, and makes the socket non-blocking.
    pub(crate) fn open(target: &Target, preparations: &[Vec<u8>]) -> Result<Self, ConnectError> {
        let (endpoint, transport) = reach(target)?;
        let startup = Startup { target, transport, received: BytesMut::new() };
        startup.run(endpoint, preparations).map_err(|failure| match failure {
            Failure::Connect(error) => error,
            Failure::Io(source) => ConnectError::Startup { place: endpoint.to_string(), source },
        })
    }
}

/// Tries the endpoints in order.
pub(super) fn reach(target: &Target) -> Result<(&Endpoint, Transport), ConnectError> {
    let mut reasons = Vec::new();
    for endpoint in &target.endpoints {
        match reach_one(endpoint, target.connect_timeout()) {
            Ok(transport) => return Ok((endpoint, transport)),
            Err(error) => reasons.push(error.to_string()),
        }
    }
    Err(ConnectError::Unreachable { place: target.place(), reason: reasons.join("; ") })
}

fn reach_one(endpoint: &Endpoint, timeout: Duration) -> io::Result<Transport> {
    let transport = match endpoint {
        Endpoint::Unix(path) => Transport::from(UnixStream::connect(path)?),
        Endpoint::Tcp { host, address, port } => {
            let stream = match address {
                Some(address) => TcpStream::connect_timeout(&(*address, *port).into(), timeout)?,
                None => connect_to_name(host, *port, timeout)?,
            };
            stream.set_nodelay(true)?;
            Transport::from(stream)
        }
    };
    transport.set_read_timeout(Some(ANSWER_TIMEOUT))?;
    Ok(transport)
}

fn connect_to_name(host: &str, port: u16, timeout: Duration) -> io::Result<TcpStream> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for address in (host, port).to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, timeout) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(last)
}

enum Failure {
    Connect(ConnectError),
    Io(io::Error),
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

struct Startup<'a> {
    target: &'a Target,
    transport: Transport,
    received: BytesMut,
}

impl Startup<'_> {
    fn run(mut self, endpoint: &Endpoint, preparations: &[Vec<u8>]) -> Result<Session, Failure> {
        self.negotiate_tls(endpoint)?;
        self.send_startup_message()?;
        self.authenticate()?;
        let key = self.wait_until_ready()?;
        for request in preparations {
            self.transport.write_all(request)?;
            self.transport.flush()?;
            self.wait_until_ready()?;
        }
        self.transport.set_read_timeout(None)?;
        self.transport.set_nonblocking()?;
        let key = key.ok_or_else(|| unexpected("no BackendKeyData"))?;
        Ok(Session { transport: self.transport, key })
    }

    fn negotiate_tls(&mut self, endpoint: &Endpoint) -> Result<(), Failure> {
        let (Endpoint::Tcp { host, .. }, Some(config)) = (endpoint, &self.target.tls) else {
            return Ok(());
        };
        let mut request = BytesMut::new();
        frontend::ssl_request(&mut request);
        self.transport.write_all(&request)?;
        let mut answer = [0];
        self.transport.read_exact(&mut answer)?;
        if answer[0] == b'S' {
            let name = ServerName::try_from(host.clone()).map_err(io::Error::other)?;
            let connection =
                ClientConnection::new(Arc::clone(config), name).map_err(io::Error::other)?;
            self.transport.start_tls(connection);
            return Ok(());
        }
        if self.target.ssl_mode == SslMode::Prefer {
            return Ok(());
        }
        Err(Failure::Connect(ConnectError::NoTls(endpoint.to_string())))
    }

    fn send_startup_message(&mut self) -> Result<(), Failure> {
        let config = &self.target.config;
        let optional = [
            ("database", config.get_dbname()),
            ("options", config.get_options()),
            ("application_name", config.get_application_name()),
        ];
        let parameters = [("user", self.target.user()), ("client_encoding", "UTF8")]
            .into_iter()
            .chain(optional.into_iter().filter_map(|(key, value)| Some((key, value?))));
        let mut message = BytesMut::new();
        frontend::startup_message(parameters, &mut message)?;
        self.send(&message)
    }

    fn authenticate(&mut self) -> Result<(), Failure> {
        match self.receive()? {
            Message::AuthenticationOk => return Ok(()),
            Message::AuthenticationCleartextPassword => {
                let password = self.password()?;
                self.send_password(&password)?;
            }
            Message::AuthenticationMd5Password(body) => {
                let user = self.target.user().as_bytes();
                let hash = md5_hash(user, &self.password()?, body.salt());
                self.send_password(hash.as_bytes())?;
            }
            Message::AuthenticationSasl(body) => {
                let mechanisms: Vec<_> =
                    body.mechanisms().map(|name| Ok(name.to_owned())).collect()?;
                if !mechanisms.iter().any(|name| name == SCRAM_SHA_256) {
                    return Err(unexpected(&format!("authentication by {mechanisms:?}")));
                }
                self.authenticate_scram()?;
            }
            _ => {
                return Err(unexpected(
                    "an authentication method other than SCRAM, md5, password or trust",
                ));
            }
        }
        match self.receive()? {
            Message::AuthenticationOk => Ok(()),
            _ => Err(unexpected("no end of the authentication")),
        }
    }

    fn authenticate_scram(&mut self) -> Result<(), Failure> {
        let mut scram = ScramSha256::new(&self.password()?, ChannelBinding::unsupported());
        let mut message = BytesMut::new();
        frontend::sasl_initial_response(SCRAM_SHA_256, scram.message(), &mut message)?;
        self.send(&message)?;
        let Message::AuthenticationSaslContinue(body) = self.receive()? else {
            return Err(unexpected("no SCRAM challenge"));
        };
        scram.update(body.data())?;
        message.clear();
        frontend::sasl_response(scram.message(), &mut message)?;
        self.send(&message)?;
        let Message::AuthenticationSaslFinal(body) = self.receive()? else {
            return Err(unexpected("no end of SCRAM"));
        };
        Ok(scram.finish(body.data())?)
    }

    fn password(&self) -> Result<Vec<u8>, Failure> {
        let password = self.target.config.get_password().map(<[u8]>::to_vec);
        password.ok_or_else(|| {
            Failure::Connect(ConnectError::NoPassword {
                place: self.target.place(),
                user: self.target.user().to_owned(),
            })
        })
    }

    fn send_password(&mut self, password: &[u8]) -> Result<(), Failure> {
        let mut message = BytesMut::new();
        frontend::password_message(password, &mut message)?;
        self.send(&message)
    }

    /// Reads up to ReadyForQuery; the backend's key when it was told.
    fn wait_until_ready(&mut self) -> Result<Option<CancelKey>, Failure> {
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

    fn send(&mut self, message: &[u8]) -> Result<(), Failure> {
        self.transport.write_all(message)?;
        Ok(self.transport.flush()?)
    }

    fn receive(&mut self) -> Result<Message, Failure> {
        loop {
            match Message::parse(&mut self.received)? {
                Some(Message::ErrorResponse(body)) => {
                    let error = ServerError::from_body(&body);
                    return Err(Failure::Connect(ConnectError::from_server(self.target, error)));
                }
                Some(message) => return Ok(message),
                None => {}
            }
            let mut chunk = [0; 4096];
            let count = self.transport.read(&mut chunk)?;
            if count == 0 {
                let closed = "the server closed the connection";
                return Err(io::Error::new(io::ErrorKind::UnexpectedEof, closed).into());
            }
            self.received.extend_from_slice(&chunk[..count]);
        }
    }
}

fn unexpected(what: &str) -> Failure {
    io::Error::other(format!("the server's answer is not supported: {what}")).into()
}
