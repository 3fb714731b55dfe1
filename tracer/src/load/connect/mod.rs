//! Reaching a server: addresses, identities, TLS and the start of a connection.

mod auth;
mod binding;
mod cancel;
mod client_certificate;
mod conninfo;
mod deadline;
mod error;
mod options;
mod pgpass;
mod reach;
mod secret;
mod server_options;
mod servers;
mod session;
mod startup;
mod target;
mod tls;
mod transport;
mod variables;

pub(crate) use cancel::CancelKey;
pub use conninfo::{own_arguments, scrub_arguments, scrub_message};
pub use error::ConnectError;
pub use secret::Secret;
pub use server_options::{Database, ServerOptions};
pub use servers::Endpoint;
pub(crate) use servers::Server;
pub(crate) use session::Session;
pub(crate) use target::Identity;
pub use target::{Target, TargetError};
pub use tls::{SslMode, TlsError};
pub(crate) use transport::{Received, Transport};
