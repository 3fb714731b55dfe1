//! The steps of a sweep: which options are varied, and the command line of each step.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::str::FromStr;

use clap::parser::ValueSource;
use clap::{Args as _, Command as Clap, CommandFactory as _, Parser as _};

use crate::analyse::sweep::CLIENTS;
use crate::cli::{Cli, Command, RunArgs, SweepArgs};
use crate::filter::did_you_mean;

/// Options of a run that a sweep has for itself.
const OWN: [&str; 2] = ["output", "json"];
/// Options that leave the server and its tables as they are.
const OF_THE_LOAD: [&str; 14] = [
    "client",
    "jobs",
    "protocol",
    "time",
    "transactions",
    "connect",
    "rate",
    "latency_limit",
    "think_time",
    "warmup",
    "io",
    "pin_client",
    "random_seed",
    "definitions",
];

/// An option and the values that it takes in turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Varied {
    /// As the user named it, without hyphens.
    pub name: String,
    /// At least one.
    pub values: Vec<String>,
}

impl FromStr for Varied {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (name, values) = text
            .split_once('=')
            .ok_or("give an option of lockscope run and its values, as in scale=10,100")?;
        let values: Vec<String> = values.split(',').map(|value| value.trim().to_owned()).collect();
        if values.iter().any(String::is_empty) {
            return Err("one of the values is empty".to_owned());
        }
        let mut sorted = values.clone();
        sorted.sort();
        if sorted.windows(2).any(|pair| pair[0] == pair[1]) {
            return Err("a value is there twice".to_owned());
        }
        Ok(Self { name: name.trim().trim_start_matches('-').to_owned(), values })
    }
}

/// A sweep that makes no sense.
#[derive(Debug, thiserror::Error)]
pub enum GridError {
    /// No such option.
    #[error("--vary {name}: lockscope run has no option --{name} with a value{suggestion}")]
    Unknown {
        /// As given.
        name: String,
        /// Options that resemble it.
        suggestion: String,
    },
    /// The same twice.
    #[error("--{0} is varied twice; give all its values at once")]
    Twice(String),
    /// One step twice would be saved under one name.
    #[error("--clients has {0} twice; every step is run once")]
    SameClients(u32),
    /// An option that is given and varied.
    #[error("--{0} is given and varied; leave one of them away")]
    Given(String),
    /// The command line of a step is refused.
    #[error("the step with {step} cannot be run: {reason}")]
    Step {
        /// Its values.
        step: String,
        /// What is wrong.
        reason: String,
    },
}

/// One step.
pub(super) struct Planned {
    /// The value along the curve.
    pub(super) value: String,
    /// The other options' values, by their long names.
    pub(super) others: BTreeMap<String, String>,
    /// The values of what changes server or tables: steps with the same ones share a server.
    pub(super) stage: Vec<String>,
    pub(super) args: RunArgs,
}

/// All steps, and the option along which the curves run.
pub(super) struct Grid {
    pub(super) along: String,
    pub(super) steps: Vec<Planned>,
}

/// An option of `lockscope run` that is varied.
struct Axis {
    id: String,
    long: String,
    values: Vec<String>,
}

impl Grid {
    /// Plans the steps from the command line `words`, of which `args` was made.
    pub(super) fn plan(args: &SweepArgs, words: &[OsString]) -> Result<Self, GridError> {
        let options = options_of_a_run();
        let mut axes = Vec::new();
        for varied in &args.vary {
            axes.push(axis(&options, varied)?);
        }
        if let Some(twice) = first_twice(&args.clients) {
            return Err(GridError::SameClients(twice));
        }
        if !args.clients.is_empty() || axes.is_empty() {
            axes.push(Axis {
                id: CLIENTS.to_owned(),
                long: CLIENTS.to_owned(),
                values: client_counts(&args.clients),
            });
        }
        for (index, axis) in axes.iter().enumerate() {
            if axes[..index].iter().any(|other| other.id == axis.id) {
                return Err(GridError::Twice(axis.long.clone()));
            }
        }
        // Curves run along the clients where they are varied, else along what was named last.
        let along = axes.iter().position(|axis| axis.id == CLIENTS).unwrap_or(axes.len() - 1);
        let innermost = axes.remove(along);
        axes.push(innermost);
        let given = given(&options, words, &axes)?;
        let steps = combinations(&axes)
            .into_iter()
            .map(|values| step(&axes, &values, &given))
            .collect::<Result<Vec<_>, _>>()?;
        let along = axes.last().map(|axis| axis.long.clone()).unwrap_or_default();
        Ok(Self { along, steps })
    }
}

