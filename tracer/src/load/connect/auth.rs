//! Proving to the server who connects.

use bytes::BytesMut;
use fallible_iterator::FallibleIterator as _;
use postgres_protocol::authentication::md5_hash;
use postgres_protocol::authentication::sasl::{
    ChannelBinding, SCRAM_SHA_256, SCRAM_SHA_256_PLUS, ScramSha256,
};
use postgres_protocol::message::backend::Message;
use postgres_protocol::message::frontend;

use super::binding::server_end_point;
use super::error::{ConnectError, Failure};
use super::options::Binding;
use super::startup::{Startup, unexpected};

impl Startup<'_> {
    pub(super) fn authenticate(&mut self) -> Result<(), Failure> {
        let request = self.receive()?;
        let is_scram = matches!(request, Message::AuthenticationSasl(_));
        if self.target.binding == Binding::Require && !is_scram {
            return Err(self.not_bound("the server does not ask for SCRAM"));
        }
        match request {
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
                let mechanisms: Vec<String> =
                    body.mechanisms().map(|name| Ok(name.to_owned())).collect()?;
                self.authenticate_scram(&mechanisms)?;
            }
            _ => {
                return Err(unexpected(
                    "an authentication method other than SCRAM, md5, password, cert or trust",
                ));
            }
        }
        match self.receive()? {
            Message::AuthenticationOk => Ok(()),
            _ => Err(unexpected("no end of the authentication")),
        }
    }

    fn authenticate_scram(&mut self, offered: &[String]) -> Result<(), Failure> {
        let (mechanism, binding) = self.choose_mechanism(offered)?;
        let mut scram = ScramSha256::new(&self.password()?, binding);
        let mut message = BytesMut::new();
        frontend::sasl_initial_response(mechanism, scram.message(), &mut message)?;
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

    /// Bound to the TLS channel where both sides can, as libpq does.
    fn choose_mechanism(
        &self,
        offered: &[String],
    ) -> Result<(&'static str, ChannelBinding), Failure> {
        let is_offered = |name: &str| offered.iter().any(|offered| offered == name);
        let certificate = self.transport.server_certificate();
        let end_point = certificate.and_then(server_end_point);
        match (self.target.binding, end_point) {
            (Binding::Prefer | Binding::Require, Some(hash)) if is_offered(SCRAM_SHA_256_PLUS) => {
                Ok((SCRAM_SHA_256_PLUS, ChannelBinding::tls_server_end_point(hash)))
            }
            (Binding::Require, None) => Err(self.not_bound(
                "the connection does not use TLS, or its certificate allows no binding",
            )),
            (Binding::Require, Some(_)) => Err(self.not_bound("the server does not offer it")),
            _ if !is_offered(SCRAM_SHA_256) => {
                Err(unexpected(&format!("authentication by {}", offered.join(", "))))
            }
            // Tells the server that a binding was possible, so that a downgrade is noticed.
            (Binding::Prefer, Some(_)) => Ok((SCRAM_SHA_256, ChannelBinding::unrequested())),
            _ => Ok((SCRAM_SHA_256, ChannelBinding::unsupported())),
        }
    }

    fn not_bound(&self, reason: &'static str) -> Failure {
        ConnectError::NotBound { place: self.server.endpoint.to_string(), reason }.into()
    }

    fn password(&self) -> Result<Vec<u8>, Failure> {
        let password = self.server.password.as_ref();
        password.map(|password| password.reveal().as_bytes().to_vec()).ok_or_else(|| {
            let (place, user) = (self.server.endpoint.to_string(), self.target.user().to_owned());
            ConnectError::NoPassword { place, user }.into()
        })
    }

    fn send_password(&mut self, password: &[u8]) -> Result<(), Failure> {
        let mut message = BytesMut::new();
        frontend::password_message(password, &mut message)?;
        self.send(&message)
    }
}
