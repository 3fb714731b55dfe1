//! Counters by side: by transaction and by second.

use super::page::Page;
use super::table::{Column, Table, share};
use crate::analyse::units::{duration, plural, rate, short_count};
use crate::model::{Counters, CpuSpeed, MissingEvent, Run, SideCounters};

const SIDES: [&str; 4] = ["server", "background", "client", "other"];
/// Pairs of events whose quotient is looked at, and its name.
const QUOTIENTS: [(&str, &str, &str); 4] = [
    ("branch-misses", "branches", "of the branches"),
    ("L1-dcache-load-misses", "L1-dcache-loads", "of the loads"),
    ("LLC-load-misses", "LLC-loads", "of the LLC loads"),
    ("instructions", "cycles", "a cycle"),
];

pub(super) fn render(run: &Run, page: &mut Page) {
    let Some(counters) = &run.counters else { return };
    page.heading("Counters", "the kernel's own, of the tasks that lived all the time");
    let mut table = Table::new(vec![
        Column::left("side"),
        Column::left("counter"),
        Column::right("per tx"),
        Column::right("per second"),
        Column::left(""),
    ]);
    let sides = SIDES.iter().filter_map(|side| Some((*side, counters.sides.get(*side)?)));
    for (index, (name, side)) in sides.filter(|(_, side)| side.tasks_count > 0).enumerate() {
        if index > 0 {
            table.rule();
        }
        own_rows(&mut table, run, name, side);
        hardware_rows(&mut table, run, name, side);
    }
    page.table(&table);
    for (reason, names) in by_reason(&counters.missing) {
        page.labelled("not counted", &format!("{}: {reason}", names.join(", ")));
    }
    if counters.failed_count > 0 {
        let failed = plural(counters.failed_count, "task");
        page.labelled("lost", &format!("{failed} could not be counted in a window"));
    }
    if let Some(text) = speeds(counters) {
        page.labelled("CPU speed", &text);
    }
}

fn own_rows(table: &mut Table, run: &Run, name: &str, side: &SideCounters) {
    let seconds = run.workload.duration_ns as f64 / 1e9;
    let transactions = run.throughput.transactions_count;
    let mut row = |counter: &str, value: u64, note: String, is_time: bool| {
        let text = |value: f64| if is_time { duration(value) } else { number(value) };
        let per_tx = match transactions {
            0 => "-".to_owned(),
            count => text(value as f64 / count as f64),
        };
        let per_second = text(value as f64 / seconds.max(f64::MIN_POSITIVE));
        table.row(vec![name.to_owned(), counter.to_owned(), per_tx, per_second, note]);
    };
    let of_all = |part: u64, all: u64| share(part as f64 / all.max(1) as f64);
    let switches = side.context_switches_count;
    let cpus = side.task_clock_ns as f64 / 1e9 / seconds.max(f64::MIN_POSITIVE);
    row("task-clock", side.task_clock_ns, format!("{} CPUs used", rate(cpus)), true);
    let involuntary = of_all(side.involuntary_switches_count, switches);
    row("context-switches", switches, format!("{involuntary} involuntary"), false);
    if let Some(migrations) = side.migrations_count {
        row("cpu-migrations", migrations, String::new(), false);
    }
    let faults = side.minor_faults_count + side.major_faults_count;
    let major = of_all(side.major_faults_count, faults);
    row("page-faults", faults, format!("{major} with I/O"), false);
}

/// Counted in windows: put on a transaction, and on a second, by the CPU time that those took.
fn hardware_rows(table: &mut Table, run: &Run, name: &str, side: &SideCounters) {
    let seconds = run.workload.duration_ns as f64 / 1e9;
    for (event, counted) in &side.events {
        if counted.running_share == 0.0 {
            continue;
        }
        let all = counted.per_cpu_ns * side.task_clock_ns as f64;
        let per_tx = match run.throughput.transactions_count {
            0 => "-".to_owned(),
            count => number(all / count as f64),
        };
        let quotient = QUOTIENTS.iter().find(|(of, ..)| of == event);
        let quotient = quotient.and_then(|(of, by, word)| Some((side.ratio(of, by)?, *word)));
        let mut notes: Vec<String> = quotient
            .map(|(value, word)| match word {
                "a cycle" => format!("{} {word}", rate(value)),
                _ => format!("{} {word}", share(value)),
            })
            .into_iter()
            .collect();
        if counted.running_share < 0.995 {
            notes.push(format!("counted {} of the time, scaled", share(counted.running_share)));
        }
        let per_second = number(all / seconds.max(f64::MIN_POSITIVE));
        table.row(vec![name.to_owned(), event.clone(), per_tx, per_second, notes.join("; ")]);
    }
}

/// Events come in billions.
fn number(value: f64) -> String {
    if value < 1e6 { rate(value) } else { short_count(value as u64) }
}

/// Events that are missing for one reason are told together.
fn by_reason(missing: &[MissingEvent]) -> Vec<(&str, Vec<&str>)> {
    let mut reasons: Vec<(&str, Vec<&str>)> = Vec::new();
    for event in missing {
        match reasons.iter_mut().find(|(reason, _)| *reason == event.reason) {
            Some((_, names)) => names.push(&event.name),
            None => reasons.push((&event.reason, vec![&event.name])),
        }
    }
    reasons
}

fn speeds(counters: &Counters) -> Option<String> {
    let (begin, end) = (speed(&counters.speed_at_begin), speed(&counters.speed_at_end));
    match (begin, end) {
        (Some(begin), Some(end)) if begin == end => Some(format!("{begin}, at begin and end")),
        (begin, end) => {
            let begin = begin.map(|text| format!("{text} at the begin"));
            let end = end.map(|text| format!("{text} at the end"));
            let parts: Vec<String> = begin.into_iter().chain(end).collect();
            (!parts.is_empty()).then(|| parts.join("; "))
        }
    }
}

fn speed(speed: &CpuSpeed) -> Option<String> {
    let mhz = |khz: u64| (khz as f64 / 1e3).round();
    let mut parts = Vec::new();
    if let (Some(lowest), Some(highest)) = (speed.lowest_khz, speed.highest_khz) {
        parts.push(match mhz(lowest) == mhz(highest) {
            true => format!("{} MHz", mhz(lowest)),
            false => format!("{} to {} MHz", mhz(lowest), mhz(highest)),
        });
    }
    parts.extend(speed.governor.as_ref().map(|governor| format!("governor {governor}")));
    parts.extend(speed.boost.map(|on| format!("boost {}", if on { "on" } else { "off" })));
    (!parts.is_empty()).then(|| parts.join(", "))
}
