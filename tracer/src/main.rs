//! The `lockscope` command.

use std::env;
use std::error::Error;
use std::io::{self, IsTerminal as _};
use std::process::ExitCode;

use clap::Parser as _;
use lockscope::cli::Cli;
use lockscope::commands::{dispatch, print_report, say};
use lockscope::load::{own_arguments, scrub_message};

fn main() -> ExitCode {
    let cli = Cli::try_parse().unwrap_or_else(|error| refuse(&error));
    let level = if cli.debug { log::LevelFilter::Debug } else { log::LevelFilter::Warn };
    // What the eBPF programs log is asked for by `--bpf-log`.
    env_logger::Builder::new()
        .filter_module("lockscope", level)
        .filter_module("lockscope_bpf", log::LevelFilter::Info)
        .init();
    match dispatch(&cli) {
        Ok(exit) => exit.into(),
        Err(error) => {
            say(&hidden(&format!("lockscope: {error}")));
            print_causes(&error);
            cli.failure().into()
        }
    }
}

/// Help and versions go to standard output as they are; a refused argument may hold a password.
fn refuse(error: &clap::Error) -> ! {
    if !error.use_stderr() {
        show(error);
    }
    say(hidden(&error.render().to_string()).trim_end());
    // As everywhere where the exit code would be a command's.
    let words: Vec<_> = own_arguments().collect();
    let has_command =
        words.get(1).is_some_and(|word| word == "attach") && words.iter().any(|word| word == "--");
    std::process::exit(if has_command { 125 } else { error.exit_code() });
}

fn show(error: &clap::Error) -> ! {
    let text = error.render();
    let is_styled = io::stdout().is_terminal() && env::var_os("NO_COLOR").is_none();
    let text = if is_styled { text.ansi().to_string() } else { text.to_string() };
    std::process::exit(match print_report(&text) {
        Ok(()) => error.exit_code(),
        Err(error) => {
            say(&format!("lockscope: {error}"));
            2
        }
    })
}

/// A message that may quote the command line, without its passwords.
fn hidden(message: &str) -> String {
    scrub_message(message, own_arguments())
}

/// The chain below an error, without what the message above said already.
fn print_causes(error: &dyn Error) {
    let mut said = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let text = cause.to_string();
        if !said.contains(&text) {
            say(&hidden(&format!("  because: {text}")));
            said = text;
        }
        source = cause.source();
    }
}
