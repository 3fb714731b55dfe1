//! What can go wrong with a guest.

use std::io;
use std::path::PathBuf;
use std::process::ExitStatus;

use super::job::GuestFailure;
use super::{KernelError, NoKvm};

/// A guest that did not do its work.
#[derive(Debug, thiserror::Error)]
pub enum VmError {
    /// A program of this machine that guests need.
    #[error(
        "{program} is missing, and guests need it; install it (Debian: apt-get install {package})"
    )]
    MissingProgram {
        /// Its name.
        program: &'static str,
        /// Debian's package that has it.
        package: &'static str,
    },
    /// The guest's first file system has no libraries.
    #[error(
        "{path} needs libraries, which the guest's first file system does not have; install a static one (Debian: apt-get install busybox-static)",
        path = .0.display()
    )]
    BusyboxNotStatic(PathBuf),
    /// A program failed.
    #[error("{program} failed ({status}) on {on}", on = .on.display())]
    Tool {
        /// Its name.
        program: &'static str,
        /// How it ended.
        status: ExitStatus,
        /// What it was to work on.
        on: PathBuf,
    },
    /// Files and processes.
    #[error("cannot {what}: {source}")]
    Io {
        /// What was to be done.
        what: String,
        /// What the system said.
        source: io::Error,
    },
    /// The kernel's files.
    #[error(transparent)]
    Kernel(#[from] KernelError),
    /// `kvm` was asked for.
    #[error(
        "guests cannot run by KVM here: {0}; leave the accelerator to lockscope, or choose tcg"
    )]
    NoKvm(#[from] NoKvm),
    /// The guest itself.
    #[error(transparent)]
    Guest(#[from] GuestFailure),
}

impl VmError {
    /// For `map_err`: what was to be done.
    pub(crate) fn io(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let what = what.into();
        |source| Self::Io { what, source }
    }
}
