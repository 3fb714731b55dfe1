//! What was run, and the rates and latencies that clients saw.

use super::page::Page;
use crate::analyse::units::{count, duration, percent, plural};
use crate::model::{Run, Throughput};

pub(super) fn render(run: &Run, page: &mut Page) {
    page.hanging("", 2, &title(run));
    if !run.command.is_empty() {
        page.hanging("", 2, &format!("{}  $ {}", moment(&run.started_at), run.command.join(" ")));
    } else if !run.started_at.is_empty() {
        page.line(&moment(&run.started_at));
    }
    throughput(run, page);
}

fn title(run: &Run) -> String {
    let workload = &run.workload;
    let mut parts = vec![workload.name.clone(), workload.protocol.clone()];
    parts.push(plural(workload.clients.into(), "client"));
    parts.push(plural(workload.jobs.into(), "job"));
    parts.push(format!("scale {}", workload.scale));
    let mut time = duration(workload.duration_ns as f64);
    if workload.warmup_ns > 0 {
        time += &format!(" after {} of warm-up", duration(workload.warmup_ns as f64));
    }
    if run.interrupted {
        time += " (INTERRUPTED)";
    }
    parts.push(time);
    parts.retain(|part| !part.is_empty());
    format!("lockscope {}: {}", run.lockscope_version, parts.join(", "))
}

/// `2026-10-11 09:14:03 UTC` from `2026-10-11T09:14:03.123Z`; anything else as it is.
fn moment(started_at: &str) -> String {
    match started_at.parse::<jiff::Timestamp>() {
        Ok(time) => time.strftime("%F %T UTC").to_string(),
        Err(_) => started_at.to_owned(),
    }
}

/// The first words of these lines are pgbench's, for scripts that look for them.
fn throughput(run: &Run, page: &mut Page) {
    page.line("");
    let throughput = &run.throughput;
    page.line(&format!("tps = {:.6} (without initial connection time)", throughput.tps));
    page.hanging("", 2, &transactions(throughput));
    let Some(latency) = &run.latency_ns else { return };
    let rest: Vec<String> = [
        ("stddev", latency.stddev),
        ("p50", latency.p50),
        ("p90", latency.p90),
        ("p95", latency.p95),
        ("p99", latency.p99),
        ("p99.9", latency.p999),
        ("max", latency.max),
    ]
    .iter()
    .map(|(name, ns)| format!("{name} {}", duration(*ns as f64)))
    .collect();
    page.line(&format!("latency average = {:.3} ms", latency.mean as f64 / 1e6));
    page.hanging("latency ", 8, &rest.join(", "));
}

fn transactions(throughput: &Throughput) -> String {
    let done = throughput.transactions_count;
    let failed = throughput.failed_count;
    let mut text = format!("number of transactions actually processed: {done}");
    text += &format!("; failed: {failed}");
    if failed > 0 {
        let share = failed as f64 / (failed + done) as f64;
        text += &format!(" ({})", percent(share));
    }
    if throughput.aborted_clients_count > 0 {
        text += &format!("; clients given up: {}", throughput.aborted_clients_count);
    }
    if throughput.traced_transactions_count > 0 {
        text += &format!("; traced: {}", count(throughput.traced_transactions_count));
    }
    text
}