fn first_twice(counts: &[u32]) -> Option<u32> {
    let repeats = |(index, count): (usize, &u32)| counts[..index].contains(count).then_some(*count);
    counts.iter().enumerate().find_map(repeats)
}

/// The options that `lockscope run` has and a sweep passes on.
fn options_of_a_run() -> Clap {
    RunArgs::augment_args(Clap::new("run")).mut_args(|arg| {
        match OWN.contains(&arg.get_id().as_str()) {
            true => arg.hide(true),
            false => arg,
        }
    })
}

fn axis(options: &Clap, varied: &Varied) -> Result<Axis, GridError> {
    let candidates = || {
        options
            .get_arguments()
            .filter(|arg| !OWN.contains(&arg.get_id().as_str()) && arg.get_action().takes_values())
            .filter_map(|arg| arg.get_long().map(|long| (long, arg)))
    };
    let name = match varied.name.as_str() {
        "clients" => CLIENTS,
        name => name,
    };
    let (long, arg) = candidates().find(|(long, _)| *long == name).ok_or_else(|| {
        let suggestion = did_you_mean(name, candidates().map(|(long, _)| long));
        GridError::Unknown { name: varied.name.clone(), suggestion }
    })?;
    let (id, long) = (arg.get_id().to_string(), long.to_owned());
    Ok(Axis { id, long, values: varied.values.clone() })
}

/// Powers of two up to four times the CPUs, unless the user chose.
fn client_counts(chosen: &[u32]) -> Vec<String> {
    if !chosen.is_empty() {
        return chosen.iter().map(ToString::to_string).collect();
    }
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    let powers = (0..).map(|power| 1_usize << power).take_while(|count| *count <= 4 * cpus);
    powers.map(|count| count.to_string()).collect()
}

/// What the user gave for all steps, as words of a `lockscope run`.
fn given(options: &Clap, words: &[OsString], axes: &[Axis]) -> Result<Vec<OsString>, GridError> {
    let matches = Cli::command().get_matches_from(words);
    let Some((_, matches)) = matches.subcommand() else { return Ok(Vec::new()) };
    let mut named = Vec::new();
    let mut positional = Vec::new();
    for arg in options.get_arguments() {
        let id = arg.get_id().as_str();
        let is_given = matches.try_contains_id(id).unwrap_or(false)
            && matches.value_source(id) == Some(ValueSource::CommandLine);
        if !is_given || OWN.contains(&id) {
            continue;
        }
        if axes.iter().any(|axis| axis.id == id) {
            return Err(GridError::Given(arg.get_long().unwrap_or(id).to_owned()));
        }
        let occurrences = matches.get_raw_occurrences(id).into_iter().flatten();
        for values in occurrences {
            let values: Vec<OsString> = values.map(ToOwned::to_owned).collect();
            match arg.get_long() {
                Some(long) if arg.get_action().takes_values() => {
                    let mut word = OsString::from(format!("--{long}="));
                    word.push(values.join(std::ffi::OsStr::new(",")));
                    named.push(word);
                }
                Some(long) => named.push(format!("--{long}").into()),
                None => positional.extend(values),
            }
        }
    }
    named.extend(positional);
    Ok(named)
}

/// Every combination of the axes' values; the last axis turns fastest.
fn combinations(axes: &[Axis]) -> Vec<Vec<String>> {
    let mut all = vec![Vec::new()];
    for axis in axes {
        all = all
            .iter()
            .flat_map(|begun| {
                axis.values
                    .iter()
                    .map(move |value| [&begun[..], std::slice::from_ref(value)].concat())
            })
            .collect();
    }
    all
}

