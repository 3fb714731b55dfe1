//! The run in the model's words: load, findings and surroundings put together.

use std::path::Path;

use super::load_part::{client_bottleneck, load};
use super::measure::{Ended, Measurements};
use super::settings::Settings;
use super::stage::{Prepared, Server};
use crate::analyse::units;
use crate::analyse::warnings;
use crate::cli::JobArgs;
use crate::commands::findings::{add_findings, narrow};
use crate::kernel::environment;
use crate::load::server::EmbeddedServer;
use crate::load::{AbortedClient, cpu_per_transaction_ns, own_arguments, scrub_arguments};
use crate::model::{self, Run, Warning};

/// Transactions that outlast a run by less are no stall.
const STALL_NS: u64 = 10_000_000;

/// Puts the run together.
pub(super) fn describe(
    args: &JobArgs,
    settings: &Settings,
    server: &Server,
    prepared: &Prepared,
    result: &Measurements,
) -> Run {
    let data_directory = prepared.postgres.data_directory.as_deref().map(Path::new);
    let mut run = Run {
        started_at: result.started_at.clone(),
        command: scrub_arguments(own_arguments()),
        interrupted: result.ended != Ended::AsPlanned,
        environment: environment::describe(data_directory),
        workload: workload(args, settings, prepared, result),
        throughput: result.measured.throughput.clone(),
        latency_ns: result.measured.latency.clone(),
        intervals: result.measured.intervals.clone(),
        load: Some(load(args, settings, result)),
        warnings: load_warnings(args, prepared, result),
        ..Run::new()
    };
    run.throughput.aborted_clients_count = result.aborted.len() as u64;
    run.environment.cpu.steal_ns = result.steal_ns;
    let mut postgres = prepared.postgres.clone();
    for (name, value) in server.embedded.iter().flat_map(EmbeddedServer::settings) {
        postgres.settings.insert((*name).to_owned(), value.clone());
    }
    run.environment.postgres = Some(postgres);
    let traced = &result.traced;
    if let Some(findings) = &traced.findings {
        add_findings(&mut run, findings, result.start_ns);
        narrow(&mut run, &traced.filter);
    }
    run.own_cost.load_cpu_ns_per_transaction =
        cpu_per_transaction_ns(&result.usage, run.throughput.tps);
    run.warnings.extend(client_bottleneck(&run));
    run.warnings.extend(traced.warnings.iter().chain(&result.log_warnings).cloned());
    let mut derived = warnings::derive(&run);
    // Who measures the load alone knows that it is alone.
    derived.retain(|warning| settings.is_traced || warning.code != "not-traced");
    run.warnings.extend(derived);
    run
}

fn workload(
    args: &JobArgs,
    settings: &Settings,
    prepared: &Prepared,
    result: &Measurements,
) -> model::Workload {
    model::Workload {
        name: settings.scripts.name(),
        protocol: settings.scripts.protocol.to_string(),
        clients: args.load.client,
        jobs: settings.jobs,
        scale: prepared.tables.scale,
        duration_ns: result.measured.duration_ns,
        warmup_ns: settings.warmup_ns,
        pin_server: args.load.pin_server.as_ref().map(ToString::to_string),
        pin_client: args.load.pin_client.as_ref().map(ToString::to_string),
    }
}

fn load_warnings(args: &JobArgs, prepared: &Prepared, result: &Measurements) -> Vec<Warning> {
    let mut warnings = Vec::new();
    let mut warn = |code: &str, text: String, remedy: &str| {
        warnings.push(Warning { code: code.to_owned(), text, remedy: Some(remedy.to_owned()) });
    };
    if let Some(wanted) = args.tables.scale.filter(|wanted| *wanted != prepared.tables.scale) {
        let scale = prepared.tables.scale;
        let text = format!("-s {wanted} was not used: the tables have scale {scale}");
        warn("scale-ignored", text, "leave --no-init away to make tables of another scale");
    }
    if result.ended == Ended::Interrupted {
        let seconds = result.measured.duration_ns as f64 / 1e9;
        let text = format!("the run was interrupted after {seconds:.1} s of the measured part");
        warn("interrupted", text, "the numbers are those of the time that was measured");
    }
    if result.cancelled_count > 0 {
        let count = units::plural(result.cancelled_count as u64, "transaction");
        let text = format!("{count} under way when the run was interrupted had to be cancelled");
        warn(
            "cancelled-at-end",
            text,
            "look for what blocked them (pg_stat_activity); they are in no number",
        );
    }
    if result.ended == Ended::OneAborted {
        let seconds = result.measured.duration_ns as f64 / 1e9;
        let text = format!(
            "a client gave up after {seconds:.1} s of the measured part, which --exit-on-abort made its end"
        );
        warn("interrupted", text, "the numbers are those up to then");
    }
    if result.ended == Ended::ClientsGone {
        let seconds = result.measured.duration_ns as f64 / 1e9;
        let text = format!("no client was left after {seconds:.1} s of the measured part");
        warn("interrupted", text, "the numbers are those up to the last transaction");
    }
    let (late, longest) = (result.measured.late, result.measured.latency.as_ref());
    // Every client has one under way; one that outlasts all that were measured is a stall.
    if late.longest_ns > STALL_NS && longest.is_none_or(|latency| late.longest_ns > latency.max) {
        let text = format!(
            "{} under way at the end took up to {}, longer than any that is counted: latency and tps \
             do not hold that stall",
            units::plural(late.count, "transaction"),
            units::duration(late.longest_ns as f64)
        );
        warn(
            "stalled-at-end",
            text,
            "look for what blocked them (pg_stat_activity); run longer (-T)",
        );
    }
    if !result.aborted.is_empty() {
        let text = abort_text(&result.aborted, args.load.client);
        warn(
            "clients-aborted",
            text,
            "look into the server's log; fewer clients than asked for made the load",
        );
    }
    warnings
}

/// How many clients gave up, and the distinct reasons.
pub(super) fn abort_text(aborted: &[AbortedClient], clients: u32) -> String {
    let mut reasons: Vec<String> = aborted.iter().map(|client| client.reason.to_string()).collect();
    reasons.sort();
    reasons.dedup();
    format!("{} of {clients} clients gave up: {}", aborted.len(), reasons.join("; "))
}
