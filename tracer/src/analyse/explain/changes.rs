//! What two sides say, in sentences: the comparison's findings, then what else changed.

use std::collections::{BTreeMap, BTreeSet};

use super::sides::Sides;
use crate::analyse::compare::Quantity;
use crate::analyse::units::{duration, percent, rate, signed_percent};
use crate::model::{Comparison, MetricRow, Sentence, Value, Verdict};

/// Changes of a kind that are told.
const EACH: usize = 4;
/// A function whose share of the CPU time moves by less is not told.
const FUNCTION: f64 = 0.02;
/// A counter or a plug's number that moves by less, relatively, is not told.
const RELATIVE: f64 = 0.1;

/// The sentences.
pub(super) fn changes(comparison: &Comparison, sides: &Sides<'_>) -> Vec<Sentence> {
    let told = comparison.findings.iter().map(|finding| Sentence {
        about: finding.about.clone(),
        text: finding.text.clone(),
        share: None,
    });
    let mut all: Vec<Sentence> = told.chain(locks(comparison)).collect();
    if let Some(base) = &sides.base {
        let (base, new) = (base.means(), sides.new.means());
        all.extend(functions(&base, &new));
        for about in ["counters", "plug"] {
            all.extend(counts(about, &base, &new));
        }
    }
    all
}

/// Locks whose change is a part of the latency's worth telling. Where the latency's own change may be
/// chance, it has no parts, and the waits of others than the server are none: then only those locks are
/// told that changed for sure.
fn locks(comparison: &Comparison) -> Vec<Sentence> {
    let whole = comparison.decompositions.first().map(|d| d.new_ns - d.base_ns);
    let whole = whole.filter(|whole| *whole != 0.0 && latency_differs(comparison));
    let groups = comparison.groups.iter().filter(|group| group.name == "locks");
    let rows = groups.flat_map(|group| &group.rows).filter_map(|row| {
        let difference = row.change?.difference;
        let whole = whole.filter(|_| row.metric.starts_with("lock.server."));
        let share = whole.map(|whole| difference / whole);
        let is_told = match share {
            Some(share) => share.abs() >= 0.05 && may_be_chance(row) != Some(true),
            None => row.verdict.is_some_and(Verdict::differs),
        };
        is_told.then(|| {
            let mean = |value: Option<Value>| value.map_or(0.0, |value| value.mean);
            let part = share.map_or_else(String::new, |share| {
                format!(", {} of the change of the mean latency", percent(share))
            });
            let text = format!(
                "Waits for {}: {} -> {} a transaction{part}.",
                row.label,
                duration(mean(row.base)),
                duration(mean(row.new)),
            );
            Sentence { about: "lock".to_owned(), text, share: share.map(f64::abs) }
        })
    });
    rows.take(EACH).collect()
}

/// Whether the throughput or the mean latency changed for sure.
fn latency_differs(comparison: &Comparison) -> bool {
    let rows = comparison.groups.iter().flat_map(|group| &group.rows);
    let mut headline = rows.filter(|row| ["tps", "latency.mean"].contains(&row.metric.as_str()));
    headline.any(|row| may_be_chance(row) == Some(false))
}

/// Whether no change at all is within the interval; `None` where nothing tells the interval.
fn may_be_chance(row: &MetricRow) -> Option<bool> {
    let change = row.change?;
    let (low, high) = change.difference_low.zip(change.difference_high)?;
    Some(row.verdict == Some(Verdict::NoDifferenceFound) || (low <= 0.0 && high >= 0.0))
}

/// By name.
type Means<'a> = BTreeMap<&'a str, Quantity>;

/// Functions of the backends with more or less of their CPU time.
fn functions(base: &Means<'_>, new: &Means<'_>) -> Vec<Sentence> {
    const OF: &str = "profile.server.self.";
    let are_in = |side: &Means<'_>| side.keys().any(|name| name.starts_with(OF));
    if !are_in(base) || !are_in(new) {
        return Vec::new();
    }
    let names: BTreeSet<&str> = base.keys().chain(new.keys()).copied().collect();
    let share = |side: &Means<'_>, name: &str| side.get(name).map_or(0.0, |share| share.value);
    let functions = names.into_iter().filter_map(|name| {
        let (from, to) = (share(base, name), share(new, name));
        let function = name.strip_prefix(OF)?;
        let text =
            format!("{function}: {} -> {} of the backends' CPU time.", percent(from), percent(to));
        ((to - from).abs() >= FUNCTION).then(|| ((to - from).abs(), statement("function", text)))
    });
    largest(functions.collect())
}

