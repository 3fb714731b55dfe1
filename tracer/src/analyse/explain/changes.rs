//! What two sides say, in sentences: the comparison's findings, then what else changed.

use std::collections::{BTreeMap, BTreeSet};

use super::sides::Sides;
use crate::analyse::compare::Quantity;
use crate::analyse::units::{duration, percent, rate, signed_percent};
use crate::model::{Comparison, Sentence, Value};

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

/// Locks whose change is a part of the latency's worth telling.
fn locks(comparison: &Comparison) -> Vec<Sentence> {
    let Some(whole) = comparison.decompositions.first().map(|d| d.new_ns - d.base_ns) else {
        return Vec::new();
    };
    let groups = comparison.groups.iter().filter(|group| group.name == "locks");
    let rows = groups.flat_map(|group| &group.rows).filter_map(|row| {
        let difference = row.change?.difference;
        let share = difference / whole;
        (whole != 0.0 && share.abs() >= 0.05).then(|| {
            let mean = |value: Option<Value>| value.map_or(0.0, |value| value.mean);
            let text = format!(
                "Waits for {}: {} -> {} a transaction, {} of the change of the mean latency.",
                row.label,
                duration(mean(row.base)),
                duration(mean(row.new)),
                percent(share)
            );
            Sentence { about: "lock".to_owned(), text, share: Some(share.abs()) }
        })
    });
    rows.take(EACH).collect()
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
