//! The load in the model's words.

use super::measure::Measurements;
use super::scripts::RunScript;
use super::settings::Settings;
use crate::analyse::units::percent;
use crate::cli::JobArgs;
use crate::load::CommandSum;
use crate::load::script::Command;
use crate::load::tally::Tally;
use crate::model::{self, Run, Warning};

/// A worker thread that is on a CPU for this share of the time has none left.
const BUSY_SHARE: f64 = 0.9;
/// A worker thread that waits for a CPU for this share of the time is held up.
const STARVED_SHARE: f64 = 0.25;

/// What was run, and what it met.
pub(super) fn load(args: &JobArgs, settings: &Settings, result: &Measurements) -> model::Load {
    let timing = &settings.timing;
    let measured = &result.measured;
    let (reconnecting_ns, reconnections) = result.reconnecting;
    let tls = (result.io != settings.io).then(|| "connections under TLS use epoll".to_owned());
    let throttled = timing.rate.is_some();
    model::Load {
        asked_duration_ns: settings.duration_ns,
        transactions_per_client: timing.transactions_per_client,
        rate: timing.rate,
        latency_limit_ns: timing.latency_limit_ns,
        think_ns: Some(timing.think_ns).filter(|ns| *ns > 0),
        ramp_ns: Some(timing.ramp_ns).filter(|ns| *ns > 0),
        max_tries: settings.failures.max_tries,
        reconnect: timing.reconnect,
        failures_detailed: args.load.failures_detailed,
        io: result.io.to_string(),
        io_reason: tls.or_else(|| settings.io_reason.clone()),
        random_seed: Some(args.load.random_seed),
        partitions: None,
        total: counts(&measured.total, throttled),
        scripts: scripts(settings, result, throttled),
        initial_connection_ns: (!timing.reconnect).then_some(result.connecting_ns),
        connection_mean_ns: reconnecting_ns.checked_div(reconnections),
        histogram: measured.histogram.clone(),
        workers: result
            .usage
            .iter()
            .map(|usage| model::LoadWorker {
                cpu_ns: usage.cpu_ns,
                run_queue_ns: usage.run_queue_ns,
                wall_ns: usage.wall_ns,
            })
            .collect(),
    }
}

fn scripts(settings: &Settings, result: &Measurements, throttled: bool) -> Vec<model::LoadScript> {
    let none = Tally::default();
    let of = |(index, script): (usize, &RunScript)| {
        let tally = result.measured.scripts.get(index).unwrap_or(&none);
        let sums = result.commands.as_ref().and_then(|sums| sums.0.get(index));
        model::LoadScript {
            name: script.description.clone(),
            weight: script.weight,
            counts: counts(tally, throttled),
            commands: sums.map(|sums| commands(script, sums)).unwrap_or_default(),
        }
    };
    settings.scripts.list.iter().enumerate().map(of).collect()
}

fn commands(script: &RunScript, sums: &[CommandSum]) -> Vec<model::LoadCommand> {
    let of = |(command, sum): (&Command, &CommandSum)| model::LoadCommand {
        text: command.title.clone(),
        count: sum.count,
        mean_ns: (sum.count > 0).then(|| sum.total_ns as f64 / sum.count as f64),
        failed_count: sum.failed_count,
        retries_count: sum.retries_count,
    };
    script.script.commands.iter().zip(sums).map(of).collect()
}

fn counts(tally: &Tally, throttled: bool) -> model::LoadCounts {
    let lag = throttled.then_some(tally.lag);
    model::LoadCounts {
        transactions_count: tally.committed_count(),
        failures: tally.failures.iter().map(|(state, count)| (state.to_string(), *count)).collect(),
        skipped_count: tally.skipped_count,
        late_count: tally.late_count,
        retried_count: tally.retried_count,
        retries_count: tally.retries_count,
        latency_mean_ns: tally.latency.mean(),
        latency_stddev_ns: tally.latency.stddev(),
        lag_mean_ns: lag.and_then(|lag| lag.mean()),
        lag_max_ns: lag.filter(|lag| lag.count > 0).map(|lag| lag.max),
    }
}

/// Whether the load generator itself set the pace, and by what one sees it.
pub(super) fn client_bottleneck(run: &Run) -> Option<Warning> {
    let load = run.load.as_ref()?;
    let busiest = load.workers.iter().max_by(|a, b| a.cpu_share().total_cmp(&b.cpu_share()))?;
    if busiest.cpu_share() >= BUSY_SHARE {
        let share = percent(busiest.cpu_share());
        let text = format!(
            "the client is the bottleneck: its busiest worker thread was on a CPU for {share} of the time, so the server could have done more"
        );
        let remedy = "use more worker threads (-j) on CPUs of their own (--pin-client), or another machine for the client";
        return Some(warning("client-bottleneck", text, remedy));
    }
    let starved =
        load.workers.iter().max_by(|a, b| a.run_queue_share().total_cmp(&b.run_queue_share()))?;
    if starved.run_queue_share() < STARVED_SHARE {
        return None;
    }
    let share = percent(starved.run_queue_share());
    let text = format!(
        "the client had to wait for CPUs: a worker thread was ready and did not run for {share} of the time, which is part of the latencies"
    );
    let remedy = "server and client share CPUs that are all busy: give the client CPUs of its own (--pin-client, --pin-server)";
    Some(warning("client-waits-for-cpu", text, remedy))
}

fn warning(code: &str, text: String, remedy: &str) -> Warning {
    Warning { code: code.to_owned(), text, remedy: Some(remedy.to_owned()) }
}
