//! The most contended locks and where they were taken.

use super::holders;
use super::page::Page;
use super::table::{Column, Table, time};
use crate::analyse::units::{count, percent, plural, short_count};
use crate::model::{Holds, Lock, Run};

/// Rows of the table.
const LISTED: usize = 10;
/// Of those, shown with their stacks.
const WITH_STACK: usize = 3;
/// Waiting tids named with a stack.
const TIDS: usize = 4;

pub(super) fn render(run: &Run, page: &mut Page) {
    if run.locks.is_empty() {
        return;
    }
    let shown = run.locks.len().min(LISTED);
    let remark = format!(
        "{shown} of {} by total wait; p99<= is a bucket's upper bound; by: what the name rests on",
        run.locks.len()
    );
    page.heading("Top locks", &remark);
    let mut table = Table::new(vec![
        Column::right("#"),
        Column::left("class"),
        Column::left("side"),
        Column::right("waits"),
        Column::right("total"),
        Column::right("mean").expendable(4),
        Column::right("p99<=").expendable(3),
        Column::right("max").expendable(1),
        Column::right("tids").expendable(5),
        Column::left("by").expendable(2),
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
        time(lock.total_ns as f64),
        time(lock.mean_ns as f64),
        time(lock.p99_ns as f64),
        time(lock.max_ns as f64),
        tids,
        lock.found_by.clone(),
        identity(lock),
    ]
}

/// The lock's name and its caller, once if they are the same.
fn identity(lock: &Lock) -> String {
    match &lock.caller {
        Some(caller) if !lock.name.contains(caller.as_str()) => {
            format!("{} <- {caller}", lock.name)
        }
        _ => lock.name.clone(),
    }
}

fn stacks(run: &Run, page: &mut Page) {
    let sampled: Vec<(usize, &Lock)> = run
        .locks
        .iter()
        .enumerate()
        .take(WITH_STACK)
        .filter(|(_, lock)| !lock.stack.is_empty() || lock.holds.is_some())
        .collect();
    if sampled.is_empty() {
        return;
    }
    page.heading(
        "Waiters and holders",
        "each lock's heaviest sampled stack, innermost first; shares are estimates from samples",
    );
    let mut told: Vec<(usize, &Holds)> = Vec::new();
    for (index, lock) in sampled {
        let first = format!("  {}  ", index + 1);
        page.hanging(&first, first.len(), &sample_line(lock));
        if !lock.stack.is_empty() {
            page.paragraph(first.len() + 2, &frames(&lock.stack).join(" <- "));
        }
        let Some(holds) = &lock.holds else { continue };
        let lines = match told.iter().find(|(_, of_another)| *of_another == holds) {
            // Rows of one lock have the same holders.
            Some((row, _)) => vec![format!("held as {row} is")],
            None => holders::lines(holds),
        };
        told.push((index + 1, holds));
        for line in lines {
            page.hanging(&" ".repeat(first.len()), first.len() + 2, &line);
        }
    }
}

/// The functions of the stack; offsets and the way into the kernel stay in the JSON.
pub(super) fn frames(stack: &[String]) -> Vec<&str> {
    const ENTRY: [&str; 4] = ["x64_sys_call", "do_syscall_64", "entry_SYSCALL_64", "el0_svc"];
    stack
        .iter()
        .map(|frame| frame.split_once('+').map_or(frame.as_str(), |(function, _)| function))
        .take_while(|function| !ENTRY.iter().any(|entry| function.starts_with(entry)))
        .collect()
}

/// `qspinlock inode.i_rwsem, server: 63 % of its wait, from 1,204 samples; tids …`.
fn sample_line(lock: &Lock) -> String {
    let mut text = format!("{} {}, {}", lock.class, lock.name, lock.side);
    if let Some(place) = &lock.found_in {
        text += &format!(" (by {} {place})", lock.found_by);
    }
    if lock.samples_count == 0 {
        return text;
    }
    text += ": ";
    if let Some(share) = lock.stack_share {
        text += &format!("~{} of its wait, ", percent(share));
    }
    text += &format!("from {}", plural(lock.samples_count, "sample"));
    if !lock.tids.is_empty() {
        let tids: Vec<String> = lock.tids.iter().take(TIDS).map(u32::to_string).collect();
        text += &format!("; tids {}", tids.join(" "));
        let more = lock.tids_count.saturating_sub(tids.len() as u64);
        if more > 0 {
            text += &format!(" + {more} more");
        }
    }
    text
}
