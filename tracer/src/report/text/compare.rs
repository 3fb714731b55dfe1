//! Two sides compared, as plain text.

use super::TextOptions;
use super::page::Page;
use super::table::{Column, Table};
use crate::analyse::compare::MOST_ROUNDS;
use crate::analyse::units::{
    chosen_duration, duration, percent, plural, rate, signed_duration, signed_percent, significant,
};
use crate::model::{
    Change, ComparedSide, Comparison, Decomposition, Difference, MetricGroup, MetricRow, Part,
    Value, Verdict, Warning,
};

/// Rows of a long group that are shown.
const LISTED: usize = 10;
/// Parts of a change smaller than this share of it are summed up.
const SMALL_PART: f64 = 0.005;
/// Files that are named.
const FILES: usize = 3;
/// Letters for the notes on rows.
const MARKS: &str = "abcdefghijklmnopqrstuvwxyz";

/// The comparison. No line is wider than asked for; without `utf8` it is plain ASCII.
pub fn render_comparison(comparison: &Comparison, options: &TextOptions) -> String {
    let mut page = Page::new(*options);
    page.paragraph(
        0,
        &format!("lockscope {}: base and new compared", comparison.lockscope_version),
    );
    page.labelled("base", &side(&comparison.base));
    page.labelled("new", &side(&comparison.new));
    findings(comparison, &mut page);
    conditions(comparison, &mut page);
    for decomposition in &comparison.decompositions {
        self::decomposition(decomposition, comparison, &mut page);
    }
    let flags: Vec<&Warning> = comparison
        .warnings
        .iter()
        .filter(|warning| all_rows(comparison).any(|row| row.flags.contains(&warning.code)))
        .collect();
    for group in &comparison.groups {
        self::group(group, comparison, &flags, &mut page);
    }
    notes(&flags, &mut page);
    environment(comparison, &mut page);
    warnings(comparison, &flags, &mut page);
    page.finish()
}

fn all_rows(comparison: &Comparison) -> impl Iterator<Item = &MetricRow> {
    comparison.groups.iter().flat_map(|group| &group.rows)
}

pub(super) fn side(side: &ComparedSide) -> String {
    let named: Vec<&str> = side.files.iter().take(FILES).map(String::as_str).collect();
    let more = side.files.len().saturating_sub(named.len());
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!(
        "{}{more}: {}; {} in {} of {}, from {}",
        named.join(" "),
        side.workload,
        chosen_duration(side.measured_ns),
        plural(side.runs_count, "run"),
        plural(side.intervals_count, "interval"),
        side.started_at.get(..16).unwrap_or(&side.started_at).replace('T', " "),
    )
}

fn findings(comparison: &Comparison, page: &mut Page) {
    page.heading("Findings", "");
    let mut last = "";
    for finding in &comparison.findings {
        let about = if finding.about == last { "" } else { finding.about.as_str() };
        page.labelled(about, &finding.text);
        last = &finding.about;
    }
}

fn conditions(comparison: &Comparison, page: &mut Page) {
    if comparison.conditions.is_empty() {
        return;
    }
    page.heading("Conditions", "of --fail-if");
    for condition in &comparison.conditions {
        let verdict = match condition.holds {
            Some(true) => "FAILED",
            Some(false) => "good",
            None => "unjudged",
        };
        page.labelled(verdict, &format!("{}: {}", condition.text, condition.reason));
    }
}

