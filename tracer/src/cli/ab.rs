//! `lockscope ab`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, FromArgMatches as _};
use winnow::combinator::{alt, delimited, eof, opt, preceded, separated, terminated};
use winnow::prelude::*;
use winnow::token::{take_till, take_while};

use super::RunArgs;
use super::compare::JudgeArgs;
use super::values::{at_least_one, random_seed, seconds, secret};
use crate::analyse::compare::Options;
use crate::commands::report::LayoutArgs;
use crate::load::{Secret, scrub_message};

/// Two targets measured in turns, and compared.
#[derive(Debug, Args)]
pub struct AbArgs {
    /// The base: options of `lockscope run` as NAME=VALUE between commas, as in
    /// 'dsn="host=/tmp user=me",protocol=prepared'; quotes hold values with commas.
    #[arg(short, long, value_name = "OPTIONS", default_value = "", hide_default_value = true, value_parser = secret)]
    pub a: Secret,
    /// The new side, as --a.
    #[arg(short, long, value_name = "OPTIONS", required_unless_present = "quick", value_parser = secret)]
    pub b: Option<Secret>,
    /// Prepared against simple statements of the select-only script, at 1 and 2 clients a CPU: is this
    /// machine affected by their contention?
    #[arg(long, conflicts_with_all = ["a", "b", "fail_if", "json"])]
    pub quick: bool,
    /// Rounds, each of one run of A and one of B [default: 5, 3 with --quick].
    #[arg(long, value_name = "N", value_parser = at_least_one)]
    pub rounds: Option<u32>,
    /// Rounds without tracing before those, which tell whether the tracing makes the difference.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub control_rounds: u32,
    /// Seconds of rest before each run.
    #[arg(long, value_name = "SECONDS", default_value = "2", value_parser = seconds)]
    pub cool_down: Duration,
    /// Shell command to run before each run of A.
    #[arg(long, value_name = "COMMAND")]
    pub setup_a: Option<String>,
    /// The same of B.
    #[arg(long, value_name = "COMMAND")]
    pub setup_b: Option<String>,
    /// What gives every run the same start: `vacuum` or `init` the tables, `checkpoint` the server, or a
    /// shell command.
    #[arg(long, value_name = "HOW")]
    pub reset: Option<Reset>,
    /// Seed of the order within rounds: a number, `time` or `rand`.
    #[arg(long, value_name = "SEED", default_value = "rand", value_parser = random_seed)]
    pub seed: u64,
    /// Directory for the runs, made if it is not there [default: ab- and the time, here].
    #[arg(short, long, value_name = "DIR")]
    pub output: Option<PathBuf>,
    /// How the rounds are judged.
    #[command(flatten)]
    pub judge: JudgeArgs,
    /// Print the comparison as JSON.
    #[arg(long)]
    pub json: bool,
    /// The text's layout.
    #[command(flatten)]
    pub layout: LayoutArgs,
    /// Options of `lockscope run` for both sides, behind --.
    #[arg(last = true, value_name = "RUN OPTION")]
    pub common: Vec<OsString>,
}

/// The two runs of a round are a pair.
impl From<&AbArgs> for Options {
    fn from(args: &AbArgs) -> Options {
        Options { paired: true, ..Options::from(&args.judge) }
    }
}

/// How every run gets the same start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reset {
    /// The server writes everything out.
    Checkpoint,
    /// All tables are vacuumed and analyzed.
    Vacuum,
    /// The tables are made anew.
    Init,
    /// A shell command.
    Command(String),
}

impl std::str::FromStr for Reset {
    type Err = std::convert::Infallible;

    fn from_str(text: &str) -> Result<Reset, Self::Err> {
        Ok(match text {
            "checkpoint" => Reset::Checkpoint,
            "vacuum" => Reset::Vacuum,
            "init" => Reset::Init,
            command => Reset::Command(command.to_owned()),
        })
    }
}

/// A side's options that are none.
#[derive(Debug, thiserror::Error)]
pub enum SideError {
    /// Not a list of options.
    #[error(
        "--{0} is no list of NAME=VALUE between commas, as in 'dsn=\"host=/tmp user=me\",protocol=prepared'"
    )]
    Grammar(char),
    /// `lockscope run` does not take them.
    #[error("--{side}: {message}")]
    Refused {
        /// `a` or `b`.
        side: char,
        /// What it says.
        message: String,
    },
    /// What belongs to the comparison, not to a run.
    #[error(
        "--{0}: -o, --json, --all-backends and --log are of `lockscope run` alone; ab saves every run in its directory (-o DIR)"
    )]
    Output(char),
}

