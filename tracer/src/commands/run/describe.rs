//! A finished run in the model's words.

use super::measure::{Ended, LoadResult};
use super::settings::Settings;
use super::{Prepared, Server};
use crate::cli::RunArgs;
use crate::load::server::EmbeddedServer;
use crate::load::{AbortedClient, scrub_arguments};
use crate::model::{self, Run, SCHEMA_VERSION, Warning};

/// The run in the model's words.
pub(super) fn describe(
    args: &RunArgs,
    settings: &Settings,
    server: &Server,
    prepared: Prepared,
    result: &LoadResult,
) -> Run {
    let mut throughput = result.measured.throughput.clone();
    throughput.aborted_clients_count = result.aborted.len() as u64;
    let mut run = Run {
        schema_version: SCHEMA_VERSION,
        lockscope_version: env!("CARGO_PKG_VERSION").to_owned(),
        started_at: result.started_at.clone(),
        command: scrub_arguments(std::env::args()),
        interrupted: result.ended != Ended::AsPlanned,
        workload: model::Workload {
            name: settings.workload.name.to_owned(),
            protocol: settings.protocol.to_string(),
            clients: args.load.client,
            jobs: settings.jobs,
            scale: prepared.tables.scale,
            duration_ns: result.measured.duration_ns,
            warmup_ns: settings.warmup_ns,
            pin_server: args.load.pin_server.as_ref().map(ToString::to_string),
            pin_client: args.load.pin_client.as_ref().map(ToString::to_string),
        },
        latency_ns: result.measured.latency.clone(),
        intervals: result.measured.intervals.clone(),
        warnings: warnings(args, &prepared, result),
        ..Run::default()
    };
    run.own_cost.load_cpu_ns_per_transaction =
        result.worker_cpu_ns.checked_div(throughput.transactions_count);
    run.throughput = throughput;
    let mut postgres = prepared.postgres;
    for (name, value) in server.embedded.iter().flat_map(EmbeddedServer::settings) {
        postgres.settings.insert((*name).to_owned(), value.clone());
    }
    run.environment.postgres = Some(postgres);
    run
}

fn warnings(args: &RunArgs, prepared: &Prepared, result: &LoadResult) -> Vec<Warning> {
    let mut warnings = Vec::new();
    let mut warn = |code: &str, text: String, remedy: &str| {
        warnings.push(Warning { code: code.to_owned(), text, remedy: Some(remedy.to_owned()) });
    };
    if !args.no_trace {
        let text = "nothing was traced: this build measures the load only".to_owned();
        warn("not-traced", text, "say --no-trace to run without this warning");
    }
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
