//! Debian kernels in QEMU, with the host's files as theirs: `cargo xtask vm`.

mod archive;
mod case;
mod kernels;
mod queue;
mod share;
mod user;
mod verdict;

use std::env;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use clap::Args;
use lockscope_vm::{Accelerator, Ending, Event, Guest, Machine, Watcher};

use crate::dist;
use crate::setup::{self, Part};
use crate::shell::{self, cargo, make_executable, run as run_command, target_dir, workspace_root};
use crate::tally::Tally;
use case::Case;
use kernels::{Kernel, SERIES, Series};
use queue::{Job, side_by_side};
use verdict::{Column, Verdict};

/// A command given by hand may take this long.
const COMMAND_LIMIT: Duration = Duration::from_secs(3600);
/// Beyond a case's own limit: the guest ends the case first, the host ends the guest second.
const GRACE: Duration = Duration::from_secs(60);
/// Names another `lockscope` to test.
const LOCKSCOPE_VARIABLE: &str = "LOCKSCOPE_BIN";
const DEFAULT_CPUS: u32 = 4;
const DEFAULT_MEMORY_MIB: u32 = 2048;
const SCRATCH_BYTES: u64 = 1 << 30;
const LOG_TAIL_LINES: usize = 25;

#[derive(Args, Clone)]
pub(crate) struct Options {
    /// Kernel series: 5.10, 6.1, 6.12, 7.x, 6.12-rt, xen or all
    #[arg(long = "kernel", value_delimiter = ',', default_value = "6.1,6.12")]
    pub(crate) kernels: Vec<String>,
    /// Run only the cases whose name contains one of these
    #[arg(long = "case", value_name = "TEXT", value_delimiter = ',')]
    pub(crate) filters: Vec<String>,
    /// CPUs of the guest
    #[arg(long, default_value_t = DEFAULT_CPUS)]
    pub(crate) smp: u32,
    /// Memory of the guest in MiB
    #[arg(long, default_value_t = DEFAULT_MEMORY_MIB)]
    pub(crate) memory: u32,
    /// How the guest's instructions run
    #[arg(long, value_enum, default_value_t = Accelerator::Tcg)]
    pub(crate) accel: Accelerator,
    /// Fetch the kernels anew even when they are in the cache
    #[arg(long)]
    pub(crate) renew: bool,
    /// Run this in the guest instead of the cases; a single word is a line for the shell
    #[arg(last = true, value_name = "CMD")]
    pub(crate) command: Vec<String>,
}

impl Options {
    /// The case list on these kernels, everything else as usual.
    pub(crate) fn for_tests(kernels: &[String]) -> Self {
        Self {
            kernels: kernels.to_vec(),
            filters: Vec::new(),
            smp: DEFAULT_CPUS,
            memory: DEFAULT_MEMORY_MIB,
            accel: Accelerator::Tcg,
            renew: false,
            command: Vec::new(),
        }
    }

    /// One line for the shell of these kernels.
    pub(crate) fn for_command(kernels: &[String], line: &str) -> Self {
        Self { command: vec![line.to_owned()], ..Self::for_tests(kernels) }
    }
}

/// `cargo xtask vm`: fails when a case or the command did.
pub(crate) fn run(options: &Options) -> Result<()> {
    let tally =
        if options.command.is_empty() { run_cases(options, None)? } else { run_by_hand(options)? };
    if options.command.is_empty() {
        tally.print();
    }
    if tally.failed.is_empty() {
        return Ok(());
    }
    bail!("failed in a guest: {}", tally.failed.join(", "))
}

/// What came of a guest, or of the tests beside it: a column of the matrix only where cases ran.
type Counted = Result<(Tally, Option<Column>)>;

/// All tests in guests: the cases on these kernels, and `lockscope vm` as users run it.
pub(crate) fn run_all(kernels: &[String]) -> Result<Tally> {
    user::build_cases()?;
    let beside: Job<'_, _> = Box::new(|| user::run_cases(kernels));
    run_cases(&Options::for_tests(kernels), Some(beside))
}

