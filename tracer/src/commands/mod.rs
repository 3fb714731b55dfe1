//! The subcommands, one a file.

pub mod report;
