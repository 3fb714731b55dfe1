//! The server's side of a run: an embedded one, or what must be known and set up on another.

mod binaries;
mod control;
mod embedded;
mod embedded_error;
mod leftovers;
mod process;
pub mod sysbench;
mod tables;
mod turn;
mod view;

pub use binaries::NoBinaries;
pub use control::{Control, ControlError};
pub use embedded::{EmbeddedOptions, EmbeddedServer, Setting};
pub use embedded_error::EmbeddedError;
pub use tables::{TableOptions, Tables, TablesError, create_function};
pub use turn::in_turn;
pub use view::{Seen, Sights, View, Viewing};

/// The tables cannot be prepared.
#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    /// They are not usable as asked.
    #[error(transparent)]
    Tables(#[from] TablesError),
    /// The server refused something.
    #[error(transparent)]
    Control(#[from] ControlError),
}