/// Builds the programs, runs every case on every kernel, and beside them something else, and shows the
/// matrix.
fn run_cases(options: &Options, beside: Option<Job<'_, Result<Tally>>>) -> Result<Tally> {
    let series = chosen_series(&options.kernels)?;
    let mut cases = case::read_all(&workspace_root().join("tests/vm"))?;
    let filters = &options.filters;
    cases.retain(|case| filters.is_empty() || filters.iter().any(|text| case.name.contains(text)));
    if cases.is_empty() {
        bail!("no case in tests/vm matches {}", filters.join(", "));
    }
    setup::ensure(&[Part::Build, Part::Vm])?;
    run_command(cargo().args(["build", "--package", "lockscope-tests", "--bins"]))?;
    if env::var_os(LOCKSCOPE_VARIABLE).is_none() {
        dist::build()?;
    }

    let fetched = series.into_iter().map(|series| kernels::fetch(series, options.renew));
    let kernels = fetched.collect::<Result<Vec<_>>>()?;

    let mut jobs: Vec<Job<'_, Counted>> = Vec::new();
    for kernel in &kernels {
        let cases = &cases;
        jobs.push(Box::new(move || {
            let verdicts = run_on(kernel, cases, options, false)?;
            let tally = count(kernel, cases, &verdicts);
            Ok((tally, Some(Column { kernel: kernel.series.name.to_owned(), verdicts })))
        }));
    }
    if let Some(beside) = beside {
        jobs.push(Box::new(|| Ok((beside()?, None))));
    }
    let mut tally = Tally::default();
    let mut columns = Vec::new();
    for done in side_by_side(jobs) {
        let (more, column) = done?;
        tally += more;
        columns.extend(column);
    }
    print!("\n{}", verdict::matrix(&cases, &columns));
    Ok(tally)
}

/// The binary that guests run: what users get, because emulated CPUs make everything else slow.
fn lockscope_binary() -> PathBuf {
    env::var_os(LOCKSCOPE_VARIABLE)
        .map_or_else(|| target_dir().join("dist/lockscope"), PathBuf::from)
}

fn run_by_hand(options: &Options) -> Result<Tally> {
    setup::ensure(&[Part::Vm])?;
    let line = match options.command.as_slice() {
        [line] => line.clone(),
        words => words.iter().map(|word| shell::quote(word.as_ref())).collect::<Vec<_>>().join(" "),
    };
    let script = target_dir().join("vm/command.sh");
    fs::create_dir_all(target_dir().join("vm")).context("cannot create the directory of guests")?;
    fs::write(&script, format!("#!/bin/bash\n{line}\n")).context("cannot write the command")?;
    make_executable(&script)?;
    let cases = [Case::new("command", script, COMMAND_LIMIT)];
    let mut tally = Tally::default();
    for series in chosen_series(&options.kernels)? {
        let kernel = kernels::fetch(series, options.renew)?;
        let verdicts = run_on(&kernel, &cases, options, true)?;
        tally += count(&kernel, &cases, &verdicts);
    }
    Ok(tally)
}

/// The names that a list of them, or `all`, stands for.
pub(crate) fn series_names(names: &[String]) -> Result<Vec<&'static str>> {
    Ok(chosen_series(names)?.into_iter().map(|series| series.name).collect())
}

fn chosen_series(names: &[String]) -> Result<Vec<Series>> {
    if names.iter().any(|name| name == "all") {
        return Ok(SERIES.to_vec());
    }
    let known = SERIES.map(|series| series.name).join(", ");
    let find = |name: &String| {
        Series::find(name)
            .with_context(|| format!("unknown kernel `{name}`; known are {known} and all"))
    };
    names.iter().map(find).collect()
}

/// Boots one kernel, runs in it the cases that are about it, and judges all of them.
fn run_on(
    kernel: &Kernel,
    cases: &[Case],
    options: &Options,
    stream: bool,
) -> Result<Vec<Verdict>> {
    let dir = target_dir().join("vm").join(kernel.series.name);
    let share = dir.join("share");
    let applicable: Vec<&Case> = cases.iter().filter(|case| case.applies_to(kernel)).collect();
    println!(
        "{} ({}): {} of {} cases",
        kernel.series.name,
        kernel.boot.release,
        applicable.len(),
        cases.len()
    );
    if applicable.is_empty() {
        return Ok(vec![Verdict::NotApplicable; cases.len()]);
    }
    share::prepare(&share, &applicable, &lockscope_binary(), stream)?;
    let scratch = dir.join("scratch.raw");
    let disk = File::create(&scratch).context("cannot create the scratch disk")?;
    disk.set_len(SCRATCH_BYTES).context("cannot size the scratch disk")?;
    let guest = Guest {
        kernel: &kernel.boot,
        initramfs: &lockscope_vm::build_initramfs(&kernel.boot, &dir)?,
        share: &share,
        disks: std::slice::from_ref(&scratch),
        machine: Machine {
            cpus: options.smp,
            memory_mib: options.memory,
            accelerator: options.accel,
        },
    };
    let mut follower = Follower {
        kernel: kernel.series.name,
        share: &share,
        cases: &applicable,
        stream,
        began: Instant::now(),
        in_case: false,
    };
    let ending = lockscope_vm::boot(&guest, &dir.join("console.log"), &mut follower)?;
    fs::remove_file(&scratch).context("cannot remove the scratch disk")?;
    let mut verdicts: Vec<Verdict> = cases
        .iter()
        .map(|case| match case.applies_to(kernel) {
            true => Verdict::read(&share, case),
            false => Verdict::NotApplicable,
        })
        .collect();
    blame(kernel.series.name, &ending, &mut verdicts, &dir);
    Ok(verdicts)
}

