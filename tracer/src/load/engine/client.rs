//! One client as a state machine without I/O: bytes in, requests and outcomes out.

use std::sync::Arc;

use fallible_iterator::FallibleIterator as _;
use postgres_protocol::message::backend::Message;

use super::frames::{Frame, FrameError, FrameWalker};
use super::record::Outcome;
use super::script::{Script, Step};
use crate::load::connect::ConnectError;

/// Why a client gave up before the end of the run.
#[derive(Debug, thiserror::Error)]
pub enum AbortReason {
    /// A statement failed with something other than a serialization failure or a deadlock.
    #[error("the server refused a statement: {0}")]
    Statement(ServerError),
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

/// What an ErrorResponse says.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
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
    fn parse(payload: &[u8]) -> Self {
        let mut error =
            Self { severity: String::new(), sqlstate: String::new(), message: String::new() };
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
    pub(crate) fn from_body(body: &postgres_protocol::message::backend::ErrorResponseBody) -> Self {
        let mut error =
            Self { severity: String::new(), sqlstate: String::new(), message: String::new() };
        error.read_fields(body);
        error
    }

    fn read_fields(&mut self, body: &postgres_protocol::message::backend::ErrorResponseBody) {
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

    fn ends_the_connection(&self) -> bool {
        matches!(self.severity.as_str(), "FATAL" | "PANIC")
    }

    fn outcome(&self) -> Option<Outcome> {
        match self.sqlstate.as_str() {
            "40001" => Some(Outcome::SerializationFailure),
            "40P01" => Some(Outcome::Deadlock),
            _ => None,
        }
    }
}

/// What to do after bytes were received.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Progress {
    /// The reply is not complete.
    Waiting,
    /// Send [`Client::request`].
    Send,
    /// The transaction ended.
    Over(Outcome),
}

/// The state of one client.
#[derive(Debug)]
pub(super) struct Client {
    script: Arc<Script>,
    random: fastrand::Rng,
    variables: Vec<i64>,
    walker: FrameWalker,
    /// The next step of the script.
    position: usize,
    request: Vec<u8>,
    /// The failure that this transaction is being rolled back for.
    failed: Option<Outcome>,
}

/// What one walk over a chunk found.
#[derive(Default)]
struct Reply {
    status: Option<u8>,
    error: Option<ServerError>,
    copy: bool,
}

impl Client {
    pub(super) fn new(script: Arc<Script>, seed: u64) -> Self {
        Self {
            variables: vec![0; script.variable_count],
            script,
            random: fastrand::Rng::with_seed(seed),
            walker: FrameWalker::default(),
            position: 0,
            request: Vec::with_capacity(512),
            failed: None,
        }
    }

    /// Starts a transaction: [`Self::request`] holds its first request.
    pub(super) fn begin(&mut self) {
        self.position = 0;
        self.failed = None;
        self.advance();
    }

    /// The bytes to send.
    pub(super) fn request(&self) -> &[u8] {
        &self.request
    }

    /// Takes what the server sent.
    #[inline]
    pub(super) fn receive(&mut self, chunk: &[u8]) -> Result<Progress, AbortReason> {
        let mut reply = Reply::default();
        self.walker.walk(chunk, |frame| match frame {
            Frame::Ready(status) => reply.status = Some(status),
            // The first error is the cause of any others.
            Frame::Error(payload) => {
                reply.error.get_or_insert_with(|| ServerError::parse(payload));
            }
            Frame::Copy => reply.copy = true,
        })?;
        if let Some(error) = reply.error {
            self.failed = Some(failure(error)?);
        }
        if reply.copy {
            let text = "the script started a COPY, which a load cannot serve".to_owned();
            return Err(AbortReason::Protocol(text));
        }
        match (reply.status, self.failed) {
            (None, _) => Ok(Progress::Waiting),
            (Some(b'I'), Some(outcome)) => Ok(Progress::Over(outcome)),
            (Some(_), Some(_)) => {
                self.rollback();
                Ok(Progress::Send)
            }
            (Some(_), None) if self.advance() => Ok(Progress::Send),
            (Some(_), None) => Ok(Progress::Over(Outcome::Committed)),
        }
    }

    /// Runs the script up to its next request; false at its end.
    fn advance(&mut self) -> bool {
        self.request.clear();
        while let Some(step) = self.script.steps.get(self.position) {
            self.position += 1;
            match step {
                Step::Random { variable, low, high } => {
                    self.variables[*variable] = self.random.i64(*low..=*high);
                }
                Step::Request(template) => {
                    template.fill(&self.variables, &mut self.request);
                    return true;
                }
            }
        }
        false
    }

