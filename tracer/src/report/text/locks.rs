//! The most contended locks and where they were taken.

use super::page::Page;
use super::table::{Column, Table};
use crate::analyse::units::{count, duration, percent, plural, short_count};
use crate::model::{Lock, Run};

/// Rows of the table.
const LISTED: usize = 10;
/// Of those, shown with their stacks.
const WITH_STACK: usize = 3;

pub(super) fn render(run: &Run, page: &mut Page) {
    if run.locks.is_empty() {
        return;
    }
    let shown = run.locks.len().min(LISTED);
    let remark = format!(
        "{shown} of {}, by total wait; p99 is at most what is shown (a bucket's upper bound)",
        run.locks.len()
    );
    page.heading("Top locks", &remark);
    let mut table = Table::new(vec![
        Column::right("#"),
        Column::left("class"),
        Column::left("side"),
        Column::right("waits"),
        Column::right("total"),
        Column::right("mean"),
        Column::right("p99<="),
        Column::right("max"),
        Column::right("tids").expendable(1),
        Column::left("lock <- caller"),
    ]);
    for (index, lock) in run.locks.iter().take(LISTED).enumerate() {
        table.row(row(index + 1, lock));
    }
    page.table(&table);
    stacks(run, page);
}

fn row(number: usize, lock: &Lock) -> Vec<String> {
    let tids = if lock.samples_count > 0 { count(lock.tids_count) } else { "-".to_owned() };
    vec![
        number.to_string(),
        lock.class.clone(),
        lock.side.clone(),
        short_count(lock.count),
        duration(lock.total_ns as f64),
        duration(lock.mean_ns as f64),
        duration(lock.p99_ns as f64),
        duration(lock.max_ns as f64),
        tids,
        identity(lock),
    ]
}

/// The lock's name and its caller, once if they are the same.
fn identity(lock: &Lock) -> String {
    match &lock.caller {
        Some(caller) if !lock.name.contains(caller.as_str()) => format!("{} <- {caller}", lock.name),
        _ => lock.name.clone(),
    }
}

fn stacks(run: &Run, page: &mut Page) {
    let sampled: Vec<(usize, &Lock)> = run
        .locks
        .iter()
        .enumerate()
        .take(WITH_STACK)
        .filter(|(_, lock)| !lock.stack.is_empty())
        .collect();
    if sampled.is_empty() {
        return;
    }
    page.heading("Sampled stacks", "the heaviest of each lock; shares are estimates from samples");
    for (index, lock) in sampled {
        let first = format!("  {}  ", index + 1);
        page.hanging(&first, first.len(), &sample_line(lock));
        page.paragraph(first.len() + 2, &lock.stack.join(" <- "));
    }
}

/// `qspinlock inode.i_rwsem: 63 % of the waiting time, estimate from 1,204 samples; tids …`.
fn sample_line(lock: &Lock) -> String {
    let share = match lock.stack_share {
        Some(share) => format!("about {} of its waiting time, ", percent(share)),
        None => String::new(),
    };
    let mut text = format!(
        "{} {} ({}): {share}estimate from {}",
        lock.class,
        lock.name,
        lock.side,
        plural(lock.samples_count, "sample")
    );
    if !lock.tids.is_empty() {
        let tids: Vec<String> = lock.tids.iter().map(u32::to_string).collect();
        text += &format!("; tids {}", tids.join(" "));
        let more = lock.tids_count.saturating_sub(lock.tids.len() as u64);
        if more > 0 {
            text += &format!(" and {more} more");
        }
    }
    text
}