fn decomposition(decomposition: &Decomposition, comparison: &Comparison, page: &mut Page) {
    let whole = decomposition.new_ns - decomposition.base_ns;
    let remark = format!(
        "{}: {} -> {}, {}",
        decomposition.title,
        duration(decomposition.base_ns),
        duration(decomposition.new_ns),
        signed_duration(whole)
    );
    let title = match decomposition.name.as_str() {
        "mean_latency" => "What the change of latency consists of",
        _ => "What the change of clients / tps consists of",
    };
    page.heading(title, &remark);
    let mut table = Table::new(vec![
        Column::right("base"),
        Column::right("new"),
        Column::right("change"),
        Column::right("of it"),
        Column::left("state, and the lock with most of it"),
    ]);
    let is_small = |part: &&Part| part.difference_ns.abs() < SMALL_PART * whole.abs();
    let large = decomposition.parts.iter().filter(|part| !is_small(part));
    let small: Vec<&Part> = decomposition.parts.iter().filter(is_small).collect();
    for part in large {
        let verdict = all_rows(comparison)
            .find(|row| row.metric == part.state || row.metric == format!("server.{}", part.state))
            .and_then(|row| row.verdict);
        table.row(part_row(part, &part_label(part, verdict)));
    }
    let sum = |of: fn(&Part) -> f64| small.iter().map(|part| of(part)).sum::<f64>();
    if !small.is_empty() {
        let rest = Part {
            base_ns: sum(|part| part.base_ns),
            new_ns: sum(|part| part.new_ns),
            difference_ns: sum(|part| part.difference_ns),
            share: (whole != 0.0).then(|| sum(|part| part.difference_ns) / whole),
            ..Part::default()
        };
        let names: Vec<&str> = small.iter().map(|part| part.label.as_str()).collect();
        let names = names.join(", ").replace("server ", "");
        table.row(part_row(&rest, &format!("the rest: {names}")));
    }
    table.rule();
    let all = Part {
        base_ns: decomposition.base_ns,
        new_ns: decomposition.new_ns,
        difference_ns: whole,
        share: decomposition.closure,
        ..Part::default()
    };
    table.row(part_row(&all, "all"));
    page.table(&table);
}

fn part_row(part: &Part, label: &str) -> Vec<String> {
    vec![
        tight(&time(part.base_ns)),
        tight(&time(part.new_ns)),
        tight(&signed_duration((part.difference_ns * 1e3).round() / 1e3)),
        part.share.map_or("-".to_owned(), |share| format!("{:.1} %", 100.0 * share)),
        label.to_owned(),
    ]
}

/// A number and its unit as one word, as columns need it.
fn tight(text: &str) -> String {
    text.replace(' ', "")
}

fn part_label(part: &Part, verdict: Option<Verdict>) -> String {
    let mut text = part.label.clone();
    if let Some(lock) = &part.lock {
        text += &format!(": {}", lock.name);
        if let Some(caller) = lock.caller.as_ref().filter(|caller| !lock.name.contains(*caller)) {
            text += &format!(" <- {caller}");
        }
        text += &format!(" {}", tight(&signed_duration(lock.difference_ns)));
    }
    match verdict {
        Some(verdict) if !verdict.differs() => text + " (not established)",
        _ => text,
    }
}

fn group(group: &MetricGroup, comparison: &Comparison, flags: &[&Warning], page: &mut Page) {
    let shown = if group.by_change { group.rows.len().min(LISTED) } else { group.rows.len() };
    let mut remark = if shown < group.rows.len() {
        format!("the {shown} largest changes of {}; ", group.rows.len())
    } else {
        String::new()
    };
    remark += &format!("+-: {:.0} % intervals", 100.0 * comparison.confidence);
    page.heading(&group.title, &remark);
    let columns = [
        Column::left("metric"),
        Column::right("base"),
        Column::right("+-").expendable(3),
        Column::right("new"),
        Column::right("+-").expendable(3),
        Column::right("change"),
        Column::right("interval").expendable(1),
        Column::right("p").expendable(2),
        Column::right("verdict"),
    ];
    let rows: Vec<Vec<String>> =
        group.rows.iter().take(shown).map(|row| metric_row(row, flags)).collect();
    // A single run has no interval for what it measured as a whole only.
    let kept: Vec<usize> =
        (0..columns.len()).filter(|&index| rows.iter().any(|row| !row[index].is_empty())).collect();
    let mut table = Table::new(kept.iter().map(|&index| columns[index].clone()).collect());
    for row in &rows {
        table.row(kept.iter().map(|&index| row[index].clone()).collect());
    }
    page.table(&table);
}

fn metric_row(row: &MetricRow, flags: &[&Warning]) -> Vec<String> {
    let amount = |value: f64| amount(value, &row.unit);
    let mean = |value: Option<Value>| value.map_or("-".to_owned(), |value| amount(value.mean));
    let half = |value: Option<Value>| {
        value.and_then(|value| value.plus_minus).map_or(String::new(), amount)
    };
    let marks: String = flags
        .iter()
        .zip(MARKS.chars())
        .filter(|(flag, _)| row.flags.contains(&flag.code))
        .map(|(_, mark)| mark)
        .collect();
    let label =
        if marks.is_empty() { row.label.clone() } else { format!("{} [{marks}]", row.label) };
    let p = row.change.and_then(|change| change.p_adjusted.or(change.p_value));
    vec![
        label,
        mean(row.base),
        half(row.base),
        mean(row.new),
        half(row.new),
        row.change.map_or(String::new(), |change| self::change(&change, row)),
        row.change.map_or(String::new(), |change| interval(&change, row)),
        p.map_or(String::new(), |p| if p < 0.001 { "<.001".to_owned() } else { format!("{p:.3}") }),
        verdict(row),
    ]
}