    fn rollback(&mut self) {
        self.request.clear();
        self.request.extend_from_slice(b"Q\0\0\0\x0dROLLBACK\0");
    }
}

/// A failure that the run survives, or the reason to give up.
fn failure(error: ServerError) -> Result<Outcome, AbortReason> {
    if error.ends_the_connection() {
        return Err(AbortReason::Terminated(error));
    }
    error.outcome().ok_or(AbortReason::Statement(error))
}

impl From<FrameError> for AbortReason {
    fn from(error: FrameError) -> Self {
        Self::Protocol(error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use std::str::FromStr as _;

    use super::*;
    use crate::load::workload::{Protocol, Workload};

    fn client(workload: &str) -> Client {
        let workload = <&Workload>::from_str(workload).unwrap();
        let protocol = workload.protocol(None).unwrap();
        Client::new(Arc::new(Script::compile(workload, protocol, 1).unwrap()), 7)
    }

    fn sent(client: &Client) -> String {
        client.request().escape_ascii().to_string()
    }

    fn error(fields: &[u8]) -> Vec<u8> {
        let length = u32::try_from(fields.len() + 4).unwrap();
        [b"E", &length.to_be_bytes()[..], fields].concat()
    }

    const READY: &[u8] = b"Z\0\0\0\x05I";
    const IN_TRANSACTION: &[u8] = b"Z\0\0\0\x05T";
    const FAILED: &[u8] = b"Z\0\0\0\x05E";

    #[test]
    fn a_select_is_one_request() {
        let mut client = client("select-prepared");
        client.begin();
        assert!(sent(&client).contains("P_0"));
        assert_eq!(client.receive(&READY[..3]).unwrap(), Progress::Waiting);
        let over = client.receive(&READY[3..]).unwrap();
        assert_eq!(over, Progress::Over(Outcome::Committed));
    }

    #[test]
    fn tpcb_like_is_seven_requests() {
        let mut client = client("tpcb-like");
        client.begin();
        let mut statements = vec![sent(&client)];
        for _ in 0..6 {
            assert_eq!(client.receive(IN_TRANSACTION).unwrap(), Progress::Send);
            statements.push(sent(&client));
        }
        assert_eq!(client.receive(READY).unwrap(), Progress::Over(Outcome::Committed));
        let verbs = ["BEGIN", "UPDATE", "SELECT", "UPDATE", "UPDATE", "INSERT", "END"];
        for (statement, verb) in statements.iter().zip(verbs) {
            assert!(statement.contains(verb), "{statement}");
        }
    }

    #[test]
    fn a_deadlock_rolls_back_and_is_a_failed_transaction() {
        let mut client = client("tpcb-like");
        client.begin();
        client.receive(IN_TRANSACTION).unwrap();
        let reply = [&error(b"SERROR\0VERROR\0C40P01\0Mdeadlock detected\0\0"), FAILED].concat();
        assert_eq!(client.receive(&reply).unwrap(), Progress::Send);
        assert_eq!(client.request(), b"Q\0\0\0\x0dROLLBACK\0");
        assert_eq!(client.receive(READY).unwrap(), Progress::Over(Outcome::Deadlock));
        client.begin();
        assert!(sent(&client).contains("BEGIN"));
    }

    #[test]
    fn a_serialization_failure_outside_a_transaction_needs_no_rollback() {
        let mut client = client("select-simple");
        client.begin();
        let reply = [&error(b"SERROR\0VERROR\0C40001\0Mtry again\0\0"), READY].concat();
        let over = client.receive(&reply).unwrap();
        assert_eq!(over, Progress::Over(Outcome::SerializationFailure));
    }

    #[test]
    fn any_other_error_ends_the_client_and_says_why() {
        let mut client = client("select-simple");
        client.begin();
        let reply = error(b"SFEHLER\0VERROR\0C42P01\0Mrelation does not exist\0\0");
        let AbortReason::Statement(error) = client.receive(&reply).unwrap_err() else { panic!() };
        assert_eq!(error.to_string(), "ERROR: relation does not exist (SQLSTATE 42P01)");
    }

    #[test]
    fn a_fatal_error_ends_the_connection() {
        let mut client = client("select-simple");
        client.begin();
        let reply = error(b"SFATAL\0VFATAL\0C57P01\0Mterminating connection\0\0");
        assert!(matches!(client.receive(&reply), Err(AbortReason::Terminated(_))));
    }

    #[test]
    fn the_same_seed_gives_the_same_requests() {
        let (mut one, mut two) = (client("tpcb-like"), client("tpcb-like"));
        one.begin();
        two.begin();
        for _ in 0..6 {
            one.receive(IN_TRANSACTION).unwrap();
            two.receive(IN_TRANSACTION).unwrap();
            assert_eq!(one.request(), two.request());
        }
    }

    #[test]
    fn the_rollback_is_well_formed() {
        let mut bytes = bytes::BytesMut::new();
        postgres_protocol::message::frontend::query("ROLLBACK", &mut bytes).unwrap();
        assert_eq!(&bytes[..], b"Q\0\0\0\x0dROLLBACK\0");
        assert_eq!(Protocol::Simple.to_string(), "simple");
    }
}
