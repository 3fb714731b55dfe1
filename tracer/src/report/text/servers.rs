//! Several servers in one trace: each with its own account.

use super::page::Page;
use super::table::{Column, Table, cell, share, time};
use crate::analyse::units::{count, duration, rate};
use crate::model::{Run, SideLedger, TracedServer};

/// States that are told of each.
const TOLD: usize = 6;

pub(super) fn render(run: &Run, page: &mut Page) {
    if run.servers.len() < 2 {
        return;
    }
    page.heading("The servers", "each by its own replies; all other tables are their sum");
    let mut table = Table::new(vec![
        Column::left("server"),
        Column::right("tx"),
        Column::right("tps"),
        Column::right("mean"),
        Column::right("slowest from").expendable(1),
        Column::right("lock ns/tx"),
    ]);
    for server in &run.servers {
        table.row(row(server));
    }
    page.table(&table);
    for server in &run.servers {
        states(server, page);
    }
}

fn name(server: &TracedServer) -> String {
    let port = server.port.map_or(String::new(), |port| format!("port {port}, "));
    let inner = server.inner_pid.map_or(String::new(), |pid| format!(" ({pid})"));
    format!("{port}pid {}{inner}", server.postmaster)
}

fn row(server: &TracedServer) -> Vec<String> {
    let throughput = server.throughput.as_ref();
    let ledger = server.ledger.as_ref();
    let mean = ledger.and_then(|ledger| ledger.latency_ns);
    let slowest = ledger.and_then(|ledger| ledger.by_latency.last());
    vec![
        name(server),
        cell(throughput.map(|throughput| count(throughput.transactions_count))),
        cell(throughput.map(|throughput| rate(throughput.tps))),
        cell(mean.map(time)),
        cell(slowest.map(|band| time(band.latency_from_ns as f64))),
        cell(ledger.filter(|_| mean.is_some()).map(|l| time(l.per_transaction_ns.lock_ns()))),
    ]
}

/// Its largest states, in one line.
fn states(server: &TracedServer, page: &mut Page) {
    let Some((ledger, mean)) = told(server) else { return };
    let mut states: Vec<(String, f64)> = ledger.per_transaction_ns.states().into_iter().collect();
    states.retain(|(_, ns)| *ns > 0.0);
    states.sort_by(|a, b| b.1.total_cmp(&a.1));
    let words = states.iter().take(TOLD);
    let words =
        words.map(|(state, ns)| format!("{state} {} ({})", duration(*ns), share(ns / mean)));
    let text = words.collect::<Vec<_>>().join(", ");
    let place = &server.data_directory;
    page.hanging(&format!("  {}: ", name(server)), 4, &format!("{text}; {place}"));
}

fn told(server: &TracedServer) -> Option<(&SideLedger, f64)> {
    let ledger = server.ledger.as_ref()?;
    Some((ledger, ledger.latency_ns.filter(|mean| *mean > 0.0)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{PerTransaction, Throughput};
    use crate::report::text::TextOptions;

    fn server(port: u16, count: u64, cpu: f64) -> TracedServer {
        TracedServer {
            postmaster: u32::from(port) * 2,
            port: Some(port),
            data_directory: format!("/data/{port}"),
            throughput: Some(Throughput { transactions_count: count, ..Throughput::default() }),
            ledger: Some(SideLedger {
                latency_ns: Some(2.0 * cpu),
                per_transaction_ns: PerTransaction { cpu: Some(cpu), ..PerTransaction::default() },
                ..SideLedger::default()
            }),
            ..TracedServer::default()
        }
    }

    fn text(servers: Vec<TracedServer>) -> String {
        let mut page = Page::new(TextOptions::default());
        render(&Run { servers, ..Run::new() }, &mut page);
        page.finish()
    }

    #[test]
    fn each_of_several_has_its_own_account() {
        let text = text(vec![server(5432, 4000, 50_000.0), server(5433, 7, 100_000.0)]);
        for expected in
            ["port 5432, pid 10864", "4,000", "100us", "200us", "cpu 50.0 us (50.0%); /data/5432"]
        {
            assert!(text.contains(expected), "no `{expected}`: {text}");
        }
    }

    #[test]
    fn one_is_the_whole_report() {
        assert_eq!(text(vec![server(5432, 1, 1.0)]), "");
    }
}