fn amount(value: f64, unit: &str) -> String {
    match unit {
        "ns" => tight(&time(value)),
        "share" => percent(value),
        "per_second" => rate(value),
        _ => significant(value),
    }
}

/// A time that may be negative, as a remainder may.
fn time(ns: f64) -> String {
    // A sum of parts leaves crumbs.
    let ns = (ns * 1e3).round() / 1e3;
    if ns < 0.0 { signed_duration(ns) } else { duration(ns) }
}

/// Parts of the latency in nanoseconds, for a large change of a small part is small; others relative to
/// their base.
fn change(change: &Change, row: &MetricRow) -> String {
    match change.ratio {
        Some(ratio) if !row.of_latency => tight(&signed_percent(ratio - 1.0)),
        _ => difference(change.difference, row),
    }
}

fn difference(value: f64, row: &MetricRow) -> String {
    match row.unit.as_str() {
        "ns" => tight(&signed_duration(value)),
        _ => format!("{}{}", if value < 0.0 { '-' } else { '+' }, significant(value.abs())),
    }
}

fn interval(change: &Change, row: &MetricRow) -> String {
    let relative = change.ratio_low.zip(change.ratio_high).filter(|_| !row.of_latency);
    match (relative, change.difference_low.zip(change.difference_high)) {
        (Some((low, high)), _) => {
            let ends = [low, high].map(|ratio| tight(&signed_percent(ratio - 1.0)));
            format!("{} to {}", ends[0].trim_end_matches('%'), ends[1])
        }
        (None, Some((low, high))) => {
            format!("{} to {}", difference(low, row), difference(high, row))
        }
        (None, None) => String::new(),
    }
}

fn verdict(row: &MetricRow) -> String {
    let Some(verdict) = row.verdict else { return "one side only".to_owned() };
    match (verdict, row.more_rounds) {
        (Verdict::CannotTell, Some(rounds)) => format!("? (+{})", rounds.min(MOST_ROUNDS)),
        (Verdict::NoDifferenceFound, _) => "none found".to_owned(),
        (verdict, _) => verdict.words().to_owned(),
    }
}

/// What the marks and question marks mean.
fn notes(flags: &[&Warning], page: &mut Page) {
    page.paragraph(
        2,
        "?: cannot tell; in brackets how many more rounds a side that takes, 99 where it is more. none found: no difference found, and one of interest would have been four times in five. p: the larger of those of the test of means and the test of ranks, below the first table corrected for the number of rows. docs/statistics.md has the rules.",
    );
    for (flag, mark) in flags.iter().zip(MARKS.chars()) {
        page.hanging(&format!("  [{mark}] "), 6, &with_remedy(flag));
    }
}

fn with_remedy(warning: &Warning) -> String {
    match &warning.remedy {
        Some(remedy) => format!("{} -> {remedy}", warning.text),
        None => warning.text.clone(),
    }
}

fn environment(comparison: &Comparison, page: &mut Page) {
    if comparison.environment.is_empty() {
        page.heading("What else differs", "nothing of what a run records");
        return;
    }
    page.heading("What else differs", "!: may explain the change, if it is not what is under test");
    let value = |value: &Option<String>| match value.as_deref() {
        None => "(absent)".to_owned(),
        Some("") => "(none)".to_owned(),
        Some(text) => text.to_owned(),
    };
    for Difference { name, base, new, may_explain, reason } in &comparison.environment {
        let mark = if *may_explain { "! " } else { "  " };
        let reason = reason.as_ref().map_or_else(String::new, |reason| format!("  ({reason})"));
        page.hanging(
            &format!("  {mark}"),
            6,
            &format!("{name}: {} -> {}{reason}", value(base), value(new)),
        );
    }
}

fn warnings(comparison: &Comparison, flags: &[&Warning], page: &mut Page) {
    let others: Vec<&Warning> = comparison
        .warnings
        .iter()
        .filter(|warning| !flags.iter().any(|flag| flag.code == warning.code))
        .collect();
    if others.is_empty() {
        return;
    }
    page.heading("Warnings", "");
    for warning in others {
        page.paragraph(2, &with_remedy(warning));
    }
}
