//! `lockscope report`: a saved run, shown again.

use std::io::{IsTerminal as _, stdout};
use std::path::PathBuf;

use clap::{Args, ValueEnum};

use crate::model::{self, FileError};
use crate::report::folded::{flamegraph, folded};
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
    /// Whose rows.
    #[command(flatten)]
    pub tasks: TasksArgs,
}

/// How a text report is laid out; for every command that prints one.
#[derive(Clone, Debug, Args)]
pub struct LayoutArgs {
    /// Columns of the text report
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u16).range(72..=400))]
    pub width: u16,
}

/// Which tasks a report lists; for the commands whose reports list tasks.
#[derive(Clone, Copy, Debug, Default, Args)]
pub struct TasksArgs {
    /// List every traced task, not only those that waited most
    #[arg(long, help_heading = "Output")]
    pub all_backends: bool,
}

impl TasksArgs {
    /// The layout of a report with these tasks.
    pub fn text_options(self, layout: &LayoutArgs) -> TextOptions {
        TextOptions { all_backends: self.all_backends, ..layout.text_options() }
    }
}

/// The forms of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For people and e-mails
    Text,
    /// For programs, in the shape of docs/run.schema.json
    Json,
    /// The profile's stacks, a line each, for flame graph tools
    Folded,
    /// The profile as a flame graph (SVG)
    Flamegraph,
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
            all_backends: false,
        }
    }
}

/// A report that cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// The file.
    #[error(transparent)]
    File(#[from] FileError),
    /// A form that needs a profile.
    #[error("{0} has no profile; trace without --no-profile, and see its warnings")]
    NoProfile(PathBuf),
    /// A profile without a sample.
    #[error("{0} has a profile without samples: no flame graph can be drawn")]
    Empty(PathBuf),
}

/// The report as it goes to stdout.
///
/// # Errors
/// The file cannot be read, is no run that this version knows, or has no profile to draw.
pub fn run(args: &ReportArgs) -> Result<String, ReportError> {
    let run = model::load(&args.file)?;
    let profile = || run.profile.as_ref().ok_or_else(|| ReportError::NoProfile(args.file.clone()));
    Ok(match args.format {
        Format::Text => text::render(&run, &args.tasks.text_options(&args.layout)),
        Format::Json => json::render(&run),
        Format::Folded => folded(profile()?),
        Format::Flamegraph => flamegraph(profile()?, &run.workload.name)
            .map_err(|_| ReportError::Empty(args.file.clone()))?,
    })
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::model::{Run, save};

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        report: ReportArgs,
    }

    fn parse(words: &[&str]) -> Result<ReportArgs, clap::Error> {
        Line::try_parse_from([&["report"], words].concat()).map(|line| line.report)
    }

    #[test]
    fn a_saved_run_is_shown_in_the_form_asked_for() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.lockscope");
        save(&Run::new(), &path).unwrap();
        let path = path.to_str().unwrap();
        let text = run(&parse(&[path]).unwrap()).unwrap();
        assert!(text.starts_with("lockscope ") && text.contains("Findings"), "{text}");
        let json = run(&parse(&[path, "--format", "json"]).unwrap()).unwrap();
        assert!(json.starts_with("{\n  \"schema_version\": 1,"), "{json}");
    }

    #[test]
    fn a_run_without_a_profile_has_no_graph() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.lockscope");
        let mut saved = Run::new();
        save(&saved, &path).unwrap();
        for form in ["folded", "flamegraph"] {
            let args = parse(&[path.to_str().unwrap(), "--format", form]).unwrap();
            let message = run(&args).unwrap_err().to_string();
            assert!(message.contains("a.lockscope has no profile"), "{message}");
        }
        saved.profile = Some(model::Profile::default());
        save(&saved, &path).unwrap();
        let args = parse(&[path.to_str().unwrap(), "--format", "flamegraph"]).unwrap();
        assert!(run(&args).unwrap_err().to_string().contains("without samples"));
    }

    #[test]
    fn wrong_use_is_refused() {
        assert!(parse(&[]).is_err());
        assert!(parse(&["x", "--format", "pdf"]).unwrap_err().to_string().contains("json"));
        assert!(parse(&["x", "--width", "20"]).unwrap_err().to_string().contains("72"));
        let message = run(&parse(&["/none.lockscope"]).unwrap()).unwrap_err().to_string();
        assert!(message.contains("/none.lockscope"), "{message}");
    }
}
