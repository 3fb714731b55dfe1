//! Why tracing could not start or go on.

use std::io;

use thiserror::Error;

/// An error of loading, attaching or reading the programs.
#[derive(Debug, Error)]
pub enum TraceError {
    /// The object as a whole was refused (maps, BTF).
    #[error(
        "cannot load the eBPF object: {0}. Run `lockscope doctor` to see what this kernel and these privileges allow"
    )]
    Object(#[source] Box<aya::EbpfError>),
    /// The object lacks a program that the plan needs: object and binary are of different builds.
    #[error(
        "the eBPF object has no program `{0}`: it is of another build than this binary; rebuild both"
    )]
    MissingProgram(&'static str),
    /// The object lacks a map.
    #[error(
        "the eBPF object has no map `{0}`: it is of another build than this binary; rebuild both"
    )]
    MissingMap(&'static str),
    /// One program was refused by the kernel.
    #[error(
        "program `{program}` for {target} could not be {action}: {reason}. Leave it out with `--probe {capability}=off`, or choose another method"
    )]
    Program {
        /// The program.
        program: &'static str,
        /// `loaded` or `attached`.
        action: &'static str,
        /// Its hook.
        target: String,
        /// Name of the capability that it serves.
        capability: String,
        /// The kernel's words.
        reason: String,
    },
    /// Kernel BTF is needed by a planned method and not there.
    #[error(
        "kernel BTF cannot be read: {0}. Methods tp_btf and fentry need it: use a kernel with CONFIG_DEBUG_INFO_BTF"
    )]
    Btf(#[source] Box<aya::BtfError>),
    /// More tasks to trace than there is room for.
    #[error(
        "the server and the load have more tasks than there is room for; give --max-tasks a larger number"
    )]
    TasksFull,
    /// A map could not be read or written.
    #[error("map `{map}` could not be {action}: {source}")]
    Map {
        /// The map.
        map: &'static str,
        /// `read`, `written`.
        action: &'static str,
        /// The kernel's error.
        #[source]
        source: io::Error,
    },
}
