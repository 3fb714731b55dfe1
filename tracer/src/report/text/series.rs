//! The run over time: its slowest intervals, what grew in them, what moves with the latency.

use std::collections::{BTreeMap, BTreeSet};

use super::page::Page;
use super::table::{Column, Table, cell};
use crate::analyse::units::{duration, plural, rate};
use crate::model::{Correlation, Interval, Mark, Run};

/// Intervals that are listed; of more, the slowest.
const LISTED: usize = 8;
/// Correlations that are told.
const TOLD: usize = 4;
/// Weaker ones are told of none.
const WORTH_TELLING: f64 = 0.3;
/// A state that grew by less of the latency is no news.
const GROWN_SHARE: f64 = 0.01;
const NS_PER_SECOND: f64 = 1e9;

pub(super) fn render(run: &Run, page: &mut Page) {
    let intervals = &run.intervals;
    if intervals.len() < 2 {
        return;
    }
    page.heading("Over time", &remark(intervals));
    let typical = typical_states(intervals);
    let mut table = Table::new(vec![
        Column::right("at"),
        Column::right("tps"),
        Column::right("mean"),
        Column::right("p99").expendable(2),
        Column::left("grew most above the run's median"),
        Column::left("at work"),
    ]);
    for interval in slowest(intervals) {
        table.row(vec![
            format!("{:.1}s", interval.start_ns as f64 / NS_PER_SECOND),
            rate(interval.tps),
            cell(interval.latency_ns.map(|ns| duration(ns as f64))),
            cell(interval.latency_p99_ns.map(|ns| duration(ns as f64))),
            grown(interval, &typical),
            interval.marks.iter().map(mark).collect::<Vec<_>>().join(", "),
        ]);
    }
    page.table(&table);
    if let Some(text) = correlations(&run.correlations) {
        page.labelled("moves with it", &text);
    }
}

fn remark(intervals: &[Interval]) -> String {
    let mut tps: Vec<f64> = intervals.iter().map(|interval| interval.tps).collect();
    tps.sort_by(f64::total_cmp);
    let length = intervals.first().map_or(0, |interval| interval.duration_ns);
    let (least, most) = (tps[0], tps[tps.len() - 1]);
    let listed = match intervals.len() > LISTED {
        true => format!("; the {LISTED} slowest"),
        false => String::new(),
    };
    format!(
        "{} of {}: tps {} to {}, median {}{listed}",
        plural(intervals.len() as u64, "interval"),
        duration(length as f64),
        rate(least),
        rate(most),
        rate(tps[tps.len() / 2]),
    )
}

/// All of them, or the slowest, in the order of time.
fn slowest(intervals: &[Interval]) -> Vec<&Interval> {
    let mut sorted: Vec<&Interval> = intervals.iter().collect();
    // Without a transaction there is no latency: nothing is slower.
    sorted.sort_by_key(|interval| std::cmp::Reverse(interval.latency_ns.unwrap_or(u64::MAX)));
    sorted.truncate(LISTED);
    sorted.sort_by_key(|interval| interval.start_ns);
    sorted
}

/// The median over the intervals of each state's nanoseconds per transaction.
fn typical_states(intervals: &[Interval]) -> BTreeMap<String, f64> {
    let rows: Vec<BTreeMap<String, f64>> =
        intervals.iter().filter_map(|i| Some(i.per_transaction_ns.as_ref()?.states())).collect();
    let names: BTreeSet<&String> = rows.iter().flat_map(BTreeMap::keys).collect();
    let median = |name: &String| {
        let mut values: Vec<f64> =
            rows.iter().map(|row| row.get(name).copied().unwrap_or_default()).collect();
        values.sort_by(f64::total_cmp);
        values.get(values.len() / 2).copied().unwrap_or_default()
    };
    names.into_iter().map(|name| (name.clone(), median(name))).collect()
}

fn grown(interval: &Interval, typical: &BTreeMap<String, f64>) -> String {
    let (Some(states), Some(latency)) = (&interval.per_transaction_ns, interval.latency_ns) else {
        return String::new();
    };
    let growth = |(name, ns): (String, f64)| {
        let excess = ns - typical.get(&name).copied().unwrap_or_default();
        (name, excess)
    };
    let most = states.states().into_iter().map(growth).max_by(|a, b| a.1.total_cmp(&b.1));
    match most {
        Some((name, excess)) if excess > GROWN_SHARE * latency as f64 => {
            format!("{name} +{}", duration(excess))
        }
        _ => String::new(),
    }
}

fn mark(mark: &Mark) -> String {
    format!("{} {}", mark.kind, duration(mark.busy_ns as f64))
}

fn correlations(all: &[Correlation]) -> Option<String> {
    let first = all.first()?;
    let strong = all.iter().filter(|found| found.spearman.abs() >= WORTH_TELLING).take(TOLD);
    let told: Vec<String> = strong
        .map(|found| format!("{} {:+.2} ({})", found.state, found.spearman, p_value(found.p_value)))
        .collect();
    let count = plural(first.intervals_count, "interval");
    Some(match told.is_empty() {
        true => format!("no state moves with the mean latency over {count} (Spearman)"),
        false => format!(
            "{}: Spearman's rank correlation with the mean latency over {count}",
            told.join(", ")
        ),
    })
}

fn p_value(p: f64) -> String {
    if p < 0.001 { "p<0.001".to_owned() } else { format!("p={p:.3}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::PerTransaction;
    use crate::report::text::TextOptions;

    fn interval(second: u64, latency_ns: u64, osq: f64) -> Interval {
        let spin = BTreeMap::from([("osq".to_owned(), osq)]);
        Interval {
            start_ns: second * 1_000_000_000,
            duration_ns: 1_000_000_000,
            tps: 1e9 / latency_ns as f64,
            latency_ns: Some(latency_ns),
            per_transaction_ns: Some(PerTransaction { spin, ..PerTransaction::default() }),
            ..Interval::default()
        }
    }

    fn text(run: &Run) -> String {
        let mut page = Page::new(TextOptions::default());
        render(run, &mut page);
        page.finish()
    }

    #[test]
    fn the_slowest_interval_says_what_grew_and_who_worked() {
        let mut intervals: Vec<Interval> =
            (0..20).map(|second| interval(second, 50_000, 1_000.0)).collect();
        intervals[7] = interval(7, 90_000, 38_000.0);
        intervals[7].marks.push(Mark { kind: "checkpoint".to_owned(), busy_ns: 800_000_000 });
        let report = text(&Run { intervals, ..Run::new() });
        assert!(report.contains("20 intervals"), "{report}");
        let line = report.lines().find(|line| line.contains("7.0s")).unwrap();
        assert!(
            line.contains("spin.osq +37.0 us") && line.contains("checkpoint 800 ms"),
            "{report}"
        );
        let listed = report.lines().filter(|line| line.contains("50.0 us")).count();
        assert_eq!(listed, LISTED - 1);
    }

    #[test]
    fn one_interval_is_no_series() {
        assert_eq!(text(&Run { intervals: vec![interval(0, 1, 1.0)], ..Run::new() }), "");
    }

    #[test]
    fn weak_correlations_are_said_to_be_none() {
        let weak = |spearman| Correlation {
            state: "spin.rq".to_owned(),
            spearman,
            p_value: 0.4,
            intervals_count: 12,
        };
        assert!(correlations(&[weak(0.1)]).unwrap().starts_with("no state moves"));
        assert!(correlations(&[weak(-0.7)]).unwrap().contains("spin.rq -0.70 (p=0.400)"));
        assert_eq!(correlations(&[]), None);
    }
}
