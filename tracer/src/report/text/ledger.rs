//! Nanoseconds per transaction by lock class, the sides apart.

use lockscope_ebpf::LockClass;

use super::page::Page;
use super::table::{Column, Table, cell, share, time};
use crate::analyse::units::{plural, rate};
use crate::model::{Run, SideLedger};

pub(super) fn render(run: &Run, page: &mut Page) {
    let sides = Sides::of(run);
    if sides.all().next().is_none() {
        return;
    }
    if run.throughput.traced_transactions_count == 0 {
        page.heading("Nanoseconds per transaction", "not measured: no traced transaction");
        return;
    }
    page.heading(
        "Nanoseconds per transaction",
        "means over the traced transactions; share = of the mean latency",
    );
    let mut table = Table::new(columns(&sides));
    let (mut quiet, mut unmeasured) = (Vec::new(), Vec::new());
    for class in LockClass::ALL {
        match sides.all().filter_map(|side| class_ns(side, class)).reduce(f64::max) {
            None => unmeasured.push(class.name()),
            Some(0.0) => quiet.push(class.name()),
            Some(_) => table.row(class_row(run, &sides, class)),
        }
    }
    if sides.all().any(|side| side.per_transaction_ns.irq.is_some_and(|ns| ns > 0.0)) {
        table.row(row(
            run,
            &sides,
            "spin   in interrupts",
            |side| side.per_transaction_ns.irq,
            |_| None,
        ));
    }
    table.rule();
    table.row(row(
        run,
        &sides,
        "all lock time",
        |side| Some(side.per_transaction_ns.lock_ns()),
        all_waits,
    ));
    closing_rows(run, &sides, &mut table);
    page.table(&table);
    notes(&sides, &quiet, &unmeasured, page);
}

/// The sides that were traced.
struct Sides<'run> {
    server: Option<&'run SideLedger>,
    client: Option<&'run SideLedger>,
    other: Option<&'run SideLedger>,
}

impl<'run> Sides<'run> {
    fn of(run: &'run Run) -> Sides<'run> {
        let ledger = &run.ledger;
        Sides {
            server: ledger.server.as_ref(),
            client: ledger.client.as_ref(),
            other: ledger.other.as_ref(),
        }
    }

    fn all(&self) -> impl Iterator<Item = &'run SideLedger> {
        [self.server, self.client, self.other].into_iter().flatten()
    }
}

fn columns(sides: &Sides<'_>) -> Vec<Column> {
    let mut columns = vec![Column::left("state  lock class")];
    if sides.server.is_some() {
        columns.extend([
            Column::right("ns/tx").group("server"),
            Column::right("share").group("server"),
            Column::right("waits/tx").group("server"),
            Column::right("total").group("server").expendable(2),
        ]);
    }
    if sides.client.is_some() {
        columns.extend([
            Column::right("ns/tx").group("client"),
            Column::right("waits/tx").group("client"),
            Column::right("total").group("client").expendable(3),
        ]);
    }
    if sides.other.is_some() {
        columns.extend([
            Column::right("ns/tx").group("other").expendable(1),
            Column::right("total").group("other").expendable(4),
        ]);
    }
    columns
}

fn class_ns(side: &SideLedger, class: LockClass) -> Option<f64> {
    let account = &side.per_transaction_ns;
    let classes = if class.is_spin() { &account.spin } else { &account.lock_sleep };
    classes.get(class.name()).copied()
}

fn class_row(run: &Run, sides: &Sides<'_>, class: LockClass) -> Vec<String> {
    let state = if class.is_spin() { "spin " } else { "sleep" };
    let label = format!("{state}  {}", class.name());
    row(
        run,
        sides,
        &label,
        |side| class_ns(side, class),
        |side| side.wait_counts.get(class.name()).copied(),
    )
}

fn all_waits(side: &SideLedger) -> Option<u64> {
    (!side.wait_counts.is_empty()).then(|| side.wait_counts.values().sum())
}

fn row(
    run: &Run,
    sides: &Sides<'_>,
    label: &str,
    ns: impl Fn(&SideLedger) -> Option<f64>,
    waits: impl Fn(&SideLedger) -> Option<u64>,
) -> Vec<String> {
    let transactions = run.throughput.traced_transactions_count as f64;
    let per_transaction = |side: &SideLedger| cell(ns(side).map(rate));
    let waits =
        |side: &SideLedger| cell(waits(side).map(|count| rate(count as f64 / transactions)));
    let total = |side: &SideLedger| cell(ns(side).map(|ns| time(ns * transactions)));
    let part = |side: &SideLedger| cell(ns(side).and_then(|ns| Some(share(ns / mean(run)?))));
    let mut cells = vec![label.to_owned()];
    if let Some(side) = sides.server {
        cells.extend([per_transaction(side), part(side), waits(side), total(side)]);
    }
    if let Some(side) = sides.client {
        cells.extend([per_transaction(side), waits(side), total(side)]);
    }
    if let Some(side) = sides.other {
        cells.extend([per_transaction(side), total(side)]);
    }
    cells
}

fn mean(run: &Run) -> Option<f64> {
    run.latency_ns.as_ref().map(|latency| latency.mean as f64).filter(|mean| *mean > 0.0)
}

/// The remainder and the sum, which only the server has.
fn closing_rows(run: &Run, sides: &Sides<'_>, table: &mut Table) {
    let Some(not_split) = sides.server.and_then(|side| side.per_transaction_ns.not_split) else {
        return;
    };
    let Some(mean) = mean(run) else { return };
    let transactions = run.throughput.traced_transactions_count as f64;
    let blank =
        1 + 4 + 3 * usize::from(sides.client.is_some()) + 2 * usize::from(sides.other.is_some());
    for (label, ns) in [("not yet split", not_split), ("mean latency", mean)] {
        let mut cells = vec![
            label.to_owned(),
            rate(ns),
            share(ns / mean),
            String::new(),
            time(ns * transactions),
        ];
        cells.resize(blank, String::new());
        table.row(cells);
    }
}

fn notes(sides: &Sides<'_>, quiet: &[&str], unmeasured: &[&str], page: &mut Page) {
    let mut sentences = Vec::new();
    if !quiet.is_empty() {
        sentences.push(format!("No wait in: {}.", quiet.join(", ")));
    }
    if !unmeasured.is_empty() {
        sentences.push(format!("Not measured here: {}.", unmeasured.join(", ")));
    }
    sentences
        .push("sleep: in the slow path of a sleeping lock, asleep or waiting to run.".to_owned());
    if let Some(side) = sides.server {
        let tasks = match side.tasks_count {
            0 => String::new(),
            count => format!(" ({})", plural(count, "task")),
        };
        sentences.push(format!("server{tasks}: adds up to the mean latency as clients saw it."));
    }
    match (sides.client.is_some(), sides.other.is_some()) {
        (true, true) => sentences.push(
            "client: the load generator's own time, other: the rest of the machine; neither is part of that sum."
                .to_owned(),
        ),
        (true, false) => {
            sentences.push("client: the load generator's own time, no part of that sum.".to_owned());
        }
        (false, _) => {}
    }
    page.paragraph(2, &sentences.join(" "));
}
