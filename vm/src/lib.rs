//! Guests under QEMU: any kernel, this machine's root read-only, and a directory that both sides write.
//!
//! `cargo xtask vm` runs lockscope's tests in them, `lockscope vm` a user's command ([`job`]). A guest
//! is gone when the function that boots it returns, or when this process ends in whatever way.

mod accelerator;
mod console;
mod error;
mod initramfs;
pub mod job;
mod kernel;
mod modules;
mod program;
mod qemu;
mod watch;

pub use accelerator::{Accelerator, NoKvm, find_kvm};
pub use console::Event;
pub use error::VmError;
pub use initramfs::build as build_initramfs;
pub use kernel::{Kernel, KernelError};
pub use program::{find_program, is_static, quote};
pub use qemu::{Guest, Machine};
pub use watch::{Ending, Watcher, boot};

/// Prepares a guest's system: what every script that runs in a guest sources first.
pub const PREPARE_SCRIPT: &str = include_str!("prepare.sh");