/// One side's run.
#[derive(Debug)]
pub struct SideArgs {
    /// As `lockscope run` takes it.
    pub run: RunArgs,
    /// The same in words, passwords included.
    pub words: Vec<OsString>,
}

/// The run of a side: the common options and its own.
pub fn side_args(side: char, own: &str, common: &[OsString]) -> Result<SideArgs, SideError> {
    let own = words(own).ok_or(SideError::Grammar(side))?;
    let own = own.into_iter().map(OsString::from);
    let words: Vec<OsString> = ["lockscope", "run"]
        .map(OsString::from)
        .into_iter()
        .chain(common.iter().cloned())
        .chain(own)
        .collect();
    // Of an option that is given for both sides and for one, the one's counts.
    let command = RunArgs::augment_args(clap::Command::new("lockscope run"))
        .args_override_self(true)
        .disable_help_flag(true);
    let parsed = command
        .try_get_matches_from(&words[1..])
        .and_then(|matches| RunArgs::from_arg_matches(&matches));
    let run = parsed.map_err(|error| {
        let arguments = words.iter().map(|word| word.to_string_lossy().into_owned());
        let message = scrub_message(&error.render().to_string(), arguments);
        // What follows is the usage of `run`, which nobody called.
        let said = message.split("\n\nUsage:").next().unwrap_or(&message);
        SideError::Refused { side, message: said.trim_start_matches("error: ").trim().to_owned() }
    })?;
    let output = &run.job.output;
    let lists = run.tasks.all_backends;
    if output.output.is_some() || output.json || lists || run.job.log.log {
        return Err(SideError::Output(side));
    }
    Ok(SideArgs { run, words })
}

type Parsed<T> = winnow::Result<T, winnow::error::EmptyError>;

/// `dsn="host=/tmp",protocol=prepared,c=8,no-vacuum` as the words of a command line.
fn words(text: &str) -> Option<Vec<String>> {
    if text.trim().is_empty() {
        return Some(Vec::new());
    }
    let option = |input: &mut &str| -> Parsed<Vec<String>> {
        let name = take_while(1.., |c: char| c.is_ascii_alphanumeric() || c == '-');
        let quoted = delimited('"', take_till(0.., '"'), '"');
        let value = preceded('=', alt((quoted, take_till(0.., [',', '"']))));
        let (name, value): (&str, Option<&str>) = (name, opt(value)).parse_next(input)?;
        let option = if name.len() == 1 { format!("-{name}") } else { format!("--{name}") };
        Ok([Some(option), value.map(str::to_owned)].into_iter().flatten().collect())
    };
    let list = separated(1.., option, ',');
    let parsed: Parsed<Vec<Vec<String>>> = terminated(list, eof).parse_next(&mut text.trim());
    parsed.ok().map(|options| options.concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_side_is_a_list_of_options() {
        let expected =
            ["--dsn", "host=/tmp,/x user=me", "--protocol", "prepared", "-c", "8", "--no-vacuum"];
        let given = "dsn=\"host=/tmp,/x user=me\",protocol=prepared,c=8,no-vacuum";
        assert_eq!(words(given).unwrap(), expected);
        assert_eq!(words("dsn=host=/tmp user=me").unwrap(), ["--dsn", "host=/tmp user=me"]);
        assert_eq!(words("").unwrap(), Vec::<String>::new());
        for none in ["=x", "a=\"x", ",", "a,,b", "a b"] {
            assert_eq!(words(none), None, "{none}");
        }
    }

    #[test]
    fn a_side_s_own_option_counts_before_the_common_one() {
        let common = ["-c", "4", "-S"].map(OsString::from);
        let side = side_args('a', "c=8,protocol=prepared", &common).unwrap();
        assert_eq!(side.run.job.load.client, 8);
    }

    #[test]
    fn what_run_does_not_take_is_refused_without_passwords() {
        let refused = |own: &str| side_args('b', own, &[]).unwrap_err().to_string();
        assert!(refused("protcol=simple").contains("--protocol"), "{}", refused("protcol=simple"));
        assert!(refused("c=0").contains("at least 1"));
        assert!(refused("output=x").contains("-o DIR"));
        assert!(refused("a b").contains("NAME=VALUE"));
        let message = refused("dsn=postgres://u:hunter2@h/d,c=0");
        assert!(message.contains("at least 1") && !message.contains("hunter2"), "{message}");
    }
}
