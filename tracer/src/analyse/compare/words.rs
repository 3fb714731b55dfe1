//! What a comparison comes to, in sentences.

use super::judge::{Rules, Unit};
use crate::analyse::units::{duration, percent, plural, rate, signed_duration, signed_percent};
use crate::model::{Comparison, Decomposition, Finding, MetricRow, Part, Verdict};

/// Parts of a decomposition that a sentence names.
const NAMED: usize = 3;
/// Beyond so many rounds it is the measurement that has to change.
pub const MOST_ROUNDS: u64 = 99;
/// A share below this is not worth a clause.
const SMALL_SHARE: f64 = 0.05;

/// The findings, most important first.
pub(super) fn findings(comparison: &Comparison, rules: &Rules) -> Vec<Finding> {
    let mut found = Vec::new();
    let mut say = |about: &str, text: String| {
        found.push(Finding { about: about.to_owned(), text });
    };
    let headline: Vec<&MetricRow> =
        ["tps", "latency.mean"].into_iter().filter_map(|metric| row(comparison, metric)).collect();
    for row in &headline {
        say("verdict", verdict(row, rules));
    }
    let differs = headline.iter().any(|row| row.verdict.is_some_and(Verdict::differs));
    if let Some(decomposition) = comparison.decompositions.first() {
        say("where", parts(decomposition, &headline));
        let named = decomposition.parts.first().is_some_and(|part| part.lock.is_some());
        if let Some(lock) = (differs && !named).then(|| lock(decomposition)).flatten() {
            say("lock", lock);
        }
    }
    let may_explain = comparison.environment.iter().filter(|d| d.may_explain).count() as u64;
    if may_explain > 0 {
        let names: Vec<&str> = comparison
            .environment
            .iter()
            .filter(|difference| difference.may_explain)
            .map(|difference| difference.name.as_str())
            .take(4)
            .collect();
        let more = may_explain - names.len() as u64;
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        let text = format!(
            "Besides what is under test, what else differs may explain the change: {}{more}.",
            names.join(", ")
        );
        say("may explain", text);
    }
    say("evidence", evidence(comparison, rules));
    found
}

fn row<'a>(comparison: &'a Comparison, metric: &str) -> Option<&'a MetricRow> {
    comparison.groups.iter().flat_map(|group| &group.rows).find(|row| row.metric == metric)
}

/// `tps 17,444 -> 23,009, +31.9 % (95 % interval +30.1 % to +33.5 %): faster.`
fn verdict(row: &MetricRow, rules: &Rules) -> String {
    let amount = |value: Option<crate::model::Value>| {
        value.map_or("-".to_owned(), |value| match row.unit.as_str() {
            "ns" => duration(value.mean),
            _ => rate(value.mean),
        })
    };
    let mut text = format!("{} {} -> {}", row.label, amount(row.base), amount(row.new));
    let Some(change) = row.change else { return text + ": not measured on both sides." };
    if let Some(ratio) = change.ratio {
        text += &format!(", {}", signed_percent(ratio - 1.0));
    }
    if let (Some(low), Some(high)) = (change.ratio_low, change.ratio_high) {
        text += &format!(
            " ({:.0} % interval {} to {})",
            100.0 * rules.confidence,
            signed_percent(low - 1.0),
            signed_percent(high - 1.0)
        );
    }
    let verdict = row.verdict.unwrap_or(Verdict::CannotTell);
    text += &format!(": {}", verdict.words());
    let base = row.base.map_or(0.0, |value| value.mean);
    let detectable = change.detectable.filter(|_| base > 0.0).map(|detectable| detectable / base);
    match (verdict, row.more_rounds, detectable) {
        (Verdict::NoDifferenceFound, _, Some(least)) => {
            text +=
                &format!("; one of {} would have been found four times in five", percent(least));
        }
        (Verdict::CannotTell, Some(rounds), _) => {
            text += &format!(" (needs {})", rounds_needed(rounds));
        }
        _ => {}
    }
    text + "."
}

