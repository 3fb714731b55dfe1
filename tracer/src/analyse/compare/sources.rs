//! Where the rows come from: a group is a name and a function from a run to its metrics. A new kind of
//! metric is one more [`Source`].

use std::collections::BTreeMap;

use super::counters::counters;
use super::locks::locks;
use super::profile::{FUNCTIONS, functions, has_profile, overheads};
use crate::analyse::statistics::Series;
use crate::model::{Interval, Run, SideLedger, percentiles};

/// A metric of one run.
pub(super) struct Measured {
    /// Its name, the same in every run.
    pub(super) metric: String,
    pub(super) label: String,
    pub(super) kind: Kind,
    pub(super) value: f64,
    /// The same by interval; empty where the run has it as a whole only.
    pub(super) series: Series,
}

/// What a metric's values are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Kind {
    pub(super) unit: &'static str,
    pub(super) better: Better,
    /// Against what a change is weighed: itself, or the mean latency, of which it is a part.
    pub(super) of_latency: bool,
}

/// Which direction is an improvement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Better {
    Higher,
    Lower,
    Neither,
}

impl Kind {
    const RATE: Kind = Kind { unit: "per_second", better: Better::Higher, of_latency: false };
    const LATENCY: Kind = Kind { unit: "ns", better: Better::Lower, of_latency: false };
    pub(super) const TIME: Kind = Kind { unit: "ns", better: Better::Neither, of_latency: true };
    pub(super) const COUNT: Kind =
        Kind { unit: "count", better: Better::Neither, of_latency: false };
    pub(super) const SHARE: Kind =
        Kind { unit: "share", better: Better::Neither, of_latency: false };
}

/// A group of metrics.
pub(super) struct Source {
    pub(super) name: &'static str,
    pub(super) title: &'static str,
    /// Whether the rows are many and alike, so that some differ by chance.
    pub(super) corrected: bool,
    /// Whether the largest change comes first, not the source's own order.
    pub(super) by_change: bool,
    /// Whether a row needs both sides: what one of them cannot measure is no difference.
    pub(super) on_both: bool,
    /// Rows that are kept, those with most on either side: the rest is chance.
    pub(super) most: usize,
    /// Whether a metric that this run does not name was 0 there, not unmeasured.
    pub(super) absent_is_zero: fn(&Run) -> bool,
    pub(super) measure: fn(&Run) -> Vec<Measured>,
}

/// A group of parts that are many and alike.
const PARTS: Source = Source {
    name: "",
    title: "",
    corrected: true,
    by_change: true,
    on_both: false,
    most: usize::MAX,
    absent_is_zero: |_| false,
    measure: |_| Vec::new(),
};

/// All groups, in the order of the report.
pub(super) const SOURCES: &[Source] = &[
    Source {
        name: "throughput",
        title: "Throughput and latency",
        corrected: false,
        by_change: false,
        measure: throughput,
        ..PARTS
    },
    Source {
        name: "server",
        title: "Server: nanoseconds per transaction by state",
        measure: server,
        ..PARTS
    },
    Source {
        name: "client",
        title: "Client: nanoseconds per transaction by state",
        measure: client,
        ..PARTS
    },
    Source {
        name: "locks",
        title: "Locks: nanoseconds per transaction by lock and caller",
        absent_is_zero: |run| !run.depth.is_empty(),
        measure: locks,
        ..PARTS
    },
    Source { name: "plug", title: "Block plugs", by_change: false, measure: plug, ..PARTS },
    Source {
        name: "counters",
        title: "Counters per transaction",
        by_change: false,
        on_both: true,
        measure: counters,
        ..PARTS
    },
    Source {
        name: "profile",
        title: "Profile: nanoseconds on a CPU per transaction by function",
        on_both: true,
        most: FUNCTIONS,
        absent_is_zero: has_profile,
        measure: functions,
        ..PARTS
    },
    Source {
        name: "overhead",
        title: "Profile: share of the side's CPU time by function",
        on_both: true,
        most: FUNCTIONS,
        absent_is_zero: has_profile,
        measure: overheads,
        ..PARTS
    },
    Source {
        name: "cost",
        title: "Load generator and tracing",
        by_change: false,
        measure: cost,
        ..PARTS
    },
];

/// A metric without a series.
pub(super) fn whole(
    metric: impl Into<String>,
    label: impl Into<String>,
    kind: Kind,
    value: f64,
) -> Measured {
    let (metric, label) = (metric.into(), label.into());
    Measured { metric, label, kind, value, series: Series::default() }
}

fn throughput(run: &Run) -> Vec<Measured> {
    let mut rows = Vec::new();
    let tps = Series::new(run.intervals.iter().map(|i| (i.tps, i.duration_ns as f64)));
    rows.push(Measured { series: tps, ..whole("tps", "tps", Kind::RATE, run.throughput.tps) });
    if let Some(latency) = &run.latency_ns {
        let mean = whole("latency.mean", "latency mean", Kind::LATENCY, latency.mean as f64);
        rows.push(Measured { series: over_time(run, |i| i.latency_ns), ..mean });
        for (name, ns) in percentiles(latency) {
            let label = format!("latency {name}");
            let row = whole(format!("latency.{name}"), label, Kind::LATENCY, ns as f64);
            let series = match name {
                "p99" => over_time(run, |i| i.latency_p99_ns),
                _ => Series::default(),
            };
            rows.push(Measured { series, ..row });
        }
    }
    let counted = &run.throughput;
    let ended = counted.transactions_count + counted.failed_count;
    if ended > 0 {
        let share = counted.failed_count as f64 / ended as f64;
        rows.push(whole("failed", "failed, of all", Kind::SHARE, share));
    }
    rows
}

