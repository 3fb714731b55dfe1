//! One metric on both sides: its change, how sure that is, and the verdict. Rules: `docs/statistics.md`.

use super::sources::{Better, Kind, Measured};
use crate::analyse::statistics::{
    Effect, benjamini_hochberg, bootstrap, independent_ranks, log_ratio, mean_difference,
    paired_difference, paired_log_ratio, serial_ranks, signed_ranks,
};
use crate::analyse::stats::Summary;
use crate::model::{Change, MetricRow, Value, Verdict};

/// Fewer intervals of a run say nothing.
pub(in crate::analyse) const MIN_INTERVALS: usize = 8;
/// Rounds that both sides together need.
const MIN_ROUNDS_IN_ALL: usize = 5;
/// Pairs of rounds, below which Student's t knows too little of their spread.
const MIN_PAIRS: usize = 3;
/// Rounds a side that are asked for where there are too few.
const ROUNDS: u64 = 3;

/// What a sample is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unit {
    /// A run each: their intervals.
    Interval,
    /// Several runs on a side: the runs.
    Run,
    /// Several runs on a side, made in turns: those of a round together.
    Pair,
}

impl Unit {
    /// In the JSON.
    pub(super) fn name(self) -> &'static str {
        match self {
            Unit::Interval => "interval",
            Unit::Run => "run",
            Unit::Pair => "pair",
        }
    }
}

/// What every metric is judged by.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rules {
    pub(super) unit: Unit,
    pub(super) confidence: f64,
    /// The relative change that is of interest.
    pub(super) effect: f64,
    /// The base's mean latency, which states and locks are parts of.
    pub(super) latency_ns: Option<f64>,
}

/// A metric's values on one side, one a run.
#[derive(Default)]
pub(super) struct SideValues<'a> {
    pub(super) values: Vec<f64>,
    /// The same with those runs that lack it.
    pub(super) by_run: Vec<Option<f64>>,
    pub(super) measured: Vec<&'a Measured>,
}

/// A row under way, and what its verdict rests on.
pub(super) struct Judged {
    pub(super) row: MetricRow,
    pub(super) kind: Kind,
    /// Logarithm of the ratio; absent where a side may be 0.
    pub(super) relative: Option<Effect>,
    /// Difference.
    pub(super) absolute: Option<Effect>,
    /// The new side's mean.
    pub(super) level: Option<Effect>,
    /// Whether there are enough samples for any verdict.
    pub(super) enough: bool,
    rounds: u64,
}

/// The evidence of both tests.
#[derive(Default)]
struct Evidence {
    relative: Option<Effect>,
    absolute: Option<Effect>,
    p_ranks: Option<f64>,
    levels: [Option<Effect>; 2],
    effective: [Option<f64>; 2],
    samples: [u64; 2],
    enough: bool,
}

/// Everything but the verdict, which depends on the other rows of the group.
pub(super) fn judge(
    first: &Measured,
    base: &SideValues<'_>,
    new: &SideValues<'_>,
    rules: &Rules,
) -> Judged {
    let sides = [base, new];
    let means = sides.map(|side| Summary::of(&side.values).map(|summary| summary.mean));
    let evidence = match rules.unit {
        Unit::Interval => by_intervals(&first.metric, sides, means),
        Unit::Run => by_runs(sides, rules),
        Unit::Pair => by_pairs(sides, rules),
    };
    let value = |side: usize| {
        means[side].map(|mean| Value {
            mean,
            plus_minus: evidence.levels[side].as_ref().map(|level| {
                let (low, high) = level.interval(rules.confidence);
                (high - low) / 2.0
            }),
            samples_count: evidence.samples[side],
            effective_samples: evidence.effective[side],
        })
    };
    let change = means[0].zip(means[1]).map(|(base, new)| change(base, new, &evidence, rules));
    let row = MetricRow {
        metric: first.metric.clone(),
        label: first.label.clone(),
        unit: first.kind.unit.to_owned(),
        of_latency: first.kind.of_latency,
        base: value(0),
        new: value(1),
        change,
        verdict: None,
        more_rounds: None,
        flags: Vec::new(),
    };
    let rounds = sides.map(|side| side.values.len()).into_iter().min().unwrap_or_default() as u64;
    let Evidence { relative, absolute, levels: [_, level], enough, .. } = evidence;
    Judged { row, kind: first.kind, relative, absolute, level, enough, rounds }
}

