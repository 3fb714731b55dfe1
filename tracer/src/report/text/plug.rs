//! Block plugs, by who flushed.

use super::page::Page;
use super::table::{Column, Table, cell, share};
use crate::analyse::units::{count, duration, rate};
use crate::model::{Plug, PlugOwner, Run};

/// In the order of the table.
const OWNERS: [&str; 4] = ["server", "client", "kworker", "other"];
/// Title above what the function probes count.
const FLUSHES: &str = "flush calls";
/// Title above what the tracepoints count.
const UNPLUGS: &str = "unplug events";

pub(super) fn render(run: &Run, page: &mut Page) {
    let Some(plug) = &run.plug else { return };
    page.heading("Block plugs", &remark(plug));
    let owners: Vec<(&str, &PlugOwner)> = OWNERS
        .iter()
        .filter_map(|name| Some((*name, plug.by_owner.get(*name)?)))
        .filter(|(_, owner)| !is_quiet(owner))
        .collect();
    if owners.is_empty() {
        page.line("  no plug was started or flushed");
        return;
    }
    // A probe that is not attached has no number for anybody: no column of dashes for it.
    let flushes = owners.iter().any(|(_, owner)| owner.flush_count.is_some());
    let unplugs = owners.iter().any(|(_, owner)| owner.unplug_count.is_some());
    let mut columns = vec![Column::left("owner")];
    if flushes {
        columns.extend([
            Column::right("calls").group(FLUSHES),
            Column::right("per tx").group(FLUSHES),
            Column::right("ns/tx").group(FLUSHES),
            Column::right("empty").group(FLUSHES),
            Column::right("by sched").group(FLUSHES).expendable(2),
        ]);
    }
    if unplugs {
        columns.extend([
            Column::right("events").group(UNPLUGS).expendable(1),
            Column::right("per tx").group(UNPLUGS),
            Column::right("requests").group(UNPLUGS).expendable(3),
            Column::right("req each").group(UNPLUGS),
            Column::right("implicit").group(UNPLUGS).expendable(4),
        ]);
    }
    let mut table = Table::new(columns);
    for (name, owner) in owners {
        let mut cells = vec![name.to_owned()];
        if flushes {
            cells.extend(flush_cells(owner, run.throughput.traced_transactions_count));
        }
        if unplugs {
            cells.extend(unplug_cells(owner, run.throughput.traced_transactions_count));
        }
        table.row(cells);
    }
    page.table(&table);
}

fn remark(plug: &Plug) -> String {
    let mut parts = Vec::new();
    if let Some(flushes) = plug.flushes_per_transaction {
        parts.push(format!("{} flushes a transaction", rate(flushes)));
    }
    if let Some(requests) = plug.requests_per_flush {
        parts.push(format!("{} requests each", rate(requests)));
    }
    if let Some(ns) = plug.flush_ns_per_transaction {
        parts.push(format!("{} a transaction", duration(ns)));
    }
    match parts.is_empty() {
        true => "machine-wide".to_owned(),
        false => format!("machine-wide: {}", parts.join(", ")),
    }
}

fn is_quiet(owner: &PlugOwner) -> bool {
    [owner.start_count, owner.plug_count, owner.unplug_count, owner.flush_count]
        .iter()
        .all(|value| value.unwrap_or(0) == 0)
}

/// A quotient, where both numbers are there and it has a meaning.
fn ratio(value: Option<u64>, divisor: Option<u64>) -> Option<f64> {
    let divisor = divisor.filter(|divisor| *divisor > 0)?;
    Some(value? as f64 / divisor as f64)
}

fn flush_cells(owner: &PlugOwner, transactions: u64) -> [String; 5] {
    let calls = owner.flush_count;
    [
        cell(calls.map(count)),
        cell(ratio(calls, Some(transactions)).map(rate)),
        cell(ratio(owner.flush_ns, Some(transactions)).map(rate)),
        cell(ratio(owner.empty_flush_count, calls).map(share)),
        cell(ratio(owner.schedule_flush_count, calls).map(share)),
    ]
}

fn unplug_cells(owner: &PlugOwner, transactions: u64) -> [String; 5] {
    let events = owner.unplug_count;
    [
        cell(events.map(count)),
        cell(ratio(events, Some(transactions)).map(rate)),
        cell(owner.requests_count.map(count)),
        cell(ratio(owner.requests_count, events).map(rate)),
        cell(ratio(owner.implicit_unplug_count, events).map(share)),
    ]
}
