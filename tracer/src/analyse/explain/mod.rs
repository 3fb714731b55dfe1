//! A run, or two sides of runs, explained: what they say in sentences, which known regression that looks
//! like, and what to measure next. Pure functions of the runs and the signatures.

mod account;
mod assess;
mod catalogue;
mod changes;
mod combine;
mod expression;
mod judge;
mod metrics;
mod next;
mod parse;
mod pattern;
mod said;
mod sides;
mod signature;
mod surroundings;
mod version;

pub use self::catalogue::{catalogue, only};
pub use self::signature::{Signature, SignatureError};

use self::assess::assess;
use self::sides::{Measured, Sides};
use crate::analyse::compare::{CompareError, Options, Side, check_version, compare, described};
use crate::model::{
    Comparison, Confidence, EXPLANATION_SCHEMA_VERSION, Explanation, Outcome, Run, Sentence,
    SignatureResult,
};

/// Differences that make two loads different ones; clients and protocol may be what is under test.
const OTHER_LOAD: [&str; 3] = ["workload.name", "workload.scale", "load.scripts"];

/// Explains one run.
///
/// # Errors
/// The side holds none, or one of an older form.
pub fn explain_run(side: &Side, signatures: &[Signature]) -> Result<Explanation, CompareError> {
    check_version(side, "only")?;
    let sides = Sides { new: Measured::of(&side.runs), base: None, comparison: None };
    let account = side.runs.first().map(account::account).unwrap_or_default();
    let mut explanation = Explanation {
        account,
        caveats: side.runs.iter().flat_map(caveats).collect(),
        ..begun(side, &sides, signatures, true)
    };
    explanation.next =
        side.runs.first().map(|run| next::next(&explanation, run)).unwrap_or_default();
    Ok(explanation)
}

/// Explains what changed from `base` to `new`.
///
/// # Errors
/// As of [`compare`].
pub fn explain_change(
    base: &Side,
    new: &Side,
    signatures: &[Signature],
    options: &Options,
) -> Result<Explanation, CompareError> {
    let comparison = compare(base, new, options)?;
    let sides = Sides {
        new: Measured::of(&new.runs),
        base: Some(Measured::of(&base.runs)),
        comparison: Some(&comparison),
    };
    let other_load = other_load(&comparison);
    let mut caveats: Vec<String> = comparison.warnings.iter().map(|w| w.text.clone()).collect();
    caveats.extend(other_load.iter().cloned());
    let mut explanation = Explanation {
        base: Some(comparison.base.clone()),
        account: changes::changes(&comparison, &sides),
        caveats,
        ..begun(new, &sides, signatures, other_load.is_none())
    };
    explanation.account.extend(gone(base, new, signatures, &explanation.signatures));
    explanation.next =
        new.runs.first().map(|run| next::next(&explanation, run)).unwrap_or_default();
    Ok(explanation)
}

/// Signatures that the base shows and the new side does not.
fn gone(
    base: &Side,
    new: &Side,
    signatures: &[Signature],
    found: &[SignatureResult],
) -> Vec<Sentence> {
    let back = Sides {
        new: Measured::of(&base.runs),
        base: Some(Measured::of(&new.runs)),
        comparison: None,
    };
    let matches = |signature: &&Signature| {
        found.iter().any(|found| found.id == signature.id && found.confidence.is_some())
    };
    let others = signatures.iter().filter(|signature| !matches(signature));
    let told = others.filter_map(|signature| {
        let SignatureResult { id, title, confidence, .. } = assess(signature, &back, true);
        // A first guess at the base that fails the new side is no news.
        let confidence = confidence.filter(|confidence| *confidence > Confidence::Low)?;
        let text = format!(
            "The base looks like {id} ({title}), with {} confidence, and the new side does not.",
            confidence.word()
        );
        Some(Sentence { about: "gone".to_owned(), text, share: None })
    });
    told.collect()
}

fn begun(side: &Side, sides: &Sides<'_>, signatures: &[Signature], same_load: bool) -> Explanation {
    let mut results: Vec<SignatureResult> =
        signatures.iter().map(|signature| assess(signature, sides, same_load)).collect();
    let held = |result: &SignatureResult| {
        result.conditions.iter().filter(|c| c.outcome == Outcome::Held).count()
    };
    results.sort_by(|left, right| {
        right.confidence.cmp(&left.confidence).then_with(|| held(right).cmp(&held(left)))
    });
    Explanation {
        schema_version: EXPLANATION_SCHEMA_VERSION,
        lockscope_version: env!("CARGO_PKG_VERSION").to_owned(),
        subject: described(side),
        signatures: results,
        ..Explanation::default()
    }
}

fn other_load(comparison: &Comparison) -> Option<String> {
    let differs = comparison.environment.iter().filter(|d| OTHER_LOAD.contains(&d.name.as_str()));
    let told = |value: &Option<String>| value.clone().unwrap_or_else(|| "(absent)".to_owned());
    let names: Vec<String> =
        differs.map(|d| format!("{} {} -> {}", d.name, told(&d.base), told(&d.new))).collect();
    (!names.is_empty()).then(|| {
        format!(
            "The two sides ran different loads ({}): what changed may be the load's own. Explain runs of one load.",
            names.join("; ")
        )
    })
}

fn caveats(run: &Run) -> Vec<String> {
    run.warnings
        .iter()
        .map(|warning| match &warning.remedy {
            Some(remedy) => format!("{} -> {remedy}", warning.text),
            None => warning.text.clone(),
        })
        .collect()
}
