//! Two sides of runs compared: metrics with their evidence, and where the time went.

mod condition;
mod counters;
mod decompose;
mod flags;
mod judge;
mod locks;
mod profile;
mod sources;
mod surroundings;
mod words;

use std::collections::{BTreeMap, BTreeSet};

use rayon::prelude::*;

pub use self::condition::{Condition, ConditionError};
pub(super) use self::condition::{Threshold, known_names};
pub(super) use self::decompose::decompose;
use self::flags::flags;
pub(super) use self::judge::MIN_INTERVALS;
use self::judge::{Judged, Rules, SideValues, Unit, conclude, judge};
pub(super) use self::locks::{LockIdentity, per_transaction};
use self::sources::{Kind, Measured, SOURCES, Source};
use self::surroundings::differences;
pub(super) use self::surroundings::of_run as facts_of_run;
pub use self::words::{MOST_ROUNDS, rounds_needed};
use crate::analyse::units::{duration, plural};
use crate::model::{
    COMPARISON_SCHEMA_VERSION, ComparedSide, Comparison, MetricGroup, Run, SCHEMA_VERSION, Value,
};

/// What the comparison is to tell.
#[derive(Clone, Debug)]
pub struct Options {
    /// Confidence of the intervals and verdicts, 0.95.
    pub confidence: f64,
    /// The relative change that is of interest, 0.05.
    pub effect: f64,
    /// Conditions under which it fails.
    pub conditions: Vec<Condition>,
    /// Whether the runs of the two sides were made in turns, so that the first of both are a pair, and so on.
    pub paired: bool,
}

impl Default for Options {
    fn default() -> Options {
        Options { confidence: 0.95, effect: 0.05, conditions: Vec::new(), paired: false }
    }
}

/// One side's runs and where they come from.
#[derive(Clone, Debug, Default)]
pub struct Side {
    /// A name a run.
    pub files: Vec<String>,
    /// The runs.
    pub runs: Vec<Run>,
}

/// Runs that cannot be compared.
#[derive(Debug, thiserror::Error)]
pub enum CompareError {
    /// A side without a run.
    #[error(
        "the {0} side has no run; give saved runs on both: `lockscope compare base.lockscope new.lockscope`, or several a side: `compare base*.lockscope -- new*.lockscope`"
    )]
    NoRun(&'static str),
    /// A run of an older form.
    #[error(
        "{file} has schema version {version}, older than the {SCHEMA_VERSION} that this lockscope compares; measure it again"
    )]
    OlderSchema {
        /// The file.
        file: String,
        /// Its version.
        version: u32,
    },
    /// Nothing was measured.
    #[error("{0} has no transaction: nothing was measured in it; measure it again")]
    NoTransaction(String),
    /// It ended before its first interval did.
    #[error(
        "{file} has no interval, for it was over before the first one ended: it measured {transactions} in {measured}; measure longer (-T, -t), or with shorter intervals (--interval 0.1)"
    )]
    NoInterval {
        /// The file.
        file: String,
        /// How many transactions.
        transactions: String,
        /// How long.
        measured: String,
    },
    /// Too little was measured.
    #[error(
        "{0} has a single interval, which cannot tell how much it varies; measure longer (-T), or with shorter intervals (--interval)"
    )]
    OneInterval(String),
    /// Pairs of which one half is missing.
    #[error(
        "{base} runs of the base and {new} new ones are no pairs; give equally many a side, in the order of their rounds, or leave --paired away"
    )]
    Unpaired {
        /// Runs of the base.
        base: usize,
        /// New runs.
        new: usize,
    },
    /// A condition that names no metric.
    #[error(transparent)]
    Condition(#[from] ConditionError),
}

/// A metric's value in one run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Quantity {
    pub(super) value: f64,
    /// `per_second`, `ns`, `count`, `share`.
    pub(super) unit: &'static str,
    /// Whether it is a part of the mean latency.
    pub(super) of_latency: bool,
}

/// Every metric of a run by its name in `--fail-if`.
pub(super) fn metrics(run: &Run) -> BTreeMap<String, Quantity> {
    let of = |measured: Measured| {
        let Kind { unit, of_latency, .. } = measured.kind;
        (measured.metric, Quantity { value: measured.value, unit, of_latency })
    };
    SOURCES.iter().flat_map(|source| (source.measure)(run)).map(of).collect()
}

