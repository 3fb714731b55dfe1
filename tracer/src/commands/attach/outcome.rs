//! From an ended trace to its report.

use super::AttachError;
use super::client::Client;
use super::roles::Roles;
use super::view;
use crate::analyse::{client, warnings};
use crate::cli::AttachArgs;
use crate::commands::findings::{add_findings, narrow};
use crate::commands::output::{OutputFile, print_report, say_report};
use crate::filter::Filter;
use crate::kernel::environment;
use crate::load::server::{Sights, View};
use crate::load::{own_arguments, scrub_arguments};
use crate::model::{Interval, Run, Throughput, TracedServer, Warning, Workload};
use crate::report::{json, text};
use crate::session::Findings;

/// Everything about the trace but what was found.
pub(super) struct Outcome<'a> {
    pub(super) args: &'a AttachArgs,
    pub(super) started_at: String,
    pub(super) start_ns: u64,
    pub(super) duration_ns: u64,
    pub(super) steal_ns: Option<u64>,
    pub(super) interrupted: bool,
    pub(super) intervals: Vec<Interval>,
    pub(super) warnings: Vec<Warning>,
    pub(super) viewed: Option<(View, Sights)>,
    pub(super) filter: Filter,
    pub(super) roles: Roles,
}

/// Prints first: a full disk must not cost the report, nor a closed output the file.
pub(super) fn report(
    outcome: Outcome<'_>,
    findings: &Findings,
    client: &Client,
    output: Option<OutputFile>,
) -> Result<(), AttachError> {
    let args = outcome.args;
    let run = put_together(outcome, findings, client);
    let json = json::render(&run);
    let text = || text::render(&run, &args.tasks.text_options(&args.output.series.layout));
    let report = if args.output.json { json.clone() } else { text() };
    // Standard output is the command's.
    let printed = match args.client.is_empty() {
        true => print_report(&report),
        false => say_report(&report),
    };
    Ok(printed.and(output.map_or(Ok(()), |output| output.save(json.as_bytes())))?)
}

fn put_together(outcome: Outcome<'_>, findings: &Findings, client: &Client) -> Run {
    let roles = &outcome.roles;
    let mut run = Run {
        started_at: outcome.started_at,
        command: scrub_arguments(own_arguments()),
        interrupted: outcome.interrupted,
        environment: environment::describe(roles.data_directory()),
        workload: Workload {
            name: roles.title(),
            duration_ns: outcome.duration_ns,
            ..Workload::default()
        },
        intervals: outcome.intervals,
        warnings: outcome.warnings,
        ..Run::new()
    };
    run.environment.cpu.steal_ns = outcome.steal_ns;
    add_findings(&mut run, findings, outcome.start_ns);
    let told_count = findings.told().count;
    // A command's time begins with its first session: what it did before is no transaction's.
    let load_ns = match outcome.args.client.is_empty() {
        true => outcome.duration_ns,
        false => findings.load_ns().unwrap_or(outcome.duration_ns),
    };
    run.throughput = throughput(told_count, load_ns);
    for (index, interval) in run.intervals.iter_mut().enumerate() {
        interval.tps = per_second(findings.transactions_in(index), interval.duration_ns);
    }
    for task in &mut run.backends {
        task.inner_pid = roles.inner_pid(task.pid);
    }
    run.servers = servers(roles, findings, load_ns, &run.intervals);
    run.client_report = client.report(told_count);
    let others = roles.other_clients().len() as u64;
    let whole = !outcome.args.client.is_empty();
    let compared = client::compare(&mut run, client::Circumstances { whole, others });
    run.warnings.extend(compared);
    if let Some((view, sights)) = &outcome.viewed {
        view::add(&mut run, view, sights, outcome.args.view_interval, roles);
    }
    narrow(&mut run, &outcome.filter);
    let derived = warnings::derive(&run);
    run.warnings.extend(derived);
    run
}

/// Of several servers each has an account of its own.
fn servers(
    roles: &Roles,
    findings: &Findings,
    load_ns: u64,
    intervals: &[Interval],
) -> Vec<TracedServer> {
    let several = roles.servers().len() > 1;
    let described = |server: &super::server::Server| {
        let running = &server.running;
        let mut traced = TracedServer {
            postmaster: running.postmaster,
            inner_pid: roles.inner_pid(running.postmaster),
            port: running.port,
            data_directory: running.data_directory.display().to_string(),
            ..TracedServer::default()
        };
        if several {
            let (told, ledger) = findings.of_set(server.set);
            traced.throughput = Some(throughput(told.count, load_ns));
            traced.ledger = ledger;
            let own_intervals = intervals.iter().enumerate().map(|(index, interval)| {
                let count = findings.transactions_of_set_in(server.set, index);
                Interval {
                    start_ns: interval.start_ns,
                    duration_ns: interval.duration_ns,
                    tps: per_second(count, interval.duration_ns),
                    ..Interval::default()
                }
            });
            traced.intervals = own_intervals.collect();
        }
        traced
    };
    roles.servers().iter().map(described).collect()
}

fn throughput(count: u64, duration_ns: u64) -> Throughput {
    Throughput {
        tps: per_second(count, duration_ns),
        transactions_count: count,
        traced_transactions_count: count,
        ..Throughput::default()
    }
}

fn per_second(count: u64, duration_ns: u64) -> f64 {
    count as f64 * 1e9 / duration_ns.max(1) as f64
}
