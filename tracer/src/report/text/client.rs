//! What the benchmark says of itself, beside what the server's replies told.

use super::page::Page;
use super::table::{Column, Table, cell};
use crate::analyse::client::left_out;
use crate::analyse::units::{count, duration, rate};
use crate::model::{ClientInterval, ClientReport, Run};

/// Lines that are listed; of more, those that differ most.
const LISTED: usize = 8;

pub(super) fn render(run: &Run, page: &mut Page) {
    let Some(report) = &run.client_report else { return };
    let who = report.program.as_deref().unwrap_or("the benchmark");
    page.heading(
        "In the client's own words",
        &format!("{who}; beside it what the server's replies told"),
    );
    if report.transactions_count.is_some() {
        page.labelled("counted", &transactions(report));
    }
    if let Some(tps) = report.tps {
        let left_out = left_out(report).map_or(String::new(), |words| format!(", {words}"));
        page.labelled(
            "tps",
            &format!("{}{left_out}; by the replies {}", rate(tps), rate(run.throughput.tps)),
        );
    }
    if let Some(ns) = report.latency_ns {
        page.labelled(
            "latency",
            &format!("{} on average, the client and the way included", duration(ns as f64)),
        );
    }
    if let Some(why) = &report.explanation {
        page.labelled("they differ", &format!("{why}."));
    }
    intervals(report, page);
}

fn transactions(report: &ClientReport) -> String {
    let own = report.transactions_count.unwrap_or(0);
    let told = report.told_count;
    let agree = if own == told { "the same number" } else { "not the same number" };
    let failed = match report.failed_count {
        Some(failed) if failed > 0 => format!(" and {} failed", count(failed)),
        _ => String::new(),
    };
    format!("{}{failed}; by the replies {}: {agree}", count(own), count(told))
}

fn intervals(report: &ClientReport, page: &mut Page) {
    if report.intervals.is_empty() {
        return;
    }
    let mut listed: Vec<&ClientInterval> = report.intervals.iter().collect();
    listed.sort_by(|a, b| difference(b).abs().total_cmp(&difference(a).abs()));
    listed.truncate(LISTED);
    listed.sort_by_key(|interval| interval.at_ns);
    let mut table = Table::new(vec![
        Column::right("at"),
        Column::right("its tps"),
        Column::right("by replies"),
        Column::right("differs"),
        Column::right("its latency"),
    ]);
    for interval in listed {
        table.row(vec![
            format!("{:.1}s", interval.at_ns as f64 / 1e9),
            rate(interval.tps),
            rate(interval.told_tps),
            format!("{:+.1}%", 100.0 * difference(interval)),
            cell(interval.latency_ns.map(|ns| duration(ns as f64))),
        ]);
    }
    page.table(&table);
    if report.intervals.len() > LISTED {
        let all = report.intervals.len();
        page.paragraph(2, &format!("Of {all} progress lines, the {LISTED} that differ most."));
    }
}

fn difference(interval: &ClientInterval) -> f64 {
    if interval.tps > 0.0 { interval.told_tps / interval.tps - 1.0 } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::text::TextOptions;

    fn text(report: ClientReport) -> String {
        let mut run = Run { client_report: Some(report), ..Run::new() };
        run.throughput.tps = 940.5;
        let mut page = Page::new(TextOptions::default());
        render(&run, &mut page);
        page.finish()
    }

    #[test]
    fn its_words_stand_beside_ours() {
        let interval = |at_s: u64, tps, told_tps| ClientInterval {
            at_ns: at_s * 1_000_000_000,
            tps,
            told_tps,
            ..ClientInterval::default()
        };
        let text = text(ClientReport {
            program: Some("pgbench 15.8".to_owned()),
            transactions_count: Some(3000),
            tps: Some(1000.0),
            connecting_ns: Some(5_100_000),
            told_count: 3000,
            intervals: vec![interval(1, 1000.0, 990.0), interval(2, 0.0, 0.0)],
            ..ClientReport::default()
        });
        for expected in [
            "pgbench 15.8; beside it",
            "3,000; by the replies 3,000: the same number",
            "without 5.10 ms of connecting; by the replies 941",
            "-1.0%",
        ] {
            assert!(text.contains(expected), "no `{expected}`: {text}");
        }
    }

    #[test]
    fn of_many_lines_those_that_differ_are_listed() {
        let interval = |at_s: u64| ClientInterval {
            at_ns: at_s * 1_000_000_000,
            tps: 100.0,
            told_tps: if at_s == 30 { 50.0 } else { 100.0 },
            ..ClientInterval::default()
        };
        let intervals = (1..=60).map(interval).collect();
        let text = text(ClientReport { intervals, ..ClientReport::default() });
        assert!(text.contains("-50.0%") && text.contains("Of 60 progress lines"), "{text}");
        assert!(text.lines().count() < 16, "{text}");
    }
}