/// Compares.
///
/// # Errors
/// A side is empty, a run is older than this version or too short, pairs lack a half, a condition names no
/// metric.
pub fn compare(base: &Side, new: &Side, options: &Options) -> Result<Comparison, CompareError> {
    let single = base.runs.len() + new.runs.len() == 2;
    check(base, "base", single)?;
    check(new, "new", single)?;
    if options.paired && base.runs.len() != new.runs.len() {
        return Err(CompareError::Unpaired { base: base.runs.len(), new: new.runs.len() });
    }
    let unit = match single {
        true => Unit::Interval,
        _ if options.paired => Unit::Pair,
        _ => Unit::Run,
    };
    let latencies: Vec<f64> = base.runs.iter().filter_map(Run::traced_latency_ns).collect();
    let rules = Rules {
        unit,
        confidence: options.confidence,
        effect: options.effect,
        latency_ns: (!latencies.is_empty())
            .then(|| latencies.iter().sum::<f64>() / latencies.len() as f64),
    };
    let mut groups: Vec<(&Source, Vec<Judged>)> = SOURCES
        .par_iter()
        .map(|source| (source, group(source, &base.runs, &new.runs, &rules)))
        .collect();
    let flags = flags(&base.runs, &new.runs);
    for row in groups.iter_mut().flat_map(|(_, rows)| rows).map(|judged| &mut judged.row) {
        let concerning = flags.iter().filter(|flag| flag.concerns(row));
        row.flags = concerning.map(|flag| flag.warning.code.clone()).collect();
    }
    let conditions = options
        .conditions
        .iter()
        .map(|condition| condition.judge(&groups, rules.confidence))
        .collect::<Result<_, _>>()?;
    let mut comparison = Comparison {
        schema_version: COMPARISON_SCHEMA_VERSION,
        lockscope_version: env!("CARGO_PKG_VERSION").to_owned(),
        unit: unit.name().to_owned(),
        confidence: options.confidence,
        effect_of_interest: options.effect,
        base: described(base),
        new: described(new),
        findings: Vec::new(),
        decompositions: decompose(&base.runs, &new.runs),
        groups: groups.into_iter().filter_map(|(source, rows)| in_model(source, rows)).collect(),
        environment: differences(&base.runs, &new.runs),
        conditions,
        warnings: flags.into_iter().map(|flag| flag.warning).collect(),
    };
    comparison.findings = words::findings(&comparison, &rules);
    Ok(comparison)
}

/// Whether there are runs, of a form that can be read as today's.
pub(super) fn check_version(side: &Side, name: &'static str) -> Result<(), CompareError> {
    if side.runs.is_empty() {
        return Err(CompareError::NoRun(name));
    }
    let old =
        side.runs.iter().zip(&side.files).find(|(run, _)| run.schema_version < SCHEMA_VERSION);
    old.map_or(Ok(()), |(run, file)| {
        let (file, version) = (file.clone(), run.schema_version);
        Err(CompareError::OlderSchema { file, version })
    })
}

/// `by_interval`: the intervals are the samples, and one is too few.
fn check(side: &Side, name: &'static str, by_interval: bool) -> Result<(), CompareError> {
    check_version(side, name)?;
    for (run, file) in side.runs.iter().zip(&side.files) {
        match run.intervals.len() {
            0 => return Err(no_interval(run, file)),
            1 if by_interval => return Err(CompareError::OneInterval(file.clone())),
            _ => {}
        }
    }
    Ok(())
}

fn no_interval(run: &Run, file: &str) -> CompareError {
    let file = file.to_owned();
    match run.throughput.transactions_count {
        0 => CompareError::NoTransaction(file),
        count => CompareError::NoInterval {
            file,
            transactions: plural(count, "transaction"),
            measured: duration(run.workload.duration_ns as f64),
        },
    }
}

/// What a run's metrics are by name.
type ByName = BTreeMap<String, Measured>;

