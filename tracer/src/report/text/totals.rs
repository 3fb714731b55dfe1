//! Time by state where no transaction was counted: totals, and their share of the tasks' time.

use std::collections::BTreeMap;

use super::page::Page;
use super::table::{Column, Table, cell, share, time};
use crate::analyse::units::{chosen_duration, count, plural};
use crate::model::{Run, SideLedger};

pub(super) fn render(run: &Run, page: &mut Page) {
    let ledger = &run.ledger;
    let sides: Vec<(&'static str, &SideLedger)> = [
        ("backends", ledger.server.as_ref()),
        ("server's rest", ledger.background.as_ref()),
        ("client", ledger.client.as_ref()),
        ("other", ledger.other.as_ref()),
    ]
    .into_iter()
    .filter_map(|(name, side)| Some((name, side?)))
    .filter(|(_, side)| side.tasks_count > 0 || side.wait_counts.values().any(|n| *n > 0))
    .collect();
    let duration = chosen_duration(run.workload.duration_ns);
    page.heading(
        "Time by state",
        &format!("over {duration}; no transaction was counted, so nothing is per transaction"),
    );
    if sides.is_empty() {
        page.line("  no wait for a kernel lock, and no task of one's own account");
        return;
    }
    let mut columns = vec![Column::left("state")];
    for (name, side) in &sides {
        columns.push(Column::right("total").group(name));
        if side.wall_ns.is_some() {
            columns.push(Column::right("of wall").group(name));
        }
        columns.push(Column::right("waits").group(name).expendable(1));
    }
    let mut table = Table::new(columns);
    for state in states(&sides) {
        let mut cells = vec![state.clone()];
        for (_, side) in &sides {
            let ns = totals(side).get(&state).copied();
            cells.push(cell(ns.map(|ns| time(ns as f64))));
            if let Some(wall_ns) = side.wall_ns {
                cells.push(cell(ns.map(|ns| share(ns as f64 / wall_ns.max(1) as f64))));
            }
            let class = state.split_once('.').map_or("", |(_, class)| class);
            cells.push(cell(side.wait_counts.get(class).map(|waits| count(*waits))));
        }
        table.row(cells);
    }
    page.table(&table);
    page.paragraph(2, &remark(&sides));
}

/// By state where the clocks are kept, by lock class alone elsewhere.
fn totals(side: &SideLedger) -> BTreeMap<String, u64> {
    if !side.states_ns.is_empty() {
        return side.states_ns.clone();
    }
    let state = |class: &String| match lockscope_ebpf::LockClass::ALL
        .iter()
        .any(|known| known.name() == class && known.is_spin())
    {
        true => format!("spin.{class}"),
        false => format!("lock_sleep.{class}"),
    };
    side.waits_ns.iter().map(|(class, ns)| (state(class), *ns)).collect()
}

/// Those that took time, largest first.
fn states(sides: &[(&str, &SideLedger)]) -> Vec<String> {
    let mut sums: BTreeMap<String, u64> = BTreeMap::new();
    for (_, side) in sides {
        for (state, ns) in totals(side) {
            *sums.entry(state).or_default() += ns;
        }
    }
    let mut found: Vec<(String, u64)> = sums.into_iter().filter(|(_, ns)| *ns > 0).collect();
    found.sort_by(|(left, a), (right, b)| b.cmp(a).then_with(|| left.cmp(right)));
    found.into_iter().map(|(state, _)| state).collect()
}

fn remark(sides: &[(&str, &SideLedger)]) -> String {
    let described = sides.iter().map(|(name, side)| match side.tasks_count {
        0 => {
            format!("{name}: every task without an account of its own, whose waits alone are known")
        }
        tasks => format!("{name}: {}", plural(tasks, "task")),
    });
    format!("{}.", described.collect::<Vec<_>>().join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::text::TextOptions;

    fn map(entries: &[(&str, u64)]) -> BTreeMap<String, u64> {
        entries.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect()
    }

    #[test]
    fn totals_come_largest_first_with_their_share_of_the_wall_time() {
        let mut run = Run::new();
        run.workload.duration_ns = 10_000_000_000;
        run.ledger.server = Some(SideLedger {
            tasks_count: 2,
            wall_ns: Some(20_000_000_000),
            states_ns: map(&[("cpu", 5_000_000_000), ("spin.osq", 1_000_000_000), ("io", 0)]),
            wait_counts: map(&[("osq", 12)]),
            ..SideLedger::default()
        });
        run.ledger.other = Some(SideLedger {
            wait_counts: map(&[("rwsem", 3)]),
            waits_ns: map(&[("rwsem", 7_000)]),
            ..SideLedger::default()
        });
        let mut page = Page::new(TextOptions::default());
        render(&run, &mut page);
        let text = page.finish();
        let line = |state: &str| text.lines().position(|line| line.contains(state)).unwrap();
        assert!(line("cpu") < line("spin.osq") && line("spin.osq") < line("lock_sleep.rwsem"));
        assert!(text.contains("25.0%") && text.contains("5.0%"), "{text}");
        assert!(!text.contains(" io "), "{text}");
        assert!(text.contains("backends: 2 tasks"), "{text}");
    }
}
