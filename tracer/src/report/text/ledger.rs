//! Nanoseconds per transaction by state, largest first, the sides apart.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use lockscope_ebpf::LockClass;

use super::page::Page;
use super::table::{Column, Table, cell, share, time};
use super::totals;
use crate::analyse::units::{plural, rate};
use crate::model::{Run, SideLedger};

pub(super) fn render(run: &Run, page: &mut Page) {
    let sides = Sides::of(run);
    if sides.all().next().is_none() {
        return;
    }
    if run.throughput.traced_transactions_count == 0 {
        return totals::render(run, page);
    }
    page.heading(
        "Nanoseconds per transaction",
        "means over the traced transactions; share = of the mean latency",
    );
    let mut table = Table::new(columns(&sides));
    let (rows, quiet) = sides.states();
    rows.iter().for_each(|state| table.row(state_row(run, &sides, state)));
    let lock_time = row(
        run,
        &sides,
        "all lock time",
        |side| Some(side.per_transaction_ns.lock_ns()),
        all_waits,
    );
    if sides.splits_all() {
        closing_rows(run, &sides, &mut table);
        table.row(lock_time);
    } else {
        table.rule();
        table.row(lock_time);
        closing_rows(run, &sides, &mut table);
    }
    page.table(&table);
    notes(&sides, &quiet, page);
}

/// A row: the state, and its class or kind.
type StateKey = (&'static str, Option<String>);

const SIDES: usize = 3;

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

    /// Whether all of the time is split, or only that of locks.
    fn splits_all(&self) -> bool {
        self.all().any(|side| side.per_transaction_ns.cpu.is_some())
    }

    /// The states that took time, largest first by the first side that was traced, and the lock
    /// classes that took none.
    fn states(&self) -> (Vec<StateKey>, Vec<String>) {
        let mut largest: BTreeMap<StateKey, Vec<f64>> = BTreeMap::new();
        for (index, side) in self.all().enumerate() {
            for (state, kind, ns) in side.per_transaction_ns.rows() {
                let key = (state, kind.map(str::to_owned));
                largest.entry(key).or_insert_with(|| vec![0.0; SIDES])[index] = ns;
            }
        }
        let (mut rows, rest): (Vec<_>, Vec<_>) =
            largest.into_iter().partition(|(_, ns)| ns.iter().any(|ns| *ns > 0.0));
        rows.sort_by(|(_, left), (_, right)| right.partial_cmp(left).unwrap_or(Ordering::Equal));
        let mut quiet: Vec<String> = rest
            .into_iter()
            .filter(|((state, _), _)| matches!(*state, "spin" | "lock_sleep"))
            .filter_map(|((_, kind), _)| kind)
            .collect();
        // In the classes' own order.
        quiet.sort_by_key(|kind| LockClass::ALL.iter().position(|class| class.name() == kind));
        (rows.into_iter().map(|(key, _)| key).collect(), quiet)
    }

    fn unmeasured(&self) -> Vec<&'static str> {
        let unmeasured =
            |class: &LockClass| self.all().all(|side| class_ns(side, *class).is_none());
        LockClass::ALL.into_iter().filter(unmeasured).map(LockClass::name).collect()
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

fn state_row(run: &Run, sides: &Sides<'_>, (state, kind): &StateKey) -> Vec<String> {
    let label = match (*state, kind.as_deref()) {
        ("irq", _) => "spin   in interrupts".to_owned(),
        ("idle_in_transaction", _) => "idle   in transaction".to_owned(),
        ("lock_sleep", Some(class)) => format!("sleep  {class}"),
        (state, Some(kind)) => format!("{state:<5}  {kind}"),
        (state, None) => state.to_owned(),
    };
    let is_lock = matches!(*state, "spin" | "lock_sleep");
    row(
        run,
        sides,
        &label,
        |side| ns_of(side, state, kind.as_deref()),
        |side| side.wait_counts.get(kind.as_deref().filter(|_| is_lock)?).copied(),
    )
}

fn ns_of(side: &SideLedger, state: &str, kind: Option<&str>) -> Option<f64> {
    let states = side.per_transaction_ns.rows();
    let found = states.into_iter().find(|(name, of, _)| *name == state && *of == kind);
    found.map(|(.., ns)| ns)
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
    run.traced_latency_ns()
}

/// The remainder and the sum, which only the server has.
fn closing_rows(run: &Run, sides: &Sides<'_>, table: &mut Table) {
    let Some(account) = sides.server.map(|side| &side.per_transaction_ns) else { return };
    let rest = match (account.client_and_transport, account.not_split) {
        (Some(ns), _) => ("client, transport", ns),
        (None, Some(ns)) => ("not yet split", ns),
        (None, None) => return,
    };
    let Some(mean) = mean(run) else { return };
    let transactions = run.throughput.traced_transactions_count as f64;
    let blank =
        1 + 4 + 3 * usize::from(sides.client.is_some()) + 2 * usize::from(sides.other.is_some());
    for (label, ns) in [rest, ("mean latency", mean)] {
        let mut cells = vec![
            label.to_owned(),
            rate(ns),
            share(ns / mean),
            String::new(),
            time(ns * transactions),
        ];
        cells.resize(blank, String::new());
        if label == "mean latency" && sides.splits_all() {
            table.rule();
        }
        table.row(cells);
    }
}

fn notes(sides: &Sides<'_>, quiet: &[String], page: &mut Page) {
    let unmeasured = sides.unmeasured();
    let mut sentences = Vec::new();
    if !quiet.is_empty() {
        sentences.push(format!("No wait in: {}.", quiet.join(", ")));
    }
    if !unmeasured.is_empty() {
        sentences.push(format!("Not measured here: {}.", unmeasured.join(", ")));
    }
    sentences.push(match sides.splits_all() {
        true => {
            "runq: runnable, waiting for a CPU; sleep: asleep in the slow path of a lock; wait: \
                 asleep otherwise, by Postgres's wait class."
                .to_owned()
        }
        false => "sleep: in the slow path of a sleeping lock, asleep or waiting to run.".to_owned(),
    });
    if let Some(side) = sides.server {
        let tasks = match side.tasks_count {
            0 => String::new(),
            count => format!(" ({})", plural(count, "task")),
        };
        sentences.push(format!(
            "server{tasks}: adds up to the mean latency of the traced transactions as clients saw it."
        ));
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