/// Counters, or plugs.
fn counts(about: &str, base: &Means<'_>, new: &Means<'_>) -> Vec<Sentence> {
    let amount = |of: &Quantity| match of.unit {
        "ns" => duration(of.value),
        "share" => percent(of.value),
        _ => rate(of.value),
    };
    let counts = new.iter().filter_map(|(name, to)| {
        let from = base.get(name).filter(|_| name.starts_with(about))?;
        let relative = to.value / from.value - 1.0;
        let how = match from.value > 0.0 {
            true => format!(" ({})", signed_percent(relative)),
            false => String::new(),
        };
        let text = format!("{name}: {} -> {}{how}.", amount(from), amount(to));
        // As much less is as much as so much more; from or to nothing is more than anything else.
        let size = (to.value / from.value).ln().abs();
        let is_told = from.value.max(to.value) >= least(to.unit) && relative.abs() >= RELATIVE;
        is_told.then(|| (size, statement(about, text)))
    });
    largest(counts.collect())
}

/// What is less on both sides is not told: next to nothing, it changes by any ratio.
fn least(unit: &str) -> f64 {
    match unit {
        "ns" => 1000.0,
        "share" => 0.001,
        _ => 0.1,
    }
}

fn largest(mut sized: Vec<(f64, Sentence)>) -> Vec<Sentence> {
    sized.sort_by(|(left, _), (right, _)| right.total_cmp(left));
    sized.into_iter().take(EACH).map(|(_, statement)| statement).collect()
}

fn statement(about: &str, text: String) -> Sentence {
    Sentence { about: about.to_owned(), text, share: None }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Change, Decomposition, MetricGroup};

    fn row(metric: &str, difference: f64, interval: Option<(f64, f64)>) -> MetricRow {
        let change = Change {
            difference,
            difference_low: interval.map(|(low, _)| low),
            difference_high: interval.map(|(_, high)| high),
            ..Change::default()
        };
        let label = metric.to_owned();
        MetricRow { metric: label.clone(), label, change: Some(change), ..MetricRow::default() }
    }

    /// What is told of a latency that changed by 100 us, and a lock with it.
    fn told(latency: Option<(f64, f64)>, lock: MetricRow) -> Vec<String> {
        let group = |name: &str, row: MetricRow| MetricGroup {
            name: name.to_owned(),
            rows: vec![row],
            ..MetricGroup::default()
        };
        let comparison = Comparison {
            decompositions: vec![Decomposition {
                base_ns: 1_000_000.0,
                new_ns: 1_100_000.0,
                ..Decomposition::default()
            }],
            groups: vec![
                group("throughput", row("latency.mean", 100_000.0, latency)),
                group("locks", lock),
            ],
            ..Comparison::default()
        };
        locks(&comparison).into_iter().map(|sentence| sentence.text).collect()
    }

    #[test]
    fn a_change_that_may_be_chance_has_no_parts() {
        let lock = || row("lock.server.osq pipe.mutex", 60_000.0, None);
        let sure = told(Some((50_000.0, 150_000.0)), lock());
        assert!(sure[0].contains("60.0 % of the change of the mean latency"), "{sure:?}");
        assert_eq!(told(Some((-50_000.0, 250_000.0)), lock()), [""; 0]);
        assert_eq!(told(None, lock()), [""; 0]);
        let noisy = row("lock.server.osq pipe.mutex", 60_000.0, Some((-1.0, 120_000.0)));
        assert_eq!(told(Some((50_000.0, 150_000.0)), noisy), [""; 0], "the lock's own");
    }

    #[test]
    fn a_lock_that_changed_for_sure_is_told_without_a_share_of_noise() {
        let changed = |metric: &str| MetricRow {
            verdict: Some(Verdict::More),
            ..row(metric, 60_000.0, Some((50_000.0, 70_000.0)))
        };
        let noise = told(Some((-50_000.0, 250_000.0)), changed("lock.server.osq pipe.mutex"));
        assert!(noise.len() == 1 && !noise[0].contains('%'), "{noise:?}");
        // No part of the server's latency.
        let client = told(Some((50_000.0, 150_000.0)), changed("lock.client.osq pipe.mutex"));
        assert!(client.len() == 1 && !client[0].contains('%'), "{client:?}");
    }
}
