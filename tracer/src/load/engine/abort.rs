//! Why a client gives up.

use fallible_iterator::FallibleIterator as _;
use postgres_protocol::message::backend::{ErrorResponseBody, Message};

use super::frames::FrameError;
use super::record::{Outcome, SqlState};
use crate::load::connect::ConnectError;
use crate::load::script::Place;

/// Why a client gave up before the end of the run.
#[derive(Debug, thiserror::Error)]
pub enum AbortReason {
    /// A statement failed with something other than a serialization failure or a deadlock.
    #[error("{place}: the server refused the statement: {error}")]
    Statement {
        /// Which.
        place: Place,
        /// In the server's words.
        error: ServerError,
    },
    /// A meta-command failed.
    #[error("{place}: \\{command} failed: {problem}")]
    Meta {
        /// Which.
        place: Place,
        /// Its name.
        command: &'static str,
        /// Why.
        problem: String,
    },
    /// The script ends in the middle of something.
    #[error("{script}: the end of the script was reached {problem}")]
    Unfinished {
        /// Its file, or the name of the built-in.
        script: String,
        /// What is missing.
        problem: &'static str,
    },
    /// A failed transaction cannot be rolled back.
    #[error("the failed transaction cannot be rolled back: {0}")]
    Rollback(ServerError),
    /// The server ended the connection and said why.
    #[error("the server ended the connection: {0}")]
    Terminated(ServerError),
    /// The connection was closed without a word.
    #[error("the server closed the connection")]
    Closed,
    /// The socket failed.
    #[error("the connection failed: {0}")]
    Io(#[from] std::io::Error),
    /// The reply is not understood.
    #[error("{0}")]
    Protocol(String),
    /// With a connection a transaction, the next one is not to be had.
    #[error("it cannot connect: {0}")]
    Connect(Box<ConnectError>),
    /// The transaction did not end after the run.
    #[error("its transaction had not ended {0} s after the end of the run")]
    Stuck(u64),
}

impl From<FrameError> for AbortReason {
    fn from(error: FrameError) -> Self {
        Self::Protocol(error.to_string())
    }
}

/// What an ErrorResponse says.
#[derive(Clone, Debug, Default, PartialEq, Eq, thiserror::Error)]
#[error("{severity}: {message} (SQLSTATE {sqlstate})")]
pub struct ServerError {
    /// `ERROR`, `FATAL`, `PANIC`.
    pub severity: String,
    /// Five characters.
    pub sqlstate: String,
    /// The primary message.
    pub message: String,
}

impl ServerError {
    /// Reads the fields of an ErrorResponse's payload; a field that is absent stays empty.
    pub(super) fn parse(payload: &[u8]) -> Self {
        let mut error = Self::default();
        let length = u32::try_from(payload.len() + 4).unwrap_or(u32::MAX);
        let mut frame = bytes::BytesMut::from(&[b'E'][..]);
        frame.extend_from_slice(&length.to_be_bytes());
        frame.extend_from_slice(payload);
        if let Ok(Some(Message::ErrorResponse(body))) = Message::parse(&mut frame) {
            error.read_fields(&body);
        }
        error
    }

    /// Takes the fields of a parsed message.
    pub(crate) fn from_body(body: &ErrorResponseBody) -> Self {
        let mut error = Self::default();
        error.read_fields(body);
        error
    }

    fn read_fields(&mut self, body: &ErrorResponseBody) {
        let mut fields = body.fields();
        while let Ok(Some(field)) = fields.next() {
            let value = || String::from_utf8_lossy(field.value_bytes()).into_owned();
            match field.type_() {
                // `V` is never translated, `S` may be; `V` comes second and wins.
                b'S' | b'V' => self.severity = value(),
                b'C' => self.sqlstate = value(),
                b'M' => self.message = value(),
                _ => {}
            }
        }
    }

    pub(super) fn ends_the_connection(&self) -> bool {
        matches!(self.severity.as_str(), "FATAL" | "PANIC")
    }

    /// What becomes of the transaction, if the client survives.
    pub(super) fn outcome(&self) -> Outcome {
        match self.sqlstate.as_str() {
            "40001" => Outcome::SerializationFailure,
            "40P01" => Outcome::Deadlock,
            other => Outcome::OtherFailure(SqlState::new(other)),
        }
    }
}
