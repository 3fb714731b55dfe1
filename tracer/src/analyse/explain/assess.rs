//! A signature against the runs: whether it matches, and how sure that is. Rules: `docs/explain.md`.

use super::judge::judge;
use super::sides::Sides;
use super::signature::{Signature, Versions};
use super::surroundings::{fact, version};
use super::version::Product;
use crate::analyse::units::plural;
use crate::model::{ConditionEvidence, Confidence, Outcome, SignatureResult, SurroundingEvidence};

/// Less of the conditions judged than this is not all the evidence that there should be.
const JUDGED: f64 = 0.75;

/// Tries one.
pub(super) fn assess(signature: &Signature, sides: &Sides<'_>, same_load: bool) -> SignatureResult {
    let conditions: Vec<ConditionEvidence> =
        signature.conditions.iter().map(|condition| judge(condition, sides)).collect();
    let versions = versions(signature, sides);
    let all_facts = sides.new.facts();
    let facts: Vec<SurroundingEvidence> =
        signature.facts.iter().map(|claim| fact(claim, &all_facts)).collect();
    let (confidence, reasons) = match refuted(&conditions, &versions, &facts) {
        Some(reason) => (None, vec![reason]),
        None => {
            let mut caps = caps(&conditions, &versions, &facts);
            caps.extend(base_caps(signature, sides, same_load));
            caps.extend(signature.limit.iter().map(|l| (l.confidence, l.because.clone())));
            conclude(&conditions, caps)
        }
    };
    SignatureResult {
        id: signature.id.clone(),
        title: signature.title.clone(),
        class: signature.class.words().to_owned(),
        symptom: signature.symptom.clone(),
        origin: signature.origin.clone(),
        confidence,
        reasons,
        conditions,
        surroundings: versions.into_iter().chain(facts).collect(),
        history: history(signature),
        alternatives: signature.alternatives.clone(),
        next: signature.next.clone(),
    }
}

fn versions(signature: &Signature, sides: &Sides<'_>) -> Vec<SurroundingEvidence> {
    let stated = signature.versions();
    stated.map(|(product, versions)| version(product, versions, &sides.new)).collect()
}

/// Why it cannot be it.
fn refuted(
    conditions: &[ConditionEvidence],
    versions: &[SurroundingEvidence],
    facts: &[SurroundingEvidence],
) -> Option<String> {
    let decisive = || conditions.iter().filter(|condition| condition.decisive);
    if let Some(failed) = decisive().find(|condition| condition.outcome == Outcome::Failed) {
        return Some(format!(
            "{} is {}, not {}",
            failed.metric,
            failed.text,
            failed.tests.join(" with ")
        ));
    }
    if let Some(failed) = facts.iter().find(|fact| fact.outcome == Outcome::Failed) {
        return Some(format!("{} is {}", failed.name, failed.text));
    }
    let unknown = decisive().find(|condition| condition.outcome == Outcome::NotJudged)?;
    if !decisive().any(|condition| condition.outcome == Outcome::Held) {
        return Some(format!("cannot be judged: {}: {}", unknown.metric, unknown.text));
    }
    // Half of a symptom, on a version that has no such regression, is no first guess either.
    let other = versions.iter().find(|version| version.outcome == Outcome::Failed)?;
    Some(format!(
        "{}: {}; and {} cannot be judged: {}",
        other.name, other.text, unknown.metric, unknown.text
    ))
}

