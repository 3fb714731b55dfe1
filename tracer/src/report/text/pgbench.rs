//! The report as pgbench prints it, line by line, for whoever greps it.
//!
//! Differences: the latency average is always measured (pgbench computes it from the run time unless
//! it measures for another reason), so its deviation is always there too; and the rate is that of the
//! measured part.

use super::page::Page;
use crate::model::{Load, LoadCommand, LoadCounts, LoadScript, Run};

const NS_PER_MS: f64 = 1e6;
const NS_PER_S: f64 = 1e9;

pub(super) fn render(run: &Run, page: &mut Page) {
    let Some(load) = &run.load else { return };
    page.line("");
    what(run, load, page);
    how_many(run, load, page);
    latency(run, load, page);
    rate(run, load, page);
    for (number, script) in (1..).zip(&load.scripts) {
        self::script(number, script, run, load, page);
    }
}

fn what(run: &Run, load: &Load, page: &mut Page) {
    let transaction_type = match &load.scripts[..] {
        [script] => script.name.as_str(),
        _ => "multiple scripts",
    };
    page.raw(&format!("transaction type: {transaction_type}"));
    page.line(&format!("scaling factor: {}", run.workload.scale));
    if let Some(partitions) = &load.partitions {
        page.line(&format!("partition method: {}", partitions.method));
        page.line(&format!("partitions: {}", partitions.count));
    }
    page.line(&format!("query mode: {}", run.workload.protocol));
    page.line(&format!("number of clients: {}", run.workload.clients));
    page.line(&format!("number of threads: {}", run.workload.jobs));
    if load.max_tries > 0 {
        page.line(&format!("maximum number of tries: {}", load.max_tries));
    }
}

fn how_many(run: &Run, load: &Load, page: &mut Page) {
    let done = load.total.transactions_count;
    if let Some(each) = load.transactions_per_client {
        let wanted = each * u64::from(run.workload.clients);
        page.line(&format!("number of transactions per client: {each}"));
        page.line(&format!("number of transactions actually processed: {done}/{wanted}"));
    } else {
        let asked = load.asked_duration_ns.unwrap_or(run.workload.duration_ns);
        page.line(&format!("duration: {} s", asked as f64 / NS_PER_S));
        page.line(&format!("number of transactions actually processed: {done}"));
    }
    failures("", &load.total, load, page);
    if load.rate.is_some() && load.latency_limit_ns.is_some() {
        page.line(&skipped("", &load.total));
    }
    if let Some(limit_ns) = load.latency_limit_ns {
        let late = load.total.late_count;
        page.line(&format!(
            "number of transactions above the {:.1} ms latency limit: {late}/{done} ({:.3}%)",
            limit_ns as f64 / NS_PER_MS,
            share(late, done),
        ));
    }
}

/// Failures and retries; scripts have the same lines, with a dash before them.
fn failures(dash: &str, counts: &LoadCounts, load: &Load, page: &mut Page) {
    let all = counts.all_count();
    let mut line = |what: &str, count: u64| {
        page.line(&format!("{dash}number of {what}: {count} ({:.3}%)", share(count, all)));
    };
    let (serialization, deadlock) = (counts.failed_with("40001"), counts.failed_with("40P01"));
    let failed = counts.failed_count();
    line("failed transactions", failed);
    if load.failures_detailed {
        line("serialization failures", serialization);
        line("deadlock failures", deadlock);
        let other = failed - serialization - deadlock;
        if other > 0 {
            line("other failures", other);
        }
    }
    if load.max_tries != 1 {
        line("transactions retried", counts.retried_count);
        page.line(&format!("{dash}total number of retries: {}", counts.retries_count));
    }
}

fn skipped(dash: &str, counts: &LoadCounts) -> String {
    let share = share(counts.skipped_count, counts.all_count());
    format!("{dash}number of transactions skipped: {} ({share:.3}%)", counts.skipped_count)
}

fn latency(run: &Run, load: &Load, page: &mut Page) {
    average("latency", &load.total, page);
    if load.rate.is_some()
        && let (Some(mean), Some(max)) = (load.total.lag_mean_ns, load.total.lag_max_ns)
    {
        let (mean, max) = (mean / NS_PER_MS, max / NS_PER_MS);
        page.line(&format!("rate limit schedule lag: avg {mean:.3} (max {max:.3}) ms"));
    }
    if run.load.is_none() {
        return;
    }
    let line =
        |name: &str, ns: u64| format!("{name} connection time = {:.3} ms", ns as f64 / NS_PER_MS);
    if let Some(ns) = load.connection_mean_ns {
        page.line(&line("average", ns));
    } else if let Some(ns) = load.initial_connection_ns {
        page.line(&line("initial", ns));
    }
}

fn average(what: &str, counts: &LoadCounts, page: &mut Page) {
    if let (Some(mean), Some(stddev)) = (counts.latency_mean_ns, counts.latency_stddev_ns) {
        page.line(&format!("{what} average = {:.3} ms", mean / NS_PER_MS));
        page.line(&format!("{what} stddev = {:.3} ms", stddev / NS_PER_MS));
    }
}

fn rate(run: &Run, load: &Load, page: &mut Page) {
    let connecting = if load.reconnect {
        "including reconnection times"
    } else {
        "without initial connection time"
    };
    page.line(&format!("tps = {:.6} ({connecting})", run.throughput.tps));
}

/// Several scripts have a block each; a single one only where its commands were measured.
fn script(number: u32, script: &LoadScript, run: &Run, load: &Load, page: &mut Page) {
    let several = load.scripts.len() > 1;
    let counts = &script.counts;
    if several {
        let weights: u64 = load.scripts.iter().map(|script| u64::from(script.weight)).sum();
        let seconds = (run.workload.duration_ns as f64 / NS_PER_S).max(f64::MIN_POSITIVE);
        page.raw(&format!("SQL script {number}: {}", script.name));
        page.line(&format!(
            " - weight: {} (targets {:.1}% of total)",
            script.weight,
            share(script.weight.into(), weights)
        ));
        page.line(&format!(
            " - {} transactions ({:.1}% of total, tps = {:.6})",
            counts.transactions_count,
            share(counts.transactions_count, load.total.transactions_count),
            counts.transactions_count as f64 / seconds,
        ));
        failures(" - ", counts, load, page);
        if load.rate.is_some() && load.latency_limit_ns.is_some() {
            page.line(&skipped(" - ", counts));
        }
        average(" - latency", counts, page);
    }
    if !script.commands.is_empty() {
        let dash = if several { " - " } else { "" };
        let what = if load.max_tries == 1 { " and failures" } else { ", failures and retries" };
        page.line(&format!("{dash}statement latencies in milliseconds{what}:"));
        script.commands.iter().for_each(|command| page.raw(&self::command(command, load)));
    }
}

fn command(command: &LoadCommand, load: &Load) -> String {
    let mean = command.mean_ns.unwrap_or_default() / NS_PER_MS;
    let retries =
        if load.max_tries == 1 { String::new() } else { format!(" {:>11}", command.retries_count) };
    format!("   {mean:11.3} {:>11}{retries}  {}", command.failed_count, command.text)
}

fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { 100.0 * part as f64 / whole as f64 }
}
