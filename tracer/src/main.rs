//! The `lockscope` command.

use std::error::Error;
use std::process::ExitCode;

use clap::Parser as _;
use lockscope::cli::Cli;
use lockscope::commands::{Exit, dispatch, say};

fn main() -> ExitCode {
    let cli = Cli::parse();
    let level = if cli.debug { log::LevelFilter::Debug } else { log::LevelFilter::Warn };
    // What the eBPF programs log is asked for by `--bpf-log`.
    env_logger::Builder::new()
        .filter_module("lockscope", level)
        .filter_module("lockscope_bpf", log::LevelFilter::Info)
        .init();
    match dispatch(&cli) {
        Ok(exit) => exit.into(),
        Err(error) => {
            say(&format!("lockscope: {error}"));
            print_causes(&error);
            Exit::Failed.into()
        }
    }
}

/// The chain below an error, without what the message above said already.
fn print_causes(error: &dyn Error) {
    let mut said = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let text = cause.to_string();
        if !said.contains(&text) {
            say(&format!("  because: {text}"));
            said = text;
        }
        source = cause.source();
    }
}
