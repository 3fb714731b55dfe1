//! What pgbench does not tell of a load: percentiles, how latencies are spread, failures by their
//! SQLSTATE, and what the client itself used.

use super::header::percentiles;
use super::histogram;
use super::page::Page;
use crate::analyse::units::{duration, percent, plural};
use crate::model::{Load, Run};

pub(super) fn render(run: &Run, page: &mut Page) {
    let Some(load) = &run.load else { return };
    let traced = !run.depth.is_empty();
    if !traced {
        if let Some(latency) = &run.latency_ns {
            page.hanging("latency percentiles: ", 8, &percentiles(latency));
        }
        histogram::render(&load.histogram, page);
    }
    page.heading("Load", "");
    page.labelled("arrivals", &arrivals(load));
    if load.total.failed_count() > 0 {
        page.labelled("failures", &failures(load));
    }
    page.labelled("client", &client(run, load));
}

/// The most misread thing about a load generator.
fn arrivals(load: &Load) -> String {
    let mut text = match load.rate {
        Some(rate) => format!(
            "open loop: {rate} transactions a second were due at irregular times; latency counts from when each was due"
        ),
        None => "closed loop: each client begins a transaction when its last has ended, so a slow \
                 server is asked less, and latencies do not hold the waiting that users would have; -R sets a rate"
            .to_owned(),
    };
    if let Some(think_ns) = load.think_ns {
        text += &format!("; {} of thinking in between", duration(think_ns as f64));
    }
    if let Some(ramp_ns) = load.ramp_ns {
        text += &format!("; clients began in the course of {}", duration(ramp_ns as f64));
    }
    text
}

fn failures(load: &Load) -> String {
    let by_state = load.total.failures.iter();
    let texts = by_state.map(|(state, count)| format!("{state} {}{count}", meaning(state)));
    texts.collect::<Vec<_>>().join(", ")
}

fn meaning(sqlstate: &str) -> &'static str {
    match sqlstate {
        "40001" => "(serialization failure) ",
        "40P01" => "(deadlock) ",
        "57014" => "(cancelled, or statement_timeout) ",
        "55P03" => "(lock not available) ",
        "23505" => "(unique violation) ",
        "25P03" => "(idle-in-transaction timeout) ",
        _ => "",
    }
}

fn client(run: &Run, load: &Load) -> String {
    let mut parts = Vec::new();
    if let Some(ns) = run.own_cost.load_cpu_ns_per_transaction {
        parts.push(format!("{} of CPU time a transaction", duration(ns as f64)));
    }
    let driver = match load.io.as_str() {
        "uring" => "io_uring",
        other => other,
    };
    match &load.io_reason {
        Some(reason) => parts.push(format!("sockets driven by {driver} ({reason})")),
        None => parts.push(format!("sockets driven by {driver}")),
    }
    let busiest = load.workers.iter().max_by(|a, b| a.cpu_share().total_cmp(&b.cpu_share()));
    if let Some(worker) = busiest {
        parts.push(format!(
            "busiest of {}: on a CPU {} of the time, waiting for one {}",
            plural(load.workers.len() as u64, "worker thread"),
            percent(worker.cpu_share()),
            percent(worker.run_queue_share()),
        ));
    }
    parts.join("; ")
}
