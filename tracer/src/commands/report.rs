//! `lockscope report`: a saved run, shown again.

use std::io::{IsTerminal as _, stdout};
use std::path::PathBuf;

use clap::{Args, ValueEnum};

use crate::model::{self, FileError};
use crate::report::text::TextOptions;
use crate::report::{json, text};

/// Renders a saved run.
#[derive(Clone, Debug, Args)]
pub struct ReportArgs {
    /// The file that `lockscope run -o` saved
    pub file: PathBuf,
    /// The form of the report
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,
    /// Its layout.
    #[command(flatten)]
    pub layout: LayoutArgs,
}

/// How a text report is laid out; for every command that prints one.
#[derive(Clone, Debug, Args)]
pub struct LayoutArgs {
    /// Columns of the text report
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u16).range(72..=400))]
    pub width: u16,
    /// List every traced task, not only those that waited most
    #[arg(long)]
    pub all_backends: bool,
}

/// The forms of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For people and e-mails
    Text,
    /// For programs, in the shape of docs/run.schema.json
    Json,
}

impl LayoutArgs {
    /// Plain ASCII unless stdout is a terminal; `NO_COLOR` and `TERM=dumb` are heeded.
    pub fn text_options(&self) -> TextOptions {
        let terminal = stdout().is_terminal();
        let set = |name: &str| std::env::var(name).unwrap_or_default();
        TextOptions {
            width: usize::from(self.width),
            utf8: terminal
                && ["LC_ALL", "LC_CTYPE", "LANG"]
                    .iter()
                    .map(|name| set(name))
                    .find(|value| !value.is_empty())
                    .is_some_and(|value| value.to_lowercase().replace('-', "").contains("utf8")),
            color: terminal && set("NO_COLOR").is_empty() && set("TERM") != "dumb",
            all_backends: self.all_backends,
        }
    }
}

/// The report as it goes to stdout.
///
/// # Errors
/// The file cannot be read, or is no run that this version knows.
pub fn run(args: &ReportArgs) -> Result<String, FileError> {
    let run = model::load(&args.file)?;
    Ok(match args.format {
        Format::Text => text::render(&run, &args.layout.text_options()),
        Format::Json => json::render(&run),
    })
}