/// A source's rows, judged.
fn group(source: &Source, base: &[Run], new: &[Run], rules: &Rules) -> Vec<Judged> {
    let mut order: Vec<String> = Vec::new();
    let mut seen = BTreeSet::new();
    let mut measure = |runs: &[Run]| -> Vec<(ByName, bool)> {
        let mut by_name = |run: &Run| {
            let measured = (source.measure)(run);
            let names = measured.iter().map(|measured| measured.metric.clone());
            order.extend(names.filter(|name| seen.insert(name.clone())));
            let by_name = measured.into_iter().map(|m| (m.metric.clone(), m)).collect();
            (by_name, (source.absent_is_zero)(run))
        };
        runs.iter().map(&mut by_name).collect()
    };
    let sides = [measure(base), measure(new)];
    let row = |metric: &String| {
        let [left, right] = [0, 1].map(|side| values(&sides[side], metric));
        let first = left.measured.iter().chain(&right.measured).next()?;
        Some(judge(first, &left, &right, rules))
    };
    let mut rows: Vec<Judged> = order.par_iter().filter_map(row).collect();
    if source.on_both {
        rows.retain(|judged| judged.row.change.is_some());
    }
    keep_most(&mut rows, source.most);
    conclude(&mut rows, source.corrected, rules);
    if source.by_change {
        let size =
            |judged: &Judged| judged.row.change.map_or(0.0, |change| change.difference.abs());
        rows.sort_by(|left, right| size(right).total_cmp(&size(left)));
    }
    rows
}

/// Those with most on either side, in the order that they have.
fn keep_most(rows: &mut Vec<Judged>, most: usize) {
    if rows.len() <= most {
        return;
    }
    let mean = |value: Option<Value>| value.map_or(0.0, |value| value.mean);
    let size = |judged: &Judged| mean(judged.row.base).max(mean(judged.row.new));
    let mut sizes: Vec<f64> = rows.iter().map(size).collect();
    sizes.sort_by(|left, right| right.total_cmp(left));
    let least = sizes[most - 1];
    rows.retain(|judged| size(judged) >= least);
}

fn values<'a>(runs: &'a [(ByName, bool)], metric: &str) -> SideValues<'a> {
    let mut side = SideValues::default();
    for (by_name, absent_is_zero) in runs {
        let measured = by_name.get(metric);
        let value = measured.map(|measured| measured.value);
        let value = value.or(absent_is_zero.then_some(0.0));
        side.by_run.push(value);
        side.values.extend(value);
        side.measured.extend(measured);
    }
    side
}

/// Without the rows that are 0 on both sides, which only a condition may ask for.
fn in_model(source: &Source, rows: Vec<Judged>) -> Option<MetricGroup> {
    let is_zero = |value: Option<Value>| value.is_none_or(|value| value.mean == 0.0);
    let rows = rows.into_iter().map(|judged| judged.row);
    let rows: Vec<_> = rows.filter(|row| !is_zero(row.base) || !is_zero(row.new)).collect();
    (!rows.is_empty()).then(|| MetricGroup {
        name: source.name.to_owned(),
        title: source.title.to_owned(),
        corrected: source.corrected,
        by_change: source.by_change,
        rows,
    })
}

/// A side in words.
pub(super) fn described(side: &Side) -> ComparedSide {
    let mut workloads: Vec<String> = side.runs.iter().map(workload).collect();
    workloads.dedup();
    ComparedSide {
        files: side.files.clone(),
        runs_count: side.runs.len() as u64,
        intervals_count: side.runs.iter().map(|run| run.intervals.len() as u64).sum(),
        measured_ns: side.runs.iter().map(|run| run.workload.duration_ns).sum(),
        workload: workloads.join(" | "),
        started_at: side.runs.first().map(|run| run.started_at.clone()).unwrap_or_default(),
    }
}

fn workload(run: &Run) -> String {
    let workload = &run.workload;
    let clients = plural(u64::from(workload.clients), "client");
    let server = run.environment.postgres.as_ref();
    let version = server.and_then(|server| server.version.split_whitespace().next());
    let server = version.map_or_else(String::new, |version| format!(", Postgres {version}"));
    format!(
        "{}, {}, {clients}, scale {}, kernel {}{server}",
        workload.name, workload.protocol, workload.scale, run.environment.kernel.release
    )
}
