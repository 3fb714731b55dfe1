//! `lockscope sweep`: runs at several client counts, or values of any other option.

mod csv;
mod grid;

use std::path::{Path, PathBuf};

pub use grid::{GridError, Varied};

use self::grid::{Grid, Planned};
use super::Exit;
use super::output::{OutputError, OutputFile, print_report, say};
use super::run::{Performed, RunError, Settings, Stage, TracerPlan};
use crate::analyse::sweep::{Attempt, curves};
use crate::cli::SweepArgs;
use crate::load::{own_arguments, scrub_arguments};
use crate::model::{self, FileError, SWEEP_SCHEMA_VERSION, Sweep};
use crate::report::plot::{self, PlotFormat};
use crate::report::{json, text};
use crate::signals::Interrupt;

/// A sweep that could not be made.
#[derive(Debug, thiserror::Error)]
pub enum SweepError {
    /// The options to vary.
    #[error(transparent)]
    Grid(#[from] GridError),
    /// A step cannot be run.
    #[error(transparent)]
    Run(#[from] RunError),
    /// The directory of `-o`.
    #[error("cannot make the directory {path}: {source}", path = .path.display())]
    Directory {
        /// As given.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// A step's file.
    #[error(transparent)]
    File(#[from] FileError),
    /// A report cannot be written.
    #[error(transparent)]
    Output(#[from] OutputError),
    /// The rows of `--csv`.
    #[error("cannot write the rows of --csv: {0}")]
    Csv(#[from] ::csv::Error),
    /// A picture of `--plot`.
    #[error(transparent)]
    Plot(#[from] plot::PlotError),
}

/// Makes the runs and reports.
pub fn run(args: &SweepArgs) -> Result<Exit, SweepError> {
    let words: Vec<_> = std::env::args_os().collect();
    let grid = Grid::plan(args, &words)?;
    for step in &grid.steps {
        Settings::new(&step.args.job, Some(&step.args.trace))?;
    }
    let files = Files::create(args)?;
    let interrupt = Interrupt::install().map_err(RunError::Io)?;
    let started_at = jiff::Timestamp::now().to_string();
    let attempts = attempts(&grid, &files, &interrupt)?;
    let sweep = Sweep {
        schema_version: SWEEP_SCHEMA_VERSION,
        lockscope_version: env!("CARGO_PKG_VERSION").to_owned(),
        started_at,
        command: scrub_arguments(own_arguments()),
        interrupted: attempts.len() < grid.steps.len() || interrupt.is_set(),
        curves: curves(&grid.along, &attempts),
        along: grid.along,
        warnings: Vec::new(),
    };
    report(args, &sweep, files)?;
    let has_failed = attempts.iter().any(|attempt| attempt.outcome.is_err());
    Ok(if has_failed { Exit::Failed } else { Exit::Done })
}

/// The places that were asked for, proven before the first step.
struct Files {
    directory: Option<PathBuf>,
    sweep: Option<OutputFile>,
    csv: Option<OutputFile>,
    plots: Vec<(OutputFile, PlotFormat)>,
}

impl Files {
    fn create(args: &SweepArgs) -> Result<Self, SweepError> {
        if let Some(path) = &args.output {
            std::fs::create_dir_all(path)
                .map_err(|source| SweepError::Directory { path: path.clone(), source })?;
        }
        let file = |path: Option<&Path>| path.map(OutputFile::create).transpose();
        let sweep = args.output.as_ref().map(|directory| directory.join("sweep.json"));
        Ok(Self {
            directory: args.output.clone(),
            sweep: file(sweep.as_deref())?,
            csv: file(args.csv.as_deref())?,
            plots: args
                .plot
                .iter()
                .map(|plot| Ok((OutputFile::create(&plot.path)?, plot.format)))
                .collect::<Result<_, OutputError>>()?,
        })
    }

    /// Where a step's run goes; empty without `-o`.
    fn of_step(&self, step: &Planned, along: &str) -> Option<PathBuf> {
        let mut name = String::new();
        for (option, value) in &step.others {
            name += &format!("{option}-{value}_");
        }
        name += &format!("{along}-{}.lockscope", step.value);
        let safe = |c: char| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '_' };
        let name: String = name.chars().map(safe).collect();
        self.directory.as_ref().map(|directory| directory.join(name))
    }
}

/// Makes the steps one after the other. A step that fails costs only itself; the user's wish to end
/// costs only what is to come.
fn attempts(grid: &Grid, files: &Files, interrupt: &Interrupt) -> Result<Vec<Attempt>, SweepError> {
    let mut attempts = Vec::new();
    let mut stage: Option<(&[String], Stage)> = None;
    for (index, step) in grid.steps.iter().enumerate() {
        if interrupt.is_set() {
            break;
        }
        say(&format!("step {} of {}: {}", index + 1, grid.steps.len(), words(step, &grid.along)));
        if stage.as_ref().is_none_or(|(of, _)| *of != step.stage) {
            // The old server goes before the new one comes.
            drop(stage.take());
        }
        let outcome = perform(grid, step, &mut stage, interrupt);
        if interrupt.is_set() && outcome.is_err() {
            break;
        }
        let path = files.of_step(step, &grid.along);
        if let (Ok(run), Some(path)) = (&outcome, &path) {
            model::save(&run.run, path)?;
        }
        if let Err(error) = &outcome {
            say(&format!("lockscope: this step failed: {error}"));
        }
        attempts.push(Attempt {
            value: step.value.clone(),
            others: step.others.clone(),
            file: path.map(|path| path.display().to_string()).unwrap_or_default(),
            outcome: outcome.map(|run| run.run).map_err(|error| error.to_string()),
        });
    }
    Ok(attempts)
}

fn words(step: &Planned, along: &str) -> String {
    let mut words: Vec<String> =
        step.others.iter().map(|(option, value)| format!("{option}={value}")).collect();
    words.push(format!("{along}={}", step.value));
    words.join(" ")
}

/// One step, on a server that it shares with the steps of the same stage.
fn perform<'grid>(
    grid: &'grid Grid,
    step: &'grid Planned,
    stage: &mut Option<(&'grid [String], Stage)>,
    interrupt: &Interrupt,
) -> Result<Performed, RunError> {
    let (args, trace) = (&step.args.job, Some((&step.args.trace, &step.args.filter)));
    let settings = Settings::new(args, Some(&step.args.trace))?;
    let tracer = TracerPlan::new(trace)?;
    let (_, stage) = match stage {
        Some(set) => set,
        None => {
            // Room for the most clients of all its steps.
            let of_stage = grid.steps.iter().filter(|other| other.stage == step.stage);
            let most = of_stage.map(|other| other.args.job.load.client).max();
            let most = most.unwrap_or(args.load.client);
            stage.insert((&step.stage, Stage::set(args, &settings, most, interrupt)?))
        }
    };
    stage.perform(args, &settings, tracer, interrupt)
}

/// Prints first: a full disk must not cost the report, nor a closed output the files.
fn report(args: &SweepArgs, sweep: &Sweep, files: Files) -> Result<(), SweepError> {
    let json = json::render_sweep(sweep);
    let printed = print_report(&match args.json {
        true => json.clone(),
        false => text::render_sweep(sweep, &args.series.layout.text_options()),
    });
    if let Some(file) = files.sweep {
        file.save(json.as_bytes())?;
    }
    if let Some(file) = files.csv {
        file.save(&csv::rows(sweep)?)?;
    }
    for (file, format) in files.plots {
        file.save(&plot::sweep(sweep, format)?)?;
    }
    Ok(printed?)
}
