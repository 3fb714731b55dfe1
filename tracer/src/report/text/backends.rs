//! One row a traced task; those not listed are summed by role.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::page::Page;
use super::table::{Column, Table, cell, share, shortened, time};
use crate::analyse::units::{count, duration, plural, rate};
use crate::model::{Backend, Run};

/// Rows of single tasks unless all are asked for.
const LISTED: usize = 10;
/// Columns of a role.
const ROLE_WIDTH: usize = 30;

pub(super) fn render(run: &Run, page: &mut Page) {
    if run.backends.is_empty() {
        return;
    }
    let mut tasks: Vec<&Backend> = run.backends.iter().collect();
    // Ties by pid: the same run always renders the same.
    tasks.sort_by_key(|task| (Reverse(lock_ns(task)), task.pid, task.tid));
    let listed = if page.options().all_backends { tasks.len() } else { tasks.len().min(LISTED) };
    page.heading("Traced tasks", &remark(run, listed));
    let mut table = Table::new(vec![
        Column::left("pid"),
        Column::left("role"),
        Column::right("tx"),
        Column::right("spin").group("ns/tx"),
        Column::right("sleep").group("ns/tx"),
        Column::right("spin").group("of wall"),
        Column::right("sleep").group("of wall"),
        Column::right("lock time").expendable(2),
        Column::right("irq spin").expendable(1),
    ]);
    let (single, summed) = tasks.split_at(listed);
    for task in single {
        table.row(row(task_id(task), &task.role, task));
    }
    let mut quiet = Vec::new();
    for (role, (number, sum)) in by_role(summed) {
        match lock_ns(&sum) {
            0 if number == 1 => quiet.push(role.to_owned()),
            0 => quiet.push(format!("{number} x {role}")),
            _ => table.row(row(format!("{number} more"), role, &sum)),
        }
    }
    page.table(&table);
    let mut remarks: Vec<String> = spread(run).into_iter().collect();
    if !quiet.is_empty() {
        remarks.push(format!("No lock wait: {}.", quiet.join(", ")));
    }
    if listed < tasks.len() {
        remarks.push("Every task: --all-backends.".to_owned());
    }
    page.paragraph(2, &remarks.join(" "));
}

fn lock_ns(task: &Backend) -> u64 {
    task.spin_ns + task.lock_sleep_ns + task.irq_ns
}

fn is_client_backend(task: &Backend) -> bool {
    task.side == "server" && task.role == "client backend"
}

/// The pid, the tid where it is another, and in brackets the pid by which a container knows it.
fn task_id(task: &Backend) -> String {
    let inner = task.inner_pid.map_or(String::new(), |pid| format!(" ({pid})"));
    match task.pid == task.tid {
        true => format!("{}{inner}", task.pid),
        false => format!("{}/{}{inner}", task.pid, task.tid),
    }
}

/// The sums of tasks with the same role, the roles in the order they come in.
fn by_role<'run>(tasks: &[&'run Backend]) -> Vec<(&'run str, (u64, Backend))> {
    let mut order: Vec<&str> = Vec::new();
    let mut sums: BTreeMap<&str, (u64, Backend)> = BTreeMap::new();
    for task in tasks {
        let (number, sum) = sums.entry(&task.role).or_insert_with(|| {
            order.push(&task.role);
            (0, Backend::default())
        });
        *number += 1;
        sum.wall_ns += task.wall_ns;
        sum.spin_ns += task.spin_ns;
        sum.lock_sleep_ns += task.lock_sleep_ns;
        sum.irq_ns += task.irq_ns;
        if let Some(transactions) = task.transactions_count {
            *sum.transactions_count.get_or_insert(0) += transactions;
        }
    }
    order.into_iter().filter_map(|role| Some((role, sums.remove(role)?))).collect()
}

/// How many there are of each kind.
fn remark(run: &Run, listed: usize) -> String {
    let (mut backends, mut servers, mut workers, mut others) = (0, 0, 0, 0);
    for task in &run.backends {
        match task.side.as_str() {
            _ if is_client_backend(task) => backends += 1,
            "client" => workers += 1,
            "server" => servers += 1,
            _ => others += 1,
        }
    }
    let kinds = [
        (backends, "client backend"),
        (servers, "other server task"),
        (workers, "load thread"),
        (others, "other traced task"),
    ];
    let kinds: Vec<String> = kinds
        .iter()
        .filter(|(number, _)| *number > 0)
        .map(|(number, noun)| plural(*number, noun))
        .collect();
    let order = match listed < run.backends.len() {
        true => format!("top {listed} by lock time"),
        false => "by lock time".to_owned(),
    };
    format!("{}; {order}", kinds.join(", "))
}

/// Whether all backends suffer alike.
fn spread(run: &Run) -> Option<String> {
    let mut values: Vec<f64> = run
        .backends
        .iter()
        .filter(|task| is_client_backend(task))
        .filter_map(|task| per_transaction(task, lock_ns(task)))
        .collect();
    values.sort_by(f64::total_cmp);
    let (least, most) = (values.first()?, values.last()?);
    if values.len() < 2 {
        return None;
    }
    let middle = values.len() / 2;
    let median = match values.len() % 2 {
        0 => (values[middle - 1] + values[middle]) / 2.0,
        _ => values[middle],
    };
    Some(format!(
        "Lock time a transaction over client backends: least {}, median {}, most {}.",
        duration(*least),
        duration(median),
        duration(*most)
    ))
}

fn per_transaction(task: &Backend, ns: u64) -> Option<f64> {
    let transactions = task.transactions_count.filter(|count| *count > 0)?;
    Some(ns as f64 / transactions as f64)
}

fn row(id: String, role: &str, task: &Backend) -> Vec<String> {
    let rate_of = |ns| cell(per_transaction(task, ns).map(rate));
    let of_wall =
        |ns: u64| cell((task.wall_ns > 0).then(|| share(ns as f64 / task.wall_ns as f64)));
    vec![
        id,
        shortened(role, ROLE_WIDTH),
        cell(task.transactions_count.map(count)),
        rate_of(task.spin_ns),
        rate_of(task.lock_sleep_ns),
        of_wall(task.spin_ns),
        of_wall(task.lock_sleep_ns),
        time(lock_ns(task) as f64),
        time(task.irq_ns as f64),
    ]
}