/// Follows the guest to its end and shows each verdict as it comes.
struct Follower<'a> {
    kernel: &'a str,
    share: &'a Path,
    cases: &'a [&'a Case],
    stream: bool,
    began: Instant,
    in_case: bool,
}

impl Follower<'_> {
    /// In one piece: other guests speak at the same time.
    fn show(&self, case: &Case) {
        let verdict = Verdict::read(self.share, case);
        let (word, name, took) = (verdict.word(), &case.name, self.began.elapsed().as_secs());
        let tail = match verdict {
            Verdict::Fail(_) => verdict::log_tail(self.share, case, LOG_TAIL_LINES),
            _ => String::new(),
        };
        print!("  {word} {} {name} ({took} s) {}\n{tail}", self.kernel, verdict.reason());
    }

    fn find(&self, name: &str) -> Option<&Case> {
        self.cases.iter().find(|case| case.name == name).copied()
    }
}

impl Watcher for Follower<'_> {
    fn event(&mut self, event: &Event<'_>) -> Option<Duration> {
        match event {
            Event::Begin(name) => {
                (self.began, self.in_case) = (Instant::now(), true);
                let limit = self.find(name).map(|case| case.timeout);
                Some(limit.unwrap_or_default() + GRACE)
            }
            Event::End(name) => {
                self.in_case = false;
                if let Some(case) = self.find(name)
                    && !self.stream
                {
                    self.show(case);
                }
                Some(GRACE)
            }
            Event::Done => Some(GRACE),
            Event::Line(line) => {
                if self.stream && self.in_case {
                    println!("{line}");
                }
                None
            }
            Event::Qemu(words) => {
                eprintln!("{words}");
                None
            }
            Event::Alive | Event::Missing(_) | Event::Failed(_) => None,
        }
    }
}

/// A guest that crashed or hung has failed, even when the cases so far had passed.
fn blame(kernel: &str, ending: &Ending, verdicts: &mut [Verdict], dir: &Path) {
    let what = match ending {
        Ending::PoweredOff => return,
        Ending::Crashed(line) => format!("the guest crashed: {line}"),
        Ending::Hung(limit) => format!("the guest hung: nothing for {} s", limit.as_secs()),
        Ending::QemuFailed(words) => format!("QEMU ended: {words}"),
        Ending::Stopped => "the guest was ended".to_owned(),
    };
    println!("  FAIL {kernel} {what}; see {}", dir.join("console.log").display());
    // The case under way has no verdict; when all have one, the last case is to answer for it.
    let without = verdicts.iter().position(|verdict| verdict.reason().starts_with("no verdict"));
    let last = verdicts.iter().rposition(|verdict| *verdict != Verdict::NotApplicable);
    if let Some(index) = without.or(last) {
        verdicts[index] = Verdict::Fail(what);
    }
}

fn count(kernel: &Kernel, cases: &[Case], verdicts: &[Verdict]) -> Tally {
    let mut tally = Tally::default();
    for (case, verdict) in cases.iter().zip(verdicts) {
        let name = format!("vm {} {}", kernel.series.name, case.name);
        match verdict {
            Verdict::Pass => tally.passed += 1,
            Verdict::Skip(reason) => tally.skipped.push((name, reason.clone())),
            Verdict::Fail(reason) => tally.failed.push(format!("{name}: {reason}")),
            Verdict::NotApplicable => {}
        }
    }
    tally
}