fn by_intervals(metric: &str, sides: [&SideValues<'_>; 2], means: [Option<f64>; 2]) -> Evidence {
    let series = sides.map(|side| side.measured.first().map(|measured| &measured.series));
    let [Some(base), Some(new)] = series else { return Evidence::default() };
    let samples = [base.len() as u64, new.len() as u64];
    let enough = base.len().min(new.len()) >= MIN_INTERVALS;
    let Some(found) = bootstrap(base, new, seed(metric)) else {
        return Evidence { samples, ..Evidence::default() };
    };
    let [Some(base_mean), Some(new_mean)] = means else { return Evidence::default() };
    // The run's own numbers are exact, and told per transaction: its intervals tell how they vary.
    let relative = found
        .log_ratio
        .filter(|_| base_mean > 0.0 && new_mean > 0.0)
        .map(|effect| effect.around((new_mean / base_mean).ln()));
    let [base_level, new_level] = found.means;
    Evidence {
        relative,
        absolute: Some(found.difference.around(new_mean - base_mean)),
        p_ranks: serial_ranks(base.values(), new.values()),
        levels: [Some(base_level.around(base_mean)), Some(new_level.around(new_mean))],
        effective: found.effective.map(Some),
        samples,
        enough,
    }
}

fn by_runs(sides: [&SideValues<'_>; 2], rules: &Rules) -> Evidence {
    let [base, new] = sides.map(|side| side.values.as_slice());
    Evidence {
        relative: log_ratio(base, new),
        absolute: mean_difference(base, new),
        p_ranks: independent_ranks(base, new).map(|ranks| reachable(ranks, rules)),
        enough: !base.is_empty() && !new.is_empty() && base.len() + new.len() >= MIN_ROUNDS_IN_ALL,
        ..of_rounds(base, new)
    }
}

/// Pairs of which both runs have the metric.
fn by_pairs([base, new]: [&SideValues<'_>; 2], rules: &Rules) -> Evidence {
    let pairs = base.by_run.iter().zip(&new.by_run).filter_map(|(base, new)| base.zip(*new));
    let (bases, news): (Vec<f64>, Vec<f64>) = pairs.unzip();
    Evidence {
        relative: paired_log_ratio(&bases, &news),
        absolute: paired_difference(&bases, &news),
        p_ranks: signed_ranks(&bases, &news).map(|ranks| reachable(ranks, rules)),
        enough: bases.len() >= MIN_PAIRS,
        ..of_rounds(&base.values, &new.values)
    }
}

/// So few rounds may not reach the level with ranks at all: all of one side above all of the other is then
/// the most that they can say.
fn reachable((p, least): (f64, f64), rules: &Rules) -> f64 {
    if p <= least && least > 1.0 - rules.confidence { 0.0 } else { p }
}

fn of_rounds(base: &[f64], new: &[f64]) -> Evidence {
    Evidence {
        levels: [base, new].map(level),
        samples: [base.len() as u64, new.len() as u64],
        ..Evidence::default()
    }
}

/// A mean of rounds.
fn level(values: &[f64]) -> Option<Effect> {
    let summary = Summary::of(values).filter(|summary| summary.count > 1)?;
    let standard_error = summary.stddev / (summary.count as f64).sqrt();
    Some(Effect::student(summary.mean, standard_error, summary.count as f64 - 1.0))
}

fn change(base: f64, new: f64, evidence: &Evidence, rules: &Rules) -> Change {
    let interval = |effect: &Effect| effect.interval(rules.confidence);
    let relative = evidence.relative.as_ref().map(interval);
    let absolute = evidence.absolute.as_ref().map(interval);
    let p_means = evidence.relative.as_ref().or(evidence.absolute.as_ref()).map(Effect::p_value);
    Change {
        difference: new - base,
        difference_low: absolute.map(|(low, _)| low),
        difference_high: absolute.map(|(_, high)| high),
        ratio: (base > 0.0).then(|| new / base),
        ratio_low: relative.map(|(low, _)| low.exp()),
        ratio_high: relative.map(|(_, high)| high.exp()),
        p_value: p_means.map(|p| p.max(evidence.p_ranks.unwrap_or(1.0))),
        p_adjusted: None,
        detectable: evidence.absolute.as_ref().map(|effect| effect.detectable(rules.confidence)),
    }
}

/// Verdicts of a group's rows.
pub(super) fn conclude(rows: &mut [Judged], corrected: bool, rules: &Rules) {
    let tested: Vec<usize> = (0..rows.len())
        .filter(|&index| rows[index].enough && p_value(&rows[index]).is_some())
        .collect();
    let p_values: Vec<f64> = tested.iter().filter_map(|&index| p_value(&rows[index])).collect();
    let adjusted = if corrected { benjamini_hochberg(&p_values) } else { p_values };
    for (&index, p) in tested.iter().zip(adjusted) {
        if let Some(change) = &mut rows[index].row.change {
            change.p_adjusted = corrected.then_some(p);
        }
        let verdict = verdict(&rows[index], p, rules);
        rows[index].row.verdict = Some(verdict);
    }
    for judged in rows {
        if judged.row.change.is_some() && judged.row.verdict.is_none() {
            judged.row.verdict = Some(Verdict::CannotTell);
        }
        if judged.row.verdict == Some(Verdict::CannotTell) {
            judged.row.more_rounds = Some(more_rounds(judged, rules));
        }
    }
}

fn p_value(judged: &Judged) -> Option<f64> {
    judged.row.change.as_ref()?.p_value
}

fn verdict(judged: &Judged, p: f64, rules: &Rules) -> Verdict {
    if p <= 1.0 - rules.confidence {
        let grew = judged.row.change.is_some_and(|change| change.difference > 0.0);
        return match (judged.kind.better, grew) {
            (Better::Neither, true) => Verdict::More,
            (Better::Neither, false) => Verdict::Less,
            (Better::Higher, true) | (Better::Lower, false) => Verdict::Faster,
            (Better::Higher, false) | (Better::Lower, true) => Verdict::Slower,
        };
    }
    match detectable_over_interest(judged, rules) {
        // An interval without 0 that the ranks, or the other rows, do not confirm is neither.
        Some(excess) if excess <= 1.0 && holds_none(judged) => Verdict::NoDifferenceFound,
        _ => Verdict::CannotTell,
    }
}

/// Whether no difference is within the interval.
fn holds_none(judged: &Judged) -> bool {
    judged.row.change.is_some_and(|change| {
        let holds = |low: Option<f64>, high: Option<f64>, none: f64| {
            low.is_none_or(|low| low <= none) && high.is_none_or(|high| high >= none)
        };
        holds(change.ratio_low, change.ratio_high, 1.0)
            && holds(change.difference_low, change.difference_high, 0.0)
    })
}

/// The detectable difference over the one that is of interest.
fn detectable_over_interest(judged: &Judged, rules: &Rules) -> Option<f64> {
    let part_of = rules.latency_ns.filter(|_| judged.kind.of_latency);
    if let (None, Some(relative)) = (part_of, &judged.relative) {
        return Some(relative.detectable(rules.confidence) / (1.0 + rules.effect).ln());
    }
    let whole = part_of.or(judged.row.base.map(|value| value.mean))?;
    let detectable = judged.absolute.as_ref()?.detectable(rules.confidence);
    (whole > 0.0).then(|| detectable / (rules.effect * whole))
}

/// The error falls with the root of the number of rounds.
fn more_rounds(judged: &Judged, rules: &Rules) -> u64 {
    let rounds = judged.rounds.max(1);
    let to_begin = ROUNDS.saturating_sub(rounds).max(1);
    if !judged.enough {
        return to_begin;
    }
    let excess = detectable_over_interest(judged, rules).unwrap_or(1.0);
    let wanted = (rounds as f64 * excess * excess).ceil().min(1e6) as u64;
    wanted.saturating_sub(rounds).max(to_begin)
}

/// The same for the same metric, whatever else is compared.
fn seed(metric: &str) -> u64 {
    metric.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}
