//! Block plugs, by who flushed.

use super::page::Page;
use super::table::{Column, Table};
use crate::analyse::units::{count, duration, rate};
use crate::model::{Plug, PlugOwner, Run};

/// In the order of the table.
const OWNERS: [&str; 4] = ["server", "client", "kworker", "other"];

pub(super) fn render(run: &Run, page: &mut Page) {
    let Some(plug) = &run.plug else { return };
    page.heading("Block plugs", &remark(plug));
    if plug.by_owner.values().all(is_quiet) {
        page.line("  no plug was started or flushed");
        return;
    }
    let mut table = Table::new(vec![
        Column::left("owner"),
        Column::right("flushes/tx"),
        Column::right("flushes"),
        Column::right("empty"),
        Column::right("from sched"),
        Column::right("flush ns/tx"),
        Column::right("unplugs"),
        Column::right("implicit"),
        Column::right("requests"),
        Column::right("req/unplug"),
        Column::right("plugs").expendable(1),
    ]);
    for name in OWNERS {
        if let Some(owner) = plug.by_owner.get(name).filter(|owner| !is_quiet(owner)) {
            table.row(row(name, owner, run.throughput.traced_transactions_count));
        }
    }
    page.table(&table);
}

fn remark(plug: &Plug) -> String {
    let mut parts = Vec::new();
    if let Some(flushes) = plug.flushes_per_transaction {
        parts.push(format!("{} flushes a transaction", rate(flushes)));
    }
    if let Some(requests) = plug.requests_per_flush {
        parts.push(format!("{} requests a flush", rate(requests)));
    }
    if let Some(ns) = plug.flush_ns_per_transaction {
        parts.push(format!("{} a transaction in them", duration(ns)));
    }
    parts.push("whole machine".to_owned());
    parts.join(", ")
}

fn is_quiet(owner: &PlugOwner) -> bool {
    [owner.start_count, owner.plug_count, owner.unplug_count, owner.flush_count]
        .iter()
        .all(|value| value.unwrap_or(0) == 0)
}

fn row(name: &str, owner: &PlugOwner, transactions: u64) -> Vec<String> {
    let cell = |value: Option<String>| value.unwrap_or_else(|| "-".to_owned());
    let number = |value: Option<u64>| cell(value.map(count));
    let ratio = |value: Option<u64>, divisor: Option<u64>| {
        let divisor = divisor.filter(|divisor| *divisor > 0);
        cell(value.zip(divisor).map(|(value, divisor)| rate(value as f64 / divisor as f64)))
    };
    vec![
        name.to_owned(),
        ratio(owner.flush_count.or(owner.unplug_count), Some(transactions)),
        number(owner.flush_count),
        number(owner.empty_flush_count),
        number(owner.schedule_flush_count),
        ratio(owner.flush_ns, Some(transactions)),
        number(owner.unplug_count),
        number(owner.implicit_unplug_count),
        number(owner.requests_count),
        ratio(owner.requests_count, owner.unplug_count),
        number(owner.plug_count),
    ]
}
