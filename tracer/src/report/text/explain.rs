//! An explanation, as plain text.

use super::TextOptions;
use super::compare::side;
use super::page::Page;
use crate::analyse::units::plural;
use crate::model::{
    ConditionEvidence, Experiment, Explanation, Outcome, SignatureResult, SurroundingEvidence,
};

/// The explanation, of the signatures those that match, or `all` of them. No line is wider than asked for;
/// without `utf8` it is plain ASCII.
pub fn render_explanation(explanation: &Explanation, all: bool, options: &TextOptions) -> String {
    let mut page = Page::new(*options);
    let what = if explanation.base.is_some() { "what changed, explained" } else { "explained" };
    page.paragraph(0, &format!("lockscope {}: {what}", explanation.lockscope_version));
    match &explanation.base {
        Some(base) => {
            page.labelled("base", &side(base));
            page.labelled("new", &side(&explanation.subject));
        }
        None => page.labelled("run", &side(&explanation.subject)),
    }
    account(explanation, &mut page);
    regressions(explanation, all, &mut page);
    experiments("Next", &explanation.next, &mut page);
    if !explanation.caveats.is_empty() {
        page.heading("Before believing it", "");
        explanation.caveats.iter().for_each(|caveat| page.hanging("  - ", 4, caveat));
    }
    page.finish()
}

fn account(explanation: &Explanation, page: &mut Page) {
    page.heading("What it says", "");
    let mut last = "";
    for statement in &explanation.account {
        let about = if statement.about == last { "" } else { statement.about.as_str() };
        page.labelled(about, &statement.text);
        last = &statement.about;
    }
}

fn regressions(explanation: &Explanation, all: bool, page: &mut Page) {
    let tried = plural(explanation.signatures.len() as u64, "signature");
    page.heading("Known regressions", &format!("{tried} tried"));
    let count = explanation.matches().count();
    if count == 0 {
        page.paragraph(2, "It matches nothing known.");
        unjudged(explanation, page);
    }
    let shown = explanation.signatures.iter().take(if all { usize::MAX } else { count });
    for (index, signature) in shown.enumerate() {
        if index > 0 || count == 0 {
            page.line("");
        }
        self::signature(signature, page);
    }
}

/// What does not match because nothing could be measured, is not refuted.
fn unjudged(explanation: &Explanation, page: &mut Page) {
    let is_unjudged = |signature: &&SignatureResult| {
        signature.conditions.iter().all(|c| !c.decisive || c.outcome == Outcome::NotJudged)
    };
    let unjudged: Vec<&str> = explanation
        .signatures
        .iter()
        .filter(is_unjudged)
        .map(|signature| signature.id.as_str())
        .collect();
    if !unjudged.is_empty() {
        let text = format!(
            "Not refuted either, for want of measurements: {} (`--signature ID` says what).",
            unjudged.join(", ")
        );
        page.paragraph(2, &text);
    }
}

fn signature(signature: &SignatureResult, page: &mut Page) {
    let confidence = match signature.confidence {
        Some(confidence) => format!("{} confidence", confidence.word()),
        None => "no match".to_owned(),
    };
    page.hanging("  ", 4, &format!("{}: {} ({confidence})", signature.id, signature.title));
    let mut fact = |label: &str, text: &str| {
        page.hanging(&format!("    {label:<12}"), 16, text);
    };
    fact("kind", &signature.class);
    fact("symptom", &signature.symptom);
    let why = if signature.confidence.is_some() { "why so sure" } else { "why not" };
    fact(why, &format!("{}.", signature.reasons.join("; ")));
    signature.history.iter().for_each(|history| fact("history", history));
    for condition in &signature.conditions {
        fact(mark(condition.outcome), &condition_text(condition));
    }
    for SurroundingEvidence { name, outcome, text } in &signature.surroundings {
        fact(mark(*outcome), &format!("{name}: {text}"));
    }
    signature.alternatives.iter().for_each(|other| fact("or it is", other));
    for Experiment { text, command } in &signature.next {
        fact("try", text);
        command.iter().for_each(|command| fact("", &format!("$ {command}")));
    }
}

fn mark(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Held => "holds",
        Outcome::Failed => "FAILS",
        Outcome::NotJudged => "not judged",
    }
}

fn condition_text(condition: &ConditionEvidence) -> String {
    let decisive = if condition.decisive { " (decisive)" } else { "" };
    format!(
        "{}: {}; wanted {}{decisive}: {}",
        condition.metric,
        condition.text,
        condition.tests.join(" and "),
        condition.because
    )
}

fn experiments(title: &str, experiments: &[Experiment], page: &mut Page) {
    if experiments.is_empty() {
        return;
    }
    page.heading(title, "capitals stand for your own options");
    for Experiment { text, command } in experiments {
        page.hanging("  - ", 4, text);
        command.iter().for_each(|command| page.hanging("    $ ", 6, command));
    }
}
