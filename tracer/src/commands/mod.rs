//! The subcommands: what each prints and how it ends.

pub mod doctor;