fn step(axes: &[Axis], values: &[String], given: &[OsString]) -> Result<Planned, GridError> {
    let pairs = || axes.iter().zip(values);
    let mut words: Vec<OsString> = vec!["lockscope".into(), "run".into()];
    words.extend(pairs().map(|(axis, value)| format!("--{}={value}", axis.long).into()));
    words.extend(given.iter().cloned());
    let parsed = Cli::try_parse_from(words).map(|cli| cli.command);
    let refused = |reason: String| GridError::Step {
        step: pairs()
            .map(|(axis, value)| format!("{}={value}", axis.long))
            .collect::<Vec<_>>()
            .join(" "),
        reason,
    };
    let args = match parsed {
        Ok(Command::Run(args)) => *args,
        Ok(_) => return Err(refused("it is no run".to_owned())),
        Err(error) => return Err(refused(first_line(&error))),
    };
    let all_but_last = pairs().take(axes.len().saturating_sub(1));
    let stage = pairs().filter(|(axis, _)| !OF_THE_LOAD.contains(&axis.id.as_str()));
    Ok(Planned {
        value: values.last().cloned().unwrap_or_default(),
        others: all_but_last.map(|(axis, value)| (axis.long.clone(), value.clone())).collect(),
        stage: stage.map(|(_, value)| value.clone()).collect(),
        args,
    })
}

/// What clap says, without its usage lines.
fn first_line(error: &clap::Error) -> String {
    let text = error.render().to_string();
    let line = text.lines().next().unwrap_or_default();
    line.trim_start_matches("error: ").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::Database;

    fn plan(line: &str) -> Result<Grid, GridError> {
        let words: Vec<OsString> = ["lockscope", "sweep"]
            .into_iter()
            .chain(line.split_whitespace())
            .map(Into::into)
            .collect();
        let cli = Cli::try_parse_from(&words).expect("accepted");
        let Command::Sweep(args) = cli.command else { panic!("no sweep") };
        Grid::plan(&args, &words)
    }

    #[test]
    fn every_step_is_a_run_with_what_was_given_and_its_own_value() {
        let grid =
            plan("--clients 1,4 -M prepared -S -T 3 --lock-class osq,rq -D a=1 -D b=2 bench")
                .unwrap();
        assert_eq!((grid.along.as_str(), grid.steps.len()), ("client", 2));
        let job = &grid.steps[1].args.job;
        assert_eq!((job.load.client, job.load.definitions.len()), (4, 2));
        assert_eq!(job.server.options().database, Some(Database::new("bench")));
        assert_eq!(grid.steps[1].args.filter.lock_class.len(), 2);
        assert_eq!(grid.steps[0].stage, grid.steps[1].stage);
    }

    #[test]
    fn a_grid_has_a_curve_a_combination_and_a_stage_where_tables_differ() {
        let grid = plan("--vary scale=1,2 --vary protocol=simple,prepared --clients 1,2").unwrap();
        assert_eq!(grid.steps.len(), 8);
        assert_eq!(grid.steps[1].others, grid.steps[0].others);
        assert_eq!(grid.steps[3].others["protocol"], "prepared");
        assert_eq!(grid.steps[3].stage, ["1"]);
        assert_eq!(grid.steps[4].stage, ["2"]);
        let along_scale = plan("--vary protocol=simple,prepared --vary scale=1,2").unwrap();
        assert_eq!((along_scale.along.as_str(), along_scale.steps.len()), ("scale", 4));
    }

    #[test]
    fn without_a_choice_the_client_counts_are_powers_of_two() {
        let grid = plan("-S").unwrap();
        assert_eq!(grid.steps[0].value, "1");
        assert!(grid.steps.len() >= 3);
    }

    #[test]
    fn what_cannot_be_varied_is_refused_with_the_reason() {
        for (line, words) in [
            ("--vary scal=1,2", "did you mean scale"),
            ("--vary output=a,b", "no option --output"),
            ("--vary quiet=1", "no option --quiet"),
            ("--vary scale=1,2 -s 3", "given and varied"),
            ("--vary clients=1,2 --clients 3", "varied twice"),
            ("--vary scale=1,x", "scale=x client"),
            ("--clients 2,4,2", "has 2 twice"),
        ] {
            let line = match line.contains("--clients") {
                true => line.to_owned(),
                false => format!("{line} --clients 1"),
            };
            let error = plan(&line).err().map(|error| error.to_string()).unwrap_or_default();
            assert!(error.contains(words), "{line}: {error}");
        }
        for wrong in ["scale", "scale=1,,2", "scale=1,1"] {
            assert!(wrong.parse::<Varied>().is_err(), "{wrong}");
        }
    }
}