/// How many more rounds it takes; beyond some, nobody measures so many.
pub fn rounds_needed(rounds: u64) -> String {
    match rounds > MOST_ROUNDS {
        true => format!("more than {MOST_ROUNDS} rounds a side"),
        false => format!("{} a side", plural(rounds, "more round")),
    }
}

/// `+93.9 us of +116 us (81 %) is client, transport; +22.9 us (20 %) server runq queued.`
fn parts(decomposition: &Decomposition, headline: &[&MetricRow]) -> String {
    let whole = decomposition.new_ns - decomposition.base_ns;
    let verdict_is = |wanted| headline.iter().any(|row| row.verdict == Some(wanted));
    let lead = match headline.iter().any(|row| row.verdict.is_some_and(Verdict::differs)) {
        true => "Of the mean latency",
        false if verdict_is(Verdict::CannotTell) => "Not established, but of the mean latency",
        false => {
            return format!(
                "The means differ by {}, which is noise, and so is what it consists of.",
                signed_duration(whole)
            );
        }
    };
    let large: Vec<&Part> = decomposition
        .parts
        .iter()
        .take(NAMED)
        .filter(|part| part.share.is_some_and(|share| share.abs() >= SMALL_SHARE))
        .collect();
    let clauses: Vec<String> = large
        .iter()
        .enumerate()
        .map(|(index, part)| {
            let share = part.share.unwrap_or_default() * 100.0;
            let of =
                if index == 0 { format!(" of {}", signed_duration(whole)) } else { String::new() };
            let is = if index == 0 { "is " } else { "" };
            format!(
                "{}{of} ({share:.0} %) {is}{}",
                signed_duration(part.difference_ns),
                part_words(part)
            )
        })
        .collect();
    match clauses.is_empty() {
        true => {
            format!("The mean latency differs by {}, in no state much.", signed_duration(whole))
        }
        false => format!("{lead}, {}.", clauses.join("; ")),
    }
}

/// `server spin osq on pipe.mutex under pipe_write`.
fn part_words(part: &Part) -> String {
    let Some(lock) = &part.lock else { return part.label.clone() };
    match &lock.caller {
        Some(caller) if !lock.name.contains(caller.as_str()) => {
            format!("{}, most on {} under {caller}", part.label, lock.name)
        }
        _ => format!("{}, most on {}", part.label, lock.name),
    }
}

/// Locks' part of the change, where the main part is something else.
fn lock(decomposition: &Decomposition) -> Option<String> {
    let whole = decomposition.new_ns - decomposition.base_ns;
    let is_lock = |part: &&Part| {
        ["server.spin", "server.lock_sleep", "server.irq"].iter().any(|s| part.state.starts_with(s))
    };
    let locks: Vec<&Part> = decomposition.parts.iter().filter(is_lock).collect();
    let sum: f64 = locks.iter().map(|part| part.difference_ns).sum();
    let largest = locks.first()?;
    let share = sum / whole;
    if share.abs() < SMALL_SHARE {
        return Some(format!(
            "Kernel locks are not it: {} over all of the server's ({:.1} %).",
            signed_duration(sum),
            100.0 * share
        ));
    }
    Some(format!(
        "All kernel locks of the server: {} of it ({:.0} %), most in {} ({}).",
        signed_duration(sum),
        100.0 * share,
        part_words(largest),
        signed_duration(largest.difference_ns)
    ))
}

fn evidence(comparison: &Comparison, rules: &Rules) -> String {
    let samples = |side: &crate::model::ComparedSide| match rules.unit {
        Unit::Interval => plural(side.intervals_count, "interval"),
        Unit::Run | Unit::Pair => plural(side.runs_count, "run"),
    };
    let counts = format!("{} against {}", samples(&comparison.base), samples(&comparison.new));
    match rules.unit {
        Unit::Interval => format!(
            "{counts} of one run a side. How much such runs differ from each other, these two do not tell: give several a side (`compare base* -- new*`) before acting on a small change."
        ),
        Unit::Run => format!("{counts}, each run one sample."),
        Unit::Pair => format!(
            "{counts}, the two of a round being a pair: what drifts from round to round is in no difference."
        ),
    }
}
