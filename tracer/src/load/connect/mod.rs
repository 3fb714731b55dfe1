//! Reaching a server: addresses, identities, TLS and the start of a connection.

mod conninfo;
mod pgpass;
mod secret;
mod startup;
mod target;
mod tls;
mod transport;

pub use conninfo::scrub_arguments;
pub use secret::Secret;
pub use startup::ConnectError;
pub(crate) use startup::Session;
pub use target::{Endpoint, ServerOptions, Target, TargetError};
pub use tls::{SslMode, TlsError};
pub(crate) use transport::{Received, Transport};
