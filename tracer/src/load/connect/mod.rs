//! Reaching a server: addresses, identities, TLS and the start of a connection.

mod cancel;
mod conninfo;
mod error;
mod pgpass;
mod secret;
mod startup;
mod target;
mod tls;
mod transport;
mod variables;

pub(crate) use cancel::CancelKey;
pub use conninfo::{scrub_arguments, scrub_message};
pub use error::ConnectError;
pub use secret::Secret;
pub(crate) use startup::Session;
pub use target::{Endpoint, ServerOptions, Target, TargetError};
pub use tls::{SslMode, TlsError};
pub(crate) use transport::{Received, Transport};
