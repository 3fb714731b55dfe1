//! `lockscope ab`: two targets measured in turns, in rounds of random order, and compared.
//!
//! What drifts (temperature, neighbours, the tables' growth) hits both alike then. Every run is saved as
//! soon as it ended, and what is there when the rounds end early is compared.

mod quick;
mod start;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use fastrand::Rng;

use self::start::{StartError, prepare_start};
use super::Exit;
use super::compare::exit_of;
use super::output::{OutputError, print_report, say};
use super::run::{RunError, run_once};
use crate::analyse::compare::{CompareError, Options, Side, compare};
use crate::analyse::units::{chosen_duration, plural, rate, signed_percent};
use crate::cli::{AbArgs, Reset, SideArgs, SideError, side_args};
use crate::load::scrub_arguments;
use crate::model::{self, Comparison, FileError, Finding, Run};
use crate::report::{json, text};
use crate::signals::Interrupt;

/// How often a rest looks for Ctrl-C.
const POLL: Duration = Duration::from_millis(50);
const ROUNDS: u32 = 5;

/// Rounds that could not be made.
#[derive(Debug, thiserror::Error)]
pub enum AbError {
    /// A side's options.
    #[error(transparent)]
    Side(#[from] SideError),
    /// The directory.
    #[error("cannot make the directory {path} for the runs: {source}; choose another with -o")]
    Directory {
        /// Which.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The directory holds runs already.
    #[error("{0} holds runs of other rounds; choose another directory with -o")]
    Occupied(PathBuf),
    /// Signals cannot be asked for.
    #[error("cannot prepare the rounds: {0}")]
    Io(#[from] std::io::Error),
    /// A run.
    #[error("{name}: {source}")]
    Run {
        /// Which: `round 2, B`.
        name: String,
        /// What went wrong.
        source: Box<RunError>,
    },
    /// What is to be done before a run.
    #[error(transparent)]
    Start(#[from] StartError),
    /// A run cannot be saved.
    #[error(transparent)]
    File(#[from] FileError),
    /// Too little to compare.
    #[error(transparent)]
    Compare(#[from] CompareError),
    /// The report.
    #[error(transparent)]
    Output(#[from] OutputError),
    /// Nothing to compare.
    #[error("ended by {0} before each side had a run: nothing to compare")]
    TooEarly(&'static str),
}

/// A side of the rounds, and its finished runs.
struct Target {
    letter: char,
    args: SideArgs,
    setup: Option<String>,
    traced: Side,
    control: Side,
}

/// What is the same for all rounds.
struct Rounds<'a> {
    directory: &'a Path,
    count: u32,
    control_count: u32,
    cool_down: Duration,
    reset: Option<&'a Reset>,
    seed: u64,
    interrupt: &'a Interrupt,
}

/// Measures in turns, and compares.
pub fn run(args: &AbArgs) -> Result<Exit, AbError> {
    let interrupt = Interrupt::install()?;
    let directory = args.output.clone().unwrap_or_else(|| {
        PathBuf::from(jiff::Timestamp::now().strftime("ab-%Y%m%d-%H%M%S").to_string())
    });
    let rounds = Rounds {
        directory: &directory,
        count: args.rounds.unwrap_or(if args.quick { quick::ROUNDS } else { ROUNDS }),
        control_count: args.control_rounds,
        cool_down: args.cool_down,
        reset: args.reset.as_ref(),
        seed: args.seed,
        interrupt: &interrupt,
    };
    if args.quick {
        return quick::run(args, &rounds);
    }
    let own = args.b.as_ref().map_or("", |own| own.reveal());
    let mut targets = [
        Target::new('a', side_args('a', args.a.reveal(), &args.common)?, args.setup_a.clone()),
        Target::new('b', side_args('b', own, &args.common)?, args.setup_b.clone()),
    ];
    rounds.make_directory()?;
    let ended = rounds.measure(&mut targets);
    leave_out_halves(&mut targets);
    let [a, b] = &targets;
    if a.traced.runs.is_empty() || b.traced.runs.is_empty() {
        return Err(ended.err().unwrap_or(AbError::TooEarly(interrupt.name())));
    }
    // What was measured is not lost by what went wrong then.
    if let Err(error) = &ended {
        say(&format!("lockscope: {error}; comparing the rounds that ended"));
    }
    let comparison = rounds.compared(a, b, args)?;
    print_report(&match args.json {
        true => json::render_comparison(&comparison),
        false => text::render_comparison(&comparison, &args.layout.text_options()),
    })?;
    Ok(if ended.is_ok() { exit_of(&comparison) } else { Exit::Failed })
}

/// A round that ended early has a run of one side only, which is no pair. It stays saved.
fn leave_out_halves(targets: &mut [Target; 2]) {
    let [a, b] = targets;
    let pairs = a.traced.runs.len().min(b.traced.runs.len());
    for side in [&mut a.traced, &mut b.traced] {
        for file in side.files.drain(pairs..) {
            say(&format!("lockscope: {file} is left out: its round has no run of the other side"));
        }
        side.runs.truncate(pairs);
    }
}

impl Target {
    fn new(letter: char, args: SideArgs, setup: Option<String>) -> Target {
        let letter = letter.to_ascii_uppercase();
        Target { letter, args, setup, traced: Side::default(), control: Side::default() }
    }
}

impl Rounds<'_> {
    /// Refuses one that has runs in it: they would be taken for these.
    fn make_directory(&self) -> Result<(), AbError> {
        let path = || self.directory.to_owned();
        let made = std::fs::create_dir_all(self.directory)
            .and_then(|()| std::fs::read_dir(self.directory))
            .map_err(|source| AbError::Directory { path: path(), source })?;
        let is_run =
            |name: &std::ffi::OsStr| Path::new(name).extension().is_some_and(|e| e == "lockscope");
        if made.flatten().any(|entry| is_run(&entry.file_name())) {
            return Err(AbError::Occupied(path()));
        }
        say(&format!(
            "lockscope: runs are saved in {}, order by seed {}",
            self.directory.display(),
            self.seed
        ));
        Ok(())
    }

    /// All rounds, those without tracing first; ends early, without an error, when the user wants it.
    fn measure(&self, targets: &mut [Target; 2]) -> Result<(), AbError> {
        let mut random = Rng::with_seed(self.seed);
        let control = (1..=self.control_count).map(|round| (round, true));
        for (round, is_control) in control.chain((1..=self.count).map(|round| (round, false))) {
            let first = usize::from(random.bool());
            for side in [first, 1 - first] {
                if !self.one(&mut targets[side], round, is_control)? {
                    say(&format!("lockscope: {}: ending the rounds", self.interrupt.name()));
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// One run; `false` when it was not made to its end because the user wanted so.
    fn one(&self, target: &mut Target, round: u32, is_control: bool) -> Result<bool, AbError> {
        if !self.rest() {
            return Ok(false);
        }
        if let Some(reset) = self.reset {
            prepare_start(reset, &mut target.args.run, self.interrupt)?;
        }
        if let Some(setup) = &target.setup {
            start::shell(setup)?;
        }
        let of = if is_control { self.control_count } else { self.count };
        let kind = if is_control { "control round" } else { "round" };
        let name = format!("{kind} {round} of {of}, {}", target.letter);
        let no_trace = target.args.run.trace.no_trace;
        target.args.run.trace.no_trace |= is_control;
        let performed = run_once(&target.args.run, self.interrupt);
        target.args.run.trace.no_trace = no_trace;
        let mut run = match performed {
            Ok(performed) => performed.run,
            Err(_) if self.interrupt.is_set() => return Ok(false),
            Err(source) => return Err(AbError::Run { name, source: Box::new(source) }),
        };
        if self.interrupt.is_set() {
            return Ok(false);
        }
        let words = target.args.words.iter().map(|word| word.to_string_lossy().into_owned());
        run.command = scrub_arguments(words);
        say(&format!("lockscope: {name}: {} tps", rate(run.throughput.tps)));
        self.keep(target, run, round, is_control)?;
        Ok(true)
    }

    fn rest(&self) -> bool {
        let until = Instant::now() + self.cool_down;
        while !self.interrupt.is_set() && Instant::now() < until {
            std::thread::sleep(POLL.min(until.saturating_duration_since(Instant::now())));
        }
        !self.interrupt.is_set()
    }

    fn keep(
        &self,
        target: &mut Target,
        run: Run,
        round: u32,
        is_control: bool,
    ) -> Result<(), AbError> {
        let kind = if is_control { "control-" } else { "" };
        let letter = target.letter.to_ascii_lowercase();
        let path = self.directory.join(format!("{kind}{letter}{round}.lockscope"));
        model::save(&run, &path)?;
        let side = if is_control { &mut target.control } else { &mut target.traced };
        side.files.push(path.display().to_string());
        side.runs.push(run);
        Ok(())
    }

    /// The traced rounds compared; the others tell whether the tracing makes the difference.
    fn compared(&self, a: &Target, b: &Target, args: &AbArgs) -> Result<Comparison, AbError> {
        let mut comparison = compare(&a.traced, &b.traced, &Options::from(args))?;
        let text = format!(
            "{} of A and B in turns, {} of rest before each, order by seed {}.",
            plural(a.traced.runs.len() as u64, "round"),
            chosen_duration(u64::try_from(self.cool_down.as_nanos()).unwrap_or(u64::MAX)),
            self.seed
        );
        comparison.findings.push(Finding { about: "rounds".to_owned(), text });
        if let Some(text) = without_tracing(a, b) {
            comparison.findings.push(Finding { about: "control".to_owned(), text });
        }
        Ok(comparison)
    }
}

/// What the rounds without tracing say of the same change.
fn without_tracing(a: &Target, b: &Target) -> Option<String> {
    let mean = |side: &Side| {
        let sum: f64 = side.runs.iter().map(|run| run.throughput.tps).sum();
        (!side.runs.is_empty()).then(|| sum / side.runs.len() as f64)
    };
    let change = |a: &Side, b: &Side| Some(mean(b)? / mean(a)? - 1.0);
    let (untraced, traced) = (change(&a.control, &b.control)?, change(&a.traced, &b.traced)?);
    Some(format!(
        "Without tracing tps changes by {} (A {}, B {}), with it by {}.",
        signed_percent(untraced),
        rate(mean(&a.control)?),
        rate(mean(&b.control)?),
        signed_percent(traced)
    ))
}
