//! `lockscope attach`: traces what others run.

mod roles;

use std::time::Duration;

use lockscope_ebpf::Side;
use roles::Roles;

use super::Exit;
use super::findings::{add_findings, narrow};
use super::output::{OutputError, OutputFile, print_report, say};
use super::possible::{NotPossible, Possible, attach_options};
use crate::analyse::{units, warnings};
use crate::attach::servers::{NoSuchServer, RunningServer, find_server, running_servers};
use crate::cli::AttachArgs;
use crate::clock::monotonic_ns;
use crate::filter::Filter;
use crate::kernel::environment::{self, StealClock};
use crate::load::scrub_arguments;
use crate::model::{Interval, Run, Warning, Workload};
use crate::probe::{TraceError, TracedTask};
use crate::report::{json, text};
use crate::session::{self, Findings, Session};
use crate::signals::Interrupt;

/// Longest sleep between two looks at the samples.
const TICK_NS: u64 = 100_000_000;
/// Room for this many tasks at least, and for as many again that come.
const TASKS_LEAST: u32 = 4096;

/// Nothing to attach to, or it cannot be traced.
#[derive(Debug, thiserror::Error)]
pub enum AttachError {
    /// No target.
    #[error(
        "attach to what? Name a server (--postgres PORT), tasks (--pid, --tid, --comm, --cgroup) or the whole machine (--all); {0}"
    )]
    NoTarget(String),
    /// `--postgres` names none.
    #[error(transparent)]
    Server(#[from] NoSuchServer),
    /// Filters that no task passes.
    #[error("no task passes {0} now; give what runs already, or widen the filter")]
    NobodyPasses(String),
    /// The kernel does not tell who is connected.
    #[error("cannot find the server's clients: {0}")]
    Peers(std::io::Error),
    /// It is not possible on this machine, or not now.
    #[error(transparent)]
    NotPossible(#[from] NotPossible),
    /// The programs.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// The file of `-o`.
    #[error(transparent)]
    Output(#[from] OutputError),
    /// Signals cannot be asked for.
    #[error("cannot prepare the trace: {0}")]
    Io(#[from] std::io::Error),
}

/// Traces until the time is over or the user ends it, and reports.
pub fn attach(args: &AttachArgs) -> Result<Exit, AttachError> {
    let server = args.postgres.as_deref().map(find_server).transpose()?;
    if server.is_none() && !args.all && args.filter.names_no_task() {
        return Err(AttachError::NoTarget(servers_that_run()));
    }
    let output = args.output.output.as_deref().map(OutputFile::create).transpose()?;
    let Possible { plan, filter, warnings, only: _only } =
        Possible::find(&args.programs, &args.filter)?;
    filter.tasks.check_names().map_err(NotPossible::from)?;
    let interrupt = Interrupt::install()?;
    let mut roles = Roles::new(server);
    let tasks = roles.tasks(&filter)?;
    let room = u32::try_from(2 * tasks.len()).unwrap_or(u32::MAX).max(TASKS_LEAST);
    if tasks.is_empty() && !args.all {
        return Err(AttachError::NobodyPasses(filter.words.join("; ")));
    }
    let session = session::attach(plan, &attach_options(&args.programs, &filter, room))?;
    session.trace_tasks(tasks)?;
    let trace = Trace { args, filter, session, roles, warnings, late_clients_count: 0 };
    trace.follow(&interrupt, output)
}

fn servers_that_run() -> String {
    let servers: Vec<String> = running_servers().iter().map(RunningServer::to_string).collect();
    match servers.is_empty() {
        true => "no Postgres server runs here".to_owned(),
        false => format!("Postgres servers that run: {}", servers.join("; ")),
    }
}

/// An attached trace.
struct Trace<'a> {
    args: &'a AttachArgs,
    filter: Filter,
    session: Session,
    roles: Roles,
    warnings: Vec<Warning>,
    /// Clients' threads that were found after the trace had begun.
    late_clients_count: u64,
}

impl Trace<'_> {
    fn follow(
        mut self,
        interrupt: &Interrupt,
        output: Option<OutputFile>,
    ) -> Result<Exit, AttachError> {
        let interval_ns = nanoseconds(self.args.output.interval);
        let started_at = jiff::Timestamp::now().to_string();
        let steal = StealClock::start();
        // Nobody's transactions are counted here, so the cost of tracing cannot be told from them.
        let start_ns = self.session.begin(&self.roles, None, false)?;
        let end_ns =
            self.args.time.map_or(u64::MAX, |time| start_ns.saturating_add(nanoseconds(time)));
        let mut next_ns = start_ns + interval_ns;
        let mut intervals = Vec::new();
        let mut interval_began_ns = start_ns;
        // When nobody was left to trace.
        let mut ended_ns = None;
        while !interrupt.is_set() && monotonic_ns() < end_ns {
            let until_ns = next_ns.min(end_ns).min(self.session.next_tick_ns());
            let rest_ns = until_ns.saturating_sub(monotonic_ns()).min(TICK_NS);
            std::thread::sleep(Duration::from_nanos(rest_ns));
            self.session.tick(&self.roles)?;
            let now_ns = monotonic_ns();
            if now_ns >= next_ns {
                self.end_interval(now_ns - start_ns)?;
                intervals.push(interval(start_ns, interval_began_ns, now_ns));
                interval_began_ns = now_ns;
                next_ns += interval_ns;
                if !self.args.all && self.roles.are_gone() {
                    ended_ns = Some(now_ns);
                    break;
                }
            }
        }
        self.session.stop(&self.roles)?;
        let duration_ns = monotonic_ns() - start_ns;
        let mut warnings = self.warnings;
        warnings.extend(ended_ns.map(|ended_ns| target_ended(ended_ns - start_ns)));
        warnings.extend(late_clients(self.late_clients_count));
        let filter = self.filter;
        let mut run = Run {
            started_at,
            command: scrub_arguments(std::env::args()),
            interrupted: self.args.time.is_some() && (interrupt.is_set() || ended_ns.is_some()),
            environment: environment::describe(self.roles.data_directory()),
            workload: Workload { name: self.roles.title(), duration_ns, ..Workload::default() },
            intervals,
            warnings,
            ..Run::new()
        };
        run.environment.cpu.steal_ns = steal.elapsed_ns();
        let findings = self.session.finish()?;
        put_together(&mut run, &findings, start_ns, &filter);
        report(self.args, &run, output)
    }

    /// Takes in the tasks that have come, and says how it goes.
    fn end_interval(&mut self, elapsed_ns: u64) -> Result<(), AttachError> {
        let newcomers = self.roles.newcomers(&self.filter)?;
        let clients = newcomers.iter().filter(|task| task.side == Side::Client);
        self.late_clients_count += clients.count() as u64;
        self.session.trace_tasks(newcomers)?;
        let interval = self.session.end_interval(&self.roles)?;
        if !self.args.output.quiet {
            let top = interval.top.map_or_else(String::new, |(class, ns)| {
                format!(", most in {}: {}", class.name(), units::duration(ns as f64))
            });
            say(&format!(
                "attached: {:.1} s, spin {}{top}",
                elapsed_ns as f64 / 1e9,
                units::duration(interval.spin_ns as f64)
            ));
        }
        Ok(())
    }
}

fn target_ended(after_ns: u64) -> Warning {
    Warning {
        code: "target-ended".to_owned(),
        text: format!(
            "nobody was left to trace after {}, give or take an interval",
            units::duration(after_ns as f64)
        ),
        remedy: Some("the numbers are those up to then".to_owned()),
    }
}

fn late_clients(count: u64) -> Option<Warning> {
    (count > 0).then(|| Warning {
        code: "late-clients".to_owned(),
        text: format!(
            "{} of the clients connected after tracing began and joined at the end of an interval: \
             what they did before is in no number, so the client's time per transaction is too low",
            units::plural(count, "thread")
        ),
        remedy: Some(
            "attach when the benchmark's clients are connected, or use a shorter --interval"
                .to_owned(),
        ),
    })
}

fn interval(start_ns: u64, began_ns: u64, ended_ns: u64) -> Interval {
    Interval {
        start_ns: began_ns - start_ns,
        duration_ns: ended_ns - began_ns,
        ..Interval::default()
    }
}

fn put_together(run: &mut Run, findings: &Findings, start_ns: u64, filter: &Filter) {
    add_findings(run, findings, start_ns);
    let told = findings.told();
    run.throughput.transactions_count = told.count;
    run.throughput.traced_transactions_count = told.count;
    run.throughput.tps = per_second(told.count, run.workload.duration_ns);
    for (index, interval) in run.intervals.iter_mut().enumerate() {
        let count = findings.transactions_in(index);
        interval.tps = per_second(count, interval.duration_ns);
    }
    narrow(run, filter);
    let derived = warnings::derive(run);
    run.warnings.extend(derived);
}

/// Prints first: a full disk must not cost the report.
fn report(args: &AttachArgs, run: &Run, output: Option<OutputFile>) -> Result<Exit, AttachError> {
    let json = json::render(run);
    let options = args.output.layout.text_options();
    print_report(&if args.output.json { json.clone() } else { text::render(run, &options) })?;
    if let Some(output) = output {
        output.save(json.as_bytes())?;
    }
    Ok(Exit::Done)
}

fn per_second(count: u64, duration_ns: u64) -> f64 {
    count as f64 * 1e9 / duration_ns.max(1) as f64
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// A task without Postgres's wait event.
fn plain(tid: u32, tgid: u32, side: Side) -> TracedTask {
    TracedTask { tid, tgid, side, wait_event_address: None, status_address: None, counted: false }
}
