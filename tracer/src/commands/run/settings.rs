//! What a run is to be, decided before anything is touched.

use std::time::Duration;

use super::RunError;
use super::scripts::RunScripts;
use crate::cli::{JobArgs, TraceArgs};
use crate::load::cpus::CpuList;
use crate::load::log::LogOptions;
use crate::load::{FailureRules, Io, Timing};

const WARMUP_OF_RUN: Duration = Duration::from_secs(2);

/// What to run, decided before anything is touched.
pub(in crate::commands) struct Settings {
    pub(super) scripts: RunScripts,
    pub(super) failures: FailureRules,
    pub(super) jobs: u32,
    pub(super) warmup_ns: u64,
    /// Measured time; absent where the number of transactions ends the run.
    pub(super) duration_ns: Option<u64>,
    pub(super) timing: Timing,
    pub(super) io: Io,
    /// Why it is not the usual one.
    pub(super) io_reason: Option<String>,
    /// Between progress lines, 0 for none.
    pub(super) progress_ns: u64,
    pub(super) log: Option<LogOptions>,
    /// `lockscope run`, not `lockscope load`.
    pub(super) is_traced: bool,
    /// Whether slices with the programs off measure the tracing's cost.
    pub(super) control: bool,
}

impl Settings {
    /// `trace` is absent for `lockscope load`.
    pub(in crate::commands) fn new(
        args: &JobArgs,
        trace: Option<&TraceArgs>,
    ) -> Result<Self, RunError> {
        let load = &args.load;
        let scripts = RunScripts::read(load)?;
        let available = CpuList::available()?;
        for cpus in [&load.pin_client, &load.pin_server].into_iter().flatten() {
            cpus.check(&available)?;
        }
        let usable = load.pin_client.as_ref().unwrap_or(&available).count();
        let jobs = load.jobs.unwrap_or(u32::try_from(usable).unwrap_or(u32::MAX));
        let duration = load.transactions.is_none().then_some(load.time);
        args.log.check(duration)?;
        if load.max_tries == 0 && duration.is_none() && load.latency_limit.is_none() {
            return Err(RunError::EndlessTries);
        }
        if load.progress_timestamp && args.output.series.progress.is_zero() {
            return Err(RunError::NoProgress);
        }
        let default_warmup = match (trace, duration) {
            (Some(_), Some(_)) => WARMUP_OF_RUN,
            _ => Duration::ZERO,
        };
        let (io, io_reason) = choose_io(load.io, load.connect, trace.is_some())?;
        Ok(Self {
            failures: FailureRules {
                max_tries: load.max_tries,
                continue_on_error: load.continue_on_error,
                tolerated: scripts.workload().map_or(&[], |workload| workload.tolerated),
            },
            scripts,
            jobs: jobs.clamp(1, load.client),
            warmup_ns: nanoseconds(load.warmup.unwrap_or(default_warmup)),
            duration_ns: duration.map(nanoseconds),
            timing: timing(args),
            io,
            io_reason,
            progress_ns: if args.output.series.quiet {
                0
            } else {
                nanoseconds(args.output.series.progress)
            },
            log: args.log.log.then(|| log_options(args)),
            is_traced: trace.is_some(),
            control: trace.is_some_and(|trace| !trace.no_control),
        })
    }
}

fn timing(args: &JobArgs) -> Timing {
    let load = &args.load;
    Timing {
        transactions_per_client: load.transactions.map(u64::from),
        rate: load.rate,
        latency_limit_ns: load.latency_limit.map(nanoseconds),
        think_ns: load.think_time.map_or(0, nanoseconds),
        ramp_ns: load.ramp.map_or(0, nanoseconds),
        reconnect: load.connect,
        measure_commands: load.report_per_command,
        tell_errors: load.verbose_errors,
    }
}

fn log_options(args: &JobArgs) -> LogOptions {
    LogOptions {
        prefix: args.log.prefix().to_owned(),
        sampling_rate: args.log.sampling_rate,
        aggregate_seconds: args.log.aggregate_interval,
        throttled: args.load.rate.is_some(),
        latency_limited: args.load.latency_limit.is_some(),
        retried: args.load.max_tries != 1,
        failures_detailed: args.load.failures_detailed,
        other_failures: args.load.continue_on_error,
    }
}

/// The driver of the sockets, and why it is another than usual.
fn choose_io(
    asked: Option<Io>,
    reconnect: bool,
    is_run: bool,
) -> Result<(Io, Option<String>), RunError> {
    let obstacle =
        || match reconnect {
            true => Err("with -C nothing is gained by it: each connection serves one transaction"
                .to_owned()),
            false => Io::probe_uring(),
        };
    match (asked, is_run) {
        (Some(Io::Uring), _) => obstacle().map(|()| (Io::Uring, None)).map_err(RunError::NoUring),
        (Some(Io::Epoll), _) | (None, true) => Ok((Io::Epoll, None)),
        (None, false) => Ok(match obstacle() {
            Ok(()) => (Io::Uring, None),
            Err(reason) => (Io::Epoll, Some(reason)),
        }),
    }
}

/// As the clocks count.
pub(super) fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
