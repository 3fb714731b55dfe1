//! Counters of the processor and the kernel as metrics, per transaction.

use super::sources::{Kind, Measured, whole};
use crate::counters::HardwareEvent;
use crate::model::{Run, SideCounters};

/// The sides that make transactions.
pub(super) const SIDES: [&str; 2] = ["server", "client"];

/// Counters of the kernel, and quotients.
const KERNEL: [&str; 7] = [
    "task-clock",
    "context-switches",
    "involuntary-switches",
    "minor-faults",
    "major-faults",
    "cpu-migrations",
    "ipc",
];

/// The names of all, whether a run has them or not.
pub(super) fn names() -> impl Iterator<Item = String> {
    let counters = || KERNEL.into_iter().chain(HardwareEvent::all().map(HardwareEvent::name));
    SIDES
        .into_iter()
        .flat_map(move |side| counters().map(move |name| format!("counters.{side}.{name}")))
}

/// The counters of server and client.
pub(super) fn counters(run: &Run) -> Vec<Measured> {
    let Some(counters) = &run.counters else { return Vec::new() };
    let transactions = run.throughput.transactions_count;
    let sides = SIDES.iter().filter_map(|side| Some((*side, counters.sides.get(*side)?)));
    // The kernel's counters are those of tasks that lived all the time: without any they say nothing.
    let counted = sides.filter(|(_, side)| transactions > 0 && side.tasks_count > 0);
    counted.flat_map(|(name, side)| of_side(name, side, transactions as f64)).collect()
}

fn of_side(name: &str, side: &SideCounters, transactions: f64) -> Vec<Measured> {
    let row = |counter: &str, kind: Kind, value: f64| {
        whole(format!("counters.{name}.{counter}"), format!("{name} {counter}"), kind, value)
    };
    let each = |count: u64| count as f64 / transactions;
    let mut rows = vec![
        row("task-clock", Kind::TIME, each(side.task_clock_ns)),
        row("context-switches", Kind::COUNT, each(side.context_switches_count)),
        row("involuntary-switches", Kind::COUNT, each(side.involuntary_switches_count)),
        row("minor-faults", Kind::COUNT, each(side.minor_faults_count)),
        row("major-faults", Kind::COUNT, each(side.major_faults_count)),
    ];
    rows.extend(side.migrations_count.map(|count| row("cpu-migrations", Kind::COUNT, each(count))));
    // Counted in windows: put on a transaction by the CPU time that it takes.
    let turns = side.events.iter().filter(|(_, event)| event.running_share > 0.0);
    rows.extend(turns.map(|(event, counted)| {
        row(event, Kind::COUNT, counted.per_cpu_ns * each(side.task_clock_ns))
    }));
    let ratio = side.instructions_per_cycle();
    rows.extend(ratio.map(|ratio| Measured {
        label: format!("{name} instructions a cycle"),
        ..row("ipc", Kind::COUNT, ratio)
    }));
    rows
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Counters, EventCount};

    #[test]
    fn counts_are_put_on_a_transaction() {
        let event = |per_cpu_ns, running_share| EventCount {
            count: (per_cpu_ns * 1e6) as u64,
            per_cpu_ns,
            running_share,
        };
        let server = SideCounters {
            tasks_count: 8,
            task_clock_ns: 500_000,
            context_switches_count: 30,
            migrations_count: Some(4),
            events: [("cycles", 2.0, 1.0), ("instructions", 1.5, 1.0), ("branches", 0.0, 0.0)]
                .map(|(name, rate, share)| (name.to_owned(), event(rate, share)))
                .into(),
            ..SideCounters::default()
        };
        let gone = SideCounters { task_clock_ns: 7, ..SideCounters::default() };
        let sides = [("server".to_owned(), server), ("client".to_owned(), gone)].into();
        let mut run = Run::new();
        run.counters = Some(Counters { sides, ..Counters::default() });
        assert!(counters(&run).is_empty(), "nothing to divide by");
        run.throughput.transactions_count = 10;
        let found: Vec<(String, f64)> =
            counters(&run).into_iter().map(|row| (row.metric, row.value)).collect();
        let expected = [
            ("task-clock", 50_000.0),
            ("context-switches", 3.0),
            ("involuntary-switches", 0.0),
            ("minor-faults", 0.0),
            ("major-faults", 0.0),
            ("cpu-migrations", 0.4),
            ("cycles", 100_000.0),
            ("instructions", 75_000.0),
            ("ipc", 0.75),
        ];
        assert_eq!(found, expected.map(|(name, value)| (format!("counters.server.{name}"), value)));
        assert!(found.iter().all(|(name, _)| names().any(|known| known == *name)));
    }
}
