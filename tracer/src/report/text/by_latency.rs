//! Where the transactions of each latency spent their time: the median's beside the slowest.

use super::page::Page;
use super::table::{Column, Table, cell};
use crate::analyse::units::{duration, plural, rate, significant};
use crate::model::{LatencyBand, PerTransaction, Run, SideLedger};

/// A state gets a row if it has this share of some band's latency.
const WORTH_A_ROW: f64 = 0.01;

pub(super) fn render(run: &Run, page: &mut Page) {
    let Some(server) = &run.ledger.server else { return };
    let (Some(transactions), Some(mean_ns)) = (server.transactions_count, server.latency_ns) else {
        return;
    };
    let remark = format!(
        "server side, from the waking of the backend to its reply sent; {}",
        plural(transactions, "transaction")
    );
    page.heading("Nanoseconds per transaction by latency", &remark);
    let mut columns = vec![Column::left("state"), Column::right("mean")];
    columns.extend(server.by_latency.iter().map(|band| Column::right(title(band))));
    let mut table = Table::new(columns);
    for (state, kind) in rows(server) {
        let mut cells = vec![label(state, kind.as_deref())];
        let ns = |account: &PerTransaction| cell(ns_of(account, state, kind.as_deref()).map(rate));
        cells.push(ns(&server.per_transaction_ns));
        cells.extend(server.by_latency.iter().map(|band| ns(&band.per_transaction_ns)));
        table.row(cells);
    }
    table.rule();
    table.row(row("latency", rate(mean_ns), server, |band| rate(band.latency_ns)));
    table.row(row("from", String::new(), server, |band| duration(band.latency_from_ns as f64)));
    table.row(row("to", String::new(), server, |band| duration(band.latency_to_ns as f64)));
    table
        .row(row("covers from %", "0".to_owned(), server, |band| percentile(band.percentile_from)));
    table.row(row("to %", "100".to_owned(), server, |band| percentile(band.percentile_to)));
    page.table(&table);
    page.paragraph(2, &note(server));
}

fn row(
    label: &str,
    mean: String,
    server: &SideLedger,
    of: impl Fn(&LatencyBand) -> String,
) -> Vec<String> {
    let first = [label.to_owned(), mean];
    first.into_iter().chain(server.by_latency.iter().map(of)).collect()
}

fn title(band: &LatencyBand) -> &'static str {
    match band.name.as_str() {
        "p50" => "p50",
        "p90" => "p90",
        "p99" => "p99",
        "p99.9" => "p99.9",
        _ => "slowest",
    }
}

/// States that matter in the mean or in some band, most first in the slowest band.
fn rows(server: &SideLedger) -> Vec<(&'static str, Option<String>)> {
    let bands = server.by_latency.iter().map(|band| (&band.per_transaction_ns, band.latency_ns));
    let all = [(&server.per_transaction_ns, server.latency_ns.unwrap_or(0.0))];
    let accounts: Vec<_> = bands.chain(all).collect();
    let mut states: Vec<(&'static str, Option<String>)> = Vec::new();
    for (account, latency_ns) in &accounts {
        for (state, kind, ns) in account.rows() {
            let key = (state, kind.map(str::to_owned));
            if ns >= WORTH_A_ROW * latency_ns && ns > 0.0 && !states.contains(&key) {
                states.push(key);
            }
        }
    }
    let slowest = server.by_latency.last().map(|band| &band.per_transaction_ns);
    let weight = |(state, kind): &(&'static str, Option<String>)| {
        slowest.and_then(|account| ns_of(account, state, kind.as_deref())).unwrap_or(0.0)
    };
    states.sort_by(|left, right| weight(right).total_cmp(&weight(left)));
    states
}

fn ns_of(account: &PerTransaction, state: &str, kind: Option<&str>) -> Option<f64> {
    let rows = account.rows();
    rows.into_iter().find(|(name, of, _)| *name == state && *of == kind).map(|(.., ns)| ns)
}

fn label(state: &str, kind: Option<&str>) -> String {
    match (state, kind) {
        ("lock_sleep", Some(class)) => format!("sleep  {class}"),
        ("irq", _) => "spin   in interrupts".to_owned(),
        ("idle_in_transaction", _) => "idle   in transaction".to_owned(),
        (state, Some(kind)) => format!("{state:<5}  {kind}"),
        (state, None) => state.to_owned(),
    }
}

/// Near 100 what is left to it matters.
fn percentile(value: f64) -> String {
    match value {
        value if value > 99.0 && value < 100.0 => format!("{value:.2}"),
        value => significant(value),
    }
}

fn note(server: &SideLedger) -> String {
    let mut note =
        "Each column is the whole bucket of latencies (a quarter of a power of two) that \
                    holds its percentile, the last one the buckets of the slowest 1 %; what they \
                    really cover stands below. States under 1 % of every column are left out."
            .to_owned();
    if server.by_latency.len() < 5 {
        note.push_str(" Percentiles in the bucket of a lower one, or of too few transactions, have no column.");
    }
    note
}
