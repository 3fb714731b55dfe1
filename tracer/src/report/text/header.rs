//! What was run, and the rates and latencies that clients saw.

use super::page::Page;
use crate::analyse::units::{chosen_duration, duration, percent, plural};
use crate::model::{self, Latency, Run, Throughput};

pub(super) fn render(run: &Run, page: &mut Page) {
    title_and_command(run, page);
    if run.workload.clients > 0 {
        throughput(run, page);
    } else if run.throughput.transactions_count > 0 {
        page.line("");
        let told = run.throughput.transactions_count;
        page.line(&format!("transactions told by the server's replies: {told}"));
        page.line(&format!("tps = {:.6}", run.throughput.tps));
    }
}

/// What it is, and by which command it was made.
pub(super) fn title_and_command(run: &Run, page: &mut Page) {
    page.hanging("", 2, &title(run));
    if !run.command.is_empty() {
        page.hanging("", 2, &format!("{}  $ {}", moment(&run.started_at), run.command.join(" ")));
    } else if !run.started_at.is_empty() {
        page.line(&moment(&run.started_at));
    }
    if !run.filters.is_empty() {
        page.hanging("", 2, &format!("narrowed to {}", run.filters.join("; ")));
    }
}

fn title(run: &Run) -> String {
    let workload = &run.workload;
    let mut parts = vec![workload.name.clone(), workload.protocol.clone()];
    if workload.clients > 0 {
        parts.push(plural(workload.clients.into(), "client"));
        parts.push(plural(workload.jobs.into(), "job"));
        parts.push(format!("scale {}", workload.scale));
    }
    let mut time = chosen_duration(workload.duration_ns);
    if workload.warmup_ns > 0 {
        time += &format!(" after {} of warm-up", chosen_duration(workload.warmup_ns));
    }
    if run.interrupted {
        time += " (INTERRUPTED)";
    }
    parts.push(time);
    parts.retain(|part| !part.is_empty());
    format!("lockscope {}: {}", run.lockscope_version, parts.join(", "))
}

/// `2026-10-11 09:14:03 UTC` from `2026-10-11T09:14:03.123Z`; anything else as it is.
pub(super) fn moment(started_at: &str) -> String {
    match started_at.parse::<jiff::Timestamp>() {
        Ok(time) => time.strftime("%F %T UTC").to_string(),
        Err(_) => started_at.to_owned(),
    }
}

/// The lines with `=` and `:` are pgbench's own, for scripts that look for them.
fn throughput(run: &Run, page: &mut Page) {
    let throughput = &run.throughput;
    page.line("");
    page.hanging("", 2, &transactions(throughput));
    if let Some(latency) = &run.latency_ns {
        page.line(&format!("latency average = {:.3} ms", latency.mean as f64 / 1e6));
        page.line(&format!("latency stddev = {:.3} ms", latency.stddev as f64 / 1e6));
        page.hanging("latency percentiles: ", 8, &percentiles(latency));
        if run.workload.clients == 0 {
            page.line("latency on the server's side: from the waking of a backend to its reply");
        }
    }
    page.line(&format!("tps = {:.6} (without initial connection time)", throughput.tps));
}

pub(super) fn percentiles(latency: &Latency) -> String {
    let named = model::percentiles(latency).into_iter();
    named.map(|(name, ns)| format!("{name} {}", duration(ns as f64))).collect::<Vec<_>>().join(", ")
}

fn transactions(throughput: &Throughput) -> String {
    let done = throughput.transactions_count;
    let failed = throughput.failed_count;
    let mut remarks = Vec::new();
    if throughput.traced_transactions_count > 0 {
        remarks.push(format!("{} of them traced", throughput.traced_transactions_count));
    }
    let share = percent(failed as f64 / (failed + done).max(1) as f64);
    remarks.push(if failed > 0 {
        format!("{failed} failed, {share}")
    } else {
        "0 failed".to_owned()
    });
    if throughput.aborted_clients_count > 0 {
        remarks.push(format!("{} gave up", plural(throughput.aborted_clients_count, "client")));
    }
    format!("number of transactions actually processed: {done} ({})", remarks.join("; "))
}