/// A value of every interval that has it, weighted with its transactions.
fn over_time(run: &Run, value: impl Fn(&Interval) -> Option<u64>) -> Series {
    let pairs = run.intervals.iter().filter_map(|i| Some((value(i)? as f64, transactions(i))));
    Series::new(pairs)
}

fn transactions(interval: &Interval) -> f64 {
    interval.tps * interval.duration_ns as f64 / 1e9
}

/// The server's states, the remainder and all lock time.
fn server(run: &Run) -> Vec<Measured> {
    let Some(side) = &run.ledger.server else { return Vec::new() };
    let intervals: Vec<(BTreeMap<String, f64>, f64)> = run
        .intervals
        .iter()
        .filter_map(|i| {
            let account = i.per_transaction_ns.as_ref()?;
            let mut states = account.states();
            states.insert("lock".to_owned(), account.lock_ns());
            states.extend(rest(account.client_and_transport, account.not_split));
            Some((states, transactions(i)))
        })
        .collect();
    side_states("server", side)
        .into_iter()
        .map(|(state, ns)| {
            let of = |states: &BTreeMap<String, f64>| states.get(&state).copied().unwrap_or(0.0);
            let series =
                Series::new(intervals.iter().map(|(states, weight)| (of(states), *weight)));
            Measured { series, ..state_row("server", &state, ns) }
        })
        .collect()
}

fn client(run: &Run) -> Vec<Measured> {
    let Some(side) = &run.ledger.client else { return Vec::new() };
    let states = side_states("client", side);
    states.into_iter().map(|(state, ns)| state_row("client", &state, ns)).collect()
}

fn side_states(side: &str, ledger: &SideLedger) -> BTreeMap<String, f64> {
    let account = &ledger.per_transaction_ns;
    let mut states = account.states();
    states.insert("lock".to_owned(), account.lock_ns());
    if side == "server" {
        states.extend(rest(account.client_and_transport, account.not_split));
    }
    states
}

fn rest(transport: Option<f64>, not_split: Option<f64>) -> Option<(String, f64)> {
    let transport = transport.map(|ns| ("client_and_transport".to_owned(), ns));
    transport.or(not_split.map(|ns| ("not_split".to_owned(), ns)))
}

fn state_row(side: &str, state: &str, ns: f64) -> Measured {
    whole(format!("{side}.{state}"), state_label(state), Kind::TIME, ns)
}

/// A state as the reports name it: `spin osq`, `sleep rwsem`.
pub(super) fn state_label(state: &str) -> String {
    match state {
        "irq" => "spin in interrupts".to_owned(),
        "idle_in_transaction" => "idle in transaction".to_owned(),
        "client_and_transport" => "client, transport".to_owned(),
        "not_split" => "not split".to_owned(),
        "lock" => "all lock time".to_owned(),
        _ => state.replacen("lock_sleep.", "sleep ", 1).replacen('.', " ", 1),
    }
}

fn plug(run: &Run) -> Vec<Measured> {
    let Some(plug) = &run.plug else { return Vec::new() };
    let named = [
        (
            "flushes_per_transaction",
            "flushes per transaction",
            Kind::COUNT,
            plug.flushes_per_transaction,
        ),
        ("requests_per_flush", "requests per flush", Kind::COUNT, plug.requests_per_flush),
        ("flush_ns_per_transaction", "time in flushes", Kind::TIME, plug.flush_ns_per_transaction),
    ];
    let whole_machine = named.into_iter().filter_map(|(name, label, kind, value)| {
        Some(whole(format!("plug.{name}"), label, kind, value?))
    });
    let traced = run.throughput.traced_transactions_count;
    let each = plug.by_owner.iter().filter_map(|(owner, counts)| {
        let unplugs = counts.unplug_count.filter(|unplugs| *unplugs > 0)?;
        let requests = counts.requests_count? as f64 / unplugs as f64;
        let label = format!("{owner}: requests per flush");
        Some(whole(format!("plug.{owner}.requests_per_flush"), label, Kind::COUNT, requests))
    });
    let by_owner = plug.by_owner.iter().flat_map(|(owner, counts)| {
        let counts = [
            ("unplugs", counts.unplug_count),
            ("requests", counts.requests_count),
            ("implicit_unplugs", counts.implicit_unplug_count),
            // Empty ones too: this is what a count of `__blk_flush_plug` by any other tool says.
            ("flush_calls", counts.flush_count),
        ];
        counts.into_iter().filter_map(move |(name, count)| {
            let per_transaction = count.filter(|_| traced > 0)? as f64 / traced as f64;
            let label = format!("{owner}: {} per transaction", name.replace('_', " "));
            Some(whole(format!("plug.{owner}.{name}"), label, Kind::COUNT, per_transaction))
        })
    });
    whole_machine.chain(by_owner).chain(each).collect()
}

fn cost(run: &Run) -> Vec<Measured> {
    let cost = &run.own_cost;
    let cpu = cost.load_cpu_ns_per_transaction.map(|ns| ns as f64);
    let named = [
        ("load.cpu", "load generator CPU per transaction", Kind::TIME, cpu),
        ("tracing.tps_ratio", "tps with tracing over without", Kind::SHARE, cost.tps_ratio),
    ];
    let row = |(name, label, kind, value): (&str, &str, Kind, Option<f64>)| {
        Some(whole(name, label, kind, value?))
    };
    named.into_iter().filter_map(row).collect()
}