/// What keeps the confidence down, each with its reason.
fn caps(
    conditions: &[ConditionEvidence],
    versions: &[SurroundingEvidence],
    facts: &[SurroundingEvidence],
) -> Vec<(Confidence, String)> {
    let mut caps = Vec::new();
    let count = |decisive: bool, outcome: Outcome| {
        let of_kind = conditions.iter().filter(|c| c.decisive == decisive);
        of_kind.filter(|c| c.outcome == outcome).count()
    };
    let unjudged = count(true, Outcome::NotJudged);
    if unjudged > 0 {
        let text = format!("{} could not be judged", plural(unjudged as u64, "decisive condition"));
        caps.push((Confidence::Low, text));
    }
    let (failed, held) = (count(false, Outcome::Failed), count(false, Outcome::Held));
    if failed > 0 {
        let confidence = if failed > held { Confidence::Low } else { Confidence::Medium };
        let text = format!("{} that should hold failed", plural(failed as u64, "other condition"));
        caps.push((confidence, text));
    }
    let judged = conditions.iter().filter(|c| c.outcome != Outcome::NotJudged).count();
    if (judged as f64) < JUDGED * conditions.len() as f64 {
        let text = format!("only {judged} of {} conditions could be judged", conditions.len());
        caps.push((Confidence::Medium, text));
    }
    for claim in versions {
        match claim.outcome {
            Outcome::Failed => {
                let text = format!("{}: {} (unless it was patched)", claim.name, claim.text);
                caps.push((Confidence::Low, text));
            }
            Outcome::NotJudged => {
                caps.push((Confidence::Medium, format!("{}: {}", claim.name, claim.text)));
            }
            Outcome::Held => {}
        }
    }
    let unknown = facts.iter().filter(|fact| fact.outcome == Outcome::NotJudged);
    caps.extend(unknown.map(|fact| (Confidence::Medium, format!("{}: {}", fact.name, fact.text))));
    if versions.is_empty() && facts.is_empty() {
        let text = "the signature says nothing of kernel, server or machine that could be checked";
        caps.push((Confidence::Medium, text.to_owned()));
    }
    caps
}

/// What the base says against it.
fn base_caps(
    signature: &Signature,
    sides: &Sides<'_>,
    same_load: bool,
) -> Vec<(Confidence, String)> {
    let Some(base) = &sides.base else { return Vec::new() };
    let mut caps = Vec::new();
    if !same_load {
        caps.push((Confidence::Low, "the two sides ran different loads".to_owned()));
    }
    for (product, versions) in signature.versions() {
        let [of_base, of_new] = [base, &sides.new].map(|side| version(product, versions, side));
        if of_base.outcome == Outcome::Held && of_new.outcome == Outcome::Held {
            let name = product.name();
            let text =
                format!("the base's {name} is affected, too: something else made the change");
            caps.push((Confidence::Medium, text));
        }
    }
    caps
}

fn conclude(
    conditions: &[ConditionEvidence],
    mut caps: Vec<(Confidence, String)>,
) -> (Option<Confidence>, Vec<String>) {
    caps.sort_by_key(|(confidence, _)| *confidence);
    let confidence = caps.first().map_or(Confidence::High, |(confidence, _)| *confidence);
    let held = conditions.iter().filter(|c| c.outcome == Outcome::Held).count();
    let mut reasons = vec![format!("{held} of {} conditions held", conditions.len())];
    match caps.iter().any(|(cap, _)| *cap < Confidence::High) {
        true => reasons.extend(
            caps.into_iter().filter(|(cap, _)| *cap < Confidence::High).map(|(_, reason)| reason),
        ),
        false => reasons.push("and the surroundings are the regression's".to_owned()),
    }
    (Some(confidence), reasons)
}

/// `kernel: broken by abc in 6.3-rc, fixed by def in 6.4-rc1`.
fn history(signature: &Signature) -> Vec<String> {
    let name = |product| match product {
        Product::Kernel => "kernel",
        Product::Postgres => "Postgres",
    };
    let stated = signature.versions();
    stated.filter_map(|(product, versions)| told(name(product), versions)).collect()
}

fn told(name: &str, versions: &Versions) -> Option<String> {
    let Versions { broken_in, fixed_in, seen_in, broken_by, fixed_by } = versions;
    let part = |what: &str, by: &[String], version: Option<String>| {
        let by = if by.is_empty() { String::new() } else { format!(" by {}", by.join(", ")) };
        let version = version.map_or_else(String::new, |version| format!(" in {version}"));
        (!by.is_empty() || !version.is_empty()).then(|| format!("{what}{by}{version}"))
    };
    let parts = [
        part("broken", broken_by, broken_in.map(|version| version.to_string())),
        part("fixed", fixed_by, fixed_in.map(|version| version.to_string())),
        part("seen", &[], seen_in.first().map(ToString::to_string)),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    (!parts.is_empty()).then(|| format!("{name}: {}", parts.join(", ")))
}
