//! One row a traced task.

use std::cmp::Reverse;

use super::page::Page;
use super::table::{Column, Table, shortened};
use crate::analyse::units::{count, duration, percent, plural, rate};
use crate::model::{Backend, Run};

/// Rows unless all are asked for.
const LISTED: usize = 10;
/// Columns of a role.
const ROLE_WIDTH: usize = 28;

pub(super) fn render(run: &Run, page: &mut Page) {
    if run.backends.is_empty() {
        return;
    }
    let mut tasks: Vec<&Backend> = run.backends.iter().collect();
    // Ties by pid: the same run always renders the same.
    tasks.sort_by_key(|task| (Reverse(lock_ns(task)), task.pid, task.tid));
    let listed = if page.options().all_backends { tasks.len() } else { tasks.len().min(LISTED) };
    page.heading("Traced tasks", &remark(run, listed));
    if let Some(text) = spread(run) {
        page.paragraph(2, &text);
    }
    let mut table = Table::new(vec![
        Column::right("pid"),
        Column::right("tid").expendable(3),
        Column::left("role"),
        Column::right("transactions"),
        Column::right("spin").group("ns/tx"),
        Column::right("sleep").group("ns/tx"),
        Column::right("spin").group("total").expendable(2),
        Column::right("sleep").group("total").expendable(2),
        Column::right("spin").group("of its wall time"),
        Column::right("sleep").group("of its wall time"),
        Column::right("irq spin").expendable(1),
    ]);
    for task in &tasks[..listed] {
        table.row(row(task));
    }
    page.table(&table);
    if listed < tasks.len() {
        page.line(&format!("  ... and {} more (--all-backends)", count((tasks.len() - listed) as u64)));
    }
}

fn lock_ns(task: &Backend) -> u64 {
    task.spin_ns + task.lock_sleep_ns + task.irq_ns
}

fn is_client_backend(task: &Backend) -> bool {
    task.side == "server" && task.role == "client backend"
}

/// How many there are of each kind.
fn remark(run: &Run, listed: usize) -> String {
    let (mut backends, mut others, mut workers) = (0, 0, 0);
    for task in &run.backends {
        match task.side.as_str() {
            _ if is_client_backend(task) => backends += 1,
            "client" => workers += 1,
            _ => others += 1,
        }
    }
    let kinds: Vec<String> =
        [(backends, "client backend"), (others, "other server task"), (workers, "load generator thread")]
            .iter()
            .filter(|(number, _)| *number > 0)
            .map(|(number, noun)| plural(*number, noun))
            .collect();
    let top = if listed < run.backends.len() { format!("; top {listed} by lock time") } else { "; by lock time".to_owned() };
    kinds.join(", ") + &top
}

/// Whether all backends suffer alike.
fn spread(run: &Run) -> Option<String> {
    let mut values: Vec<f64> = run
        .backends
        .iter()
        .filter(|task| is_client_backend(task))
        .filter_map(|task| per_transaction(task, lock_ns(task)))
        .collect();
    if values.len() < 2 {
        return None;
    }
    values.sort_by(f64::total_cmp);
    let (low, middle, high) = (values[0], values[values.len() / 2], values[values.len() - 1]);
    Some(format!(
        "Lock time a transaction over client backends: least {}, median {}, most {}.",
        duration(low),
        duration(middle),
        duration(high)
    ))
}

fn per_transaction(task: &Backend, ns: u64) -> Option<f64> {
    let transactions = task.transactions_count.filter(|count| *count > 0)?;
    Some(ns as f64 / transactions as f64)
}

fn row(task: &Backend) -> Vec<String> {
    let cell = |value: Option<String>| value.unwrap_or_else(|| "-".to_owned());
    let rate_of = |ns| cell(per_transaction(task, ns).map(rate));
    let share = |ns: u64| {
        cell((task.wall_ns > 0).then(|| percent(ns as f64 / task.wall_ns as f64)))
    };
    vec![
        task.pid.to_string(),
        task.tid.to_string(),
        shortened(&task.role, ROLE_WIDTH),
        cell(task.transactions_count.map(count)),
        rate_of(task.spin_ns),
        rate_of(task.lock_sleep_ns),
        duration(task.spin_ns as f64),
        duration(task.lock_sleep_ns as f64),
        share(task.spin_ns),
        share(task.lock_sleep_ns),
        duration(task.irq_ns as f64),
    ]
}
