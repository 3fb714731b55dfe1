//! Whether a condition holds, and with which numbers.

use super::sides::{Sides, Whole};
use super::signature::{Test, Tested};
use crate::analyse::compare::{MIN_INTERVALS, Quantity, Threshold};
use crate::analyse::units::{
    duration, percent, plural, signed_duration, signed_percent, significant,
};
use crate::model::{ConditionEvidence, Outcome};

/// Measures and judges.
pub(super) fn judge(tested: &Tested, sides: &Sides<'_>) -> ConditionEvidence {
    let new = sides.new.measure(&tested.metric);
    let base = sides.base.as_ref().map(|base| base.measure(&tested.metric));
    let run = tested.run.as_ref().map(|test| run_holds(tested, test, &new, sides));
    let change = match (&tested.change, &base) {
        // The run alone has to do, where the signature says how.
        (Some(_), None) if run.is_some() => None,
        (Some(test), base) => Some(change_holds(tested, test, &new, base.as_ref(), sides)),
        (None, _) => None,
    };
    let results: Vec<Result<bool, String>> = run.into_iter().chain(change).collect();
    let outcome = if results.contains(&Ok(false)) {
        Outcome::Failed
    } else if results.iter().all(Result::is_ok) {
        Outcome::Held
    } else {
        Outcome::NotJudged
    };
    let whole = tested.metric.whole();
    let whole = whole.and_then(|whole| Some((whole, sides.new.whole_ns(whole).ok()?)));
    let mut text = numbers(&new, base.as_ref(), whole);
    if outcome == Outcome::NotJudged {
        let mut parts: Vec<String> = results.into_iter().filter_map(Result::err).collect();
        parts.dedup();
        parts.splice(0..0, (!text.is_empty()).then_some(text));
        text = parts.join("; ");
    }
    let named = [("", &tested.run), ("change ", &tested.change)];
    let tests = named
        .into_iter()
        .filter_map(|(what, test)| test.as_ref().map(|test| format!("{what}{}", test.text)));
    ConditionEvidence {
        metric: tested.metric.text.clone(),
        tests: tests.collect(),
        decisive: tested.decisive,
        outcome,
        base: base.as_ref().and_then(|base| base.as_ref().ok()).map(|base| base.value),
        value: new.as_ref().ok().map(|new| new.value),
        unit: new.as_ref().ok().map(|new| new.unit.to_owned()),
        text,
        because: tested.because.clone(),
    }
}

type Measured = Result<Quantity, String>;

fn run_holds(
    tested: &Tested,
    test: &Test,
    new: &Measured,
    sides: &Sides<'_>,
) -> Result<bool, String> {
    let new = new.clone()?;
    let (value, limit) = match (test.condition.threshold(), tested.metric.whole()) {
        // None of it is no share of anything.
        (Threshold::Relative(limit), Some(_)) if new.value == 0.0 => (0.0, limit),
        (Threshold::Relative(limit), Some(whole)) => {
            (new.value / sides.new.whole_ns(whole)?, limit)
        }
        (
            Threshold::Relative(limit) | Threshold::Difference(limit) | Threshold::Value(limit),
            _,
        ) => (new.value, limit),
    };
    certain(test, value, value, limit)
}

fn change_holds(
    tested: &Tested,
    test: &Test,
    new: &Measured,
    base: Option<&Measured>,
    sides: &Sides<'_>,
) -> Result<bool, String> {
    let new = new.clone()?.value;
    let base = base.ok_or("there is no base to compare with")?;
    let base = base.clone().map_err(|reason| format!("in the base {reason}"))?.value;
    let row = tested.metric.single().and_then(|metric| sides.row(metric));
    let change = row.and_then(|row| row.change);
    if let Some(row) = row.filter(|_| sides.are_single_runs()) {
        let samples = row.base.iter().chain(&row.new).map(|value| value.samples_count).min();
        // Without any, a run has one value of it, which has to do.
        if let Some(few) = samples.filter(|count| (1..MIN_INTERVALS as u64).contains(count)) {
            return Err(format!("{} a side: too few to tell the change", plural(few, "interval")));
        }
    }
    match test.condition.threshold() {
        Threshold::Relative(limit) => {
            let relative = relative(base, new);
            let known = change.and_then(|change| change.ratio_low.zip(change.ratio_high));
            let (low, high) =
                known.map_or((relative, relative), |(low, high)| (low - 1.0, high - 1.0));
            certain(test, low, high, limit)
        }
        Threshold::Difference(limit) | Threshold::Value(limit) => {
            let known = change.and_then(|change| change.difference_low.zip(change.difference_high));
            let (low, high) = known.unwrap_or((new - base, new - base));
            certain(test, low, high, limit)
        }
    }
}

fn certain(test: &Test, low: f64, high: f64, limit: f64) -> Result<bool, String> {
    let holds = test.condition.holds(low, high, limit);
    holds.ok_or_else(|| format!("whether the change is {} is within its noise", test.text))
}

/// New over base less 1; infinite where there was nothing.
fn relative(base: f64, new: f64) -> f64 {
    match base == 0.0 {
        true if new == 0.0 => 0.0,
        true => f64::INFINITY,
        false => new / base - 1.0,
    }
}

/// `0.21 -> 6.04 (+2,776 %)`, `12.3 us, 8.1 % of the latency`.
fn numbers(new: &Measured, base: Option<&Measured>, whole: Option<(Whole, f64)>) -> String {
    let Ok(new) = new else { return String::new() };
    let amount = |of: &Quantity| match of.unit {
        "ns" if of.value >= 0.0 => duration(of.value),
        "ns" => signed_duration(of.value),
        "share" => percent(of.value),
        _ => significant(of.value),
    };
    let mut text = match base {
        Some(Ok(base)) => format!("{} -> {}", amount(base), amount(new)),
        _ => amount(new),
    };
    let mut remarks = Vec::new();
    if let Some(Ok(base)) = base
        && base.value > 0.0
        && new.unit != "share"
    {
        remarks.push(signed_percent(relative(base.value, new.value)));
    }
    if let Some((whole, ns)) = whole.filter(|_| new.value > 0.0) {
        remarks.push(format!("{} of {}", percent(new.value / ns), whole.words()));
    }
    if !remarks.is_empty() {
        text += &format!(" ({})", remarks.join(", "));
    }
    text
}
