//! Postgres's own view: what its sessions waited for, in which statements, beside the kernel's locks.

use super::page::Page;
use super::table::{Column, Table, share, shortened};
use crate::analyse::units::{count, duration, plural};
use crate::model::{Activity, PostgresView, Run};

const LISTED: usize = 8;
/// Columns of a statement.
const STATEMENT_WIDTH: usize = 60;

pub(super) fn render(run: &Run, page: &mut Page) {
    let Some(view) = &run.postgres_view else { return };
    let looks = plural(view.looks_count, "look");
    page.heading(
        "Postgres's view",
        &format!(
            "pg_stat_activity every {}, {looks}: active client sessions, lockscope's own left out",
            duration(view.period_ns as f64)
        ),
    );
    activity(view, page);
    statements(view, page);
    for lock in &view.locks {
        let text = format!(
            "those that waited for it were seen in {} ({} of {} active)",
            words(&lock.activity),
            count(lock.activity.seen_count),
            plural(lock.seen_count, "time")
        );
        page.hanging(&format!("  {} {}: ", lock.class, lock.name), 4, &text);
    }
}

fn activity(view: &PostgresView, page: &mut Page) {
    let all: u64 = view.activity.iter().map(|activity| activity.seen_count).sum();
    if all == 0 {
        return page.paragraph(2, "No session was seen active.");
    }
    let mut table = Table::new(vec![
        Column::left("wait event"),
        Column::left("query id"),
        Column::right("seen"),
        Column::right("share"),
    ]);
    for activity in view.activity.iter().take(LISTED) {
        table.row(vec![
            event(activity).to_owned(),
            activity.query_id.clone().unwrap_or_else(|| "-".to_owned()),
            count(activity.seen_count),
            share(activity.seen_count as f64 / all as f64),
        ]);
    }
    page.table(&table);
}

fn statements(view: &PostgresView, page: &mut Page) {
    if let Some(why) = &view.no_statements {
        return page.paragraph(2, &format!("No statements: {why}."));
    }
    let mut table = Table::new(vec![
        Column::left("query id"),
        Column::right("calls"),
        Column::right("mean"),
        Column::right("total"),
        Column::left("statement"),
    ]);
    for statement in view.statements.iter().take(LISTED) {
        let mean = statement.total_ns as f64 / statement.calls_count.max(1) as f64;
        table.row(vec![
            statement.query_id.clone(),
            count(statement.calls_count),
            duration(mean),
            duration(statement.total_ns as f64),
            shortened(&statement.query, STATEMENT_WIDTH),
        ]);
    }
    page.table(&table);
}

fn event(activity: &Activity) -> &str {
    activity.wait_event.as_deref().unwrap_or("(none: on a CPU, or in the kernel)")
}

fn words(activity: &Activity) -> String {
    let query = activity.query_id.as_ref().map_or(String::new(), |id| format!(", query {id}"));
    match &activity.wait_event {
        Some(event) => format!("{event}{query}"),
        None => format!("no wait event{query}"),
    }
}
