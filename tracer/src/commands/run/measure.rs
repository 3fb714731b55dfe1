//! Warm-up and the measured part.

use std::time::Duration;

use super::RunError;
use super::describe::abort_text;
use super::logging::Logging;
use super::settings::{Settings, nanoseconds};
use super::tracing::{Traced, Tracing};
use crate::cli::JobArgs;
use crate::clock::{Epoch, monotonic_ns};
use crate::commands::output::say;
use crate::commands::progress::{Columns, Progress};
use crate::kernel::environment::StealClock;
use crate::load::log::Logs;
use crate::load::measure::{Measured, Measurement};
use crate::load::{
    AbortReason, AbortedClient, CommandSums, ConnectedLoad, Io, LoadOutcome, Patience, RunningLoad,
    TransactionRecord, Used,
};
use crate::model::Warning;
use crate::signals::Interrupt;

/// How often records are drained and flags looked at.
const TICK_NS: u64 = 100_000_000;

/// What ended the measured part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ended {
    AsPlanned,
    Interrupted,
    /// Every client gave up before the planned end.
    ClientsGone,
    /// One gave up, and that was to be the end (`--exit-on-abort`).
    OneAborted,
}

/// What the measured part yields.
pub(super) struct Measurements {
    pub(super) started_at: String,
    pub(super) measured: Measured,
    pub(super) ended: Ended,
    pub(super) aborted: Vec<AbortedClient>,
    /// What commands took, where that was asked for.
    pub(super) commands: Option<CommandSums>,
    /// Clients whose transactions were cancelled because the user wanted the end.
    pub(super) cancelled_count: usize,
    /// What the worker threads used in the measured part.
    pub(super) usage: Vec<Used>,
    pub(super) io: Io,
    pub(super) connecting_ns: u64,
    /// Time spent in connecting anew, and how often.
    pub(super) reconnecting: (u64, u64),
    pub(super) steal_ns: Option<u64>,
    /// When the measured part began, CLOCK_MONOTONIC.
    pub(super) start_ns: u64,
    pub(super) traced: Traced,
    pub(super) log_warnings: Vec<Warning>,
}

/// Warm-up and the measured part.
pub(super) fn measure(
    args: &JobArgs,
    settings: &Settings,
    load: ConnectedLoad,
    mut tracing: Tracing,
    logs: Option<Logs>,
    interrupt: &Interrupt,
) -> Result<Measurements, RunError> {
    let (io, connecting_ns) = (load.io(), load.connecting_ns());
    let now_ns = monotonic_ns();
    let start_ns = now_ns + settings.warmup_ns;
    let end_ns = settings.duration_ns.map(|duration| start_ns + duration);
    let interval_ns = nanoseconds(args.output.series.interval);
    let limit_ns = settings.timing.latency_limit_ns;
    let measurement = Measurement::new(start_ns, end_ns, interval_ns).with_latency_limit(limit_ns);
    let columns = Columns {
        lag: settings.timing.rate.is_some(),
        skipped: limit_ns.is_some(),
        retries: args.load.max_tries != 1,
        unix_time: args.load.progress_timestamp.then(Epoch::now),
    };
    let mut progress = Progress::new(settings.progress_ns, now_ns, start_ns, columns);
    // The first transaction is traced too where there is no warm-up.
    let is_cold = settings.warmup_ns == 0;
    let begin_tracing = |tracing: &mut Tracing| {
        tracing.begin(start_ns, settings.duration_ns, interval_ns, settings.control)
    };
    if is_cold {
        load.measure();
        begin_tracing(&mut tracing)?;
        progress.begin_measured_part();
    }
    let logs = Logging::new(logs, start_ns);
    let exit_on_abort = args.load.exit_on_abort;
    let load = load.start();
    let mut driver = Driver { load, tracing, measurement, progress, logs, exit_on_abort };
    if !is_cold {
        let ended = driver.drive(Some(start_ns), interrupt)?;
        if ended == Ended::Interrupted {
            return Err(RunError::InterruptedEarly(interrupt.name()));
        }
        begin_tracing(&mut driver.tracing)?;
        driver.progress.begin_measured_part();
    }
    let started_at = jiff::Timestamp::now().to_string();
    driver.load.measure();
    let before = driver.load.usage();
    let steal = StealClock::start();
    let ended = driver.drive(end_ns, interrupt)?;
    if ended == Ended::Interrupted {
        say(&format!("lockscope: {}: ending the run", interrupt.name()));
    }
    // The backends leave when the clients do: their accounts are read before.
    driver.tracing.stop()?;
    driver.load.stop();
    let ended_ns = monotonic_ns();
    let steal_ns = steal.elapsed_ns();
    let after = driver.load.usage();
    let usage = after.iter().zip(&before).map(|(after, before)| after.since(*before)).collect();
    let reconnecting = driver.load.connecting();
    let Driver { load, mut tracing, mut measurement, mut progress, mut logs, .. } = driver;
    let patience =
        if ended == Ended::Interrupted { Patience::INTERRUPTED } else { Patience::PLANNED };
    let mut on_record = |record: &TransactionRecord| {
        take(record, &mut measurement, &mut progress, &mut logs);
        tracing.record(record);
    };
    let mut say_so = |text: &str| say(&format!("lockscope: {text}"));
    let LoadOutcome { mut aborted, commands } =
        load.finish(&patience, &mut on_record, &mut say_so)?;
    progress.finish(end_ns.map_or(ended_ns, |end_ns| end_ns.min(ended_ns)));
    let traced = tracing.finish()?;
    let log_warnings = logs.finish();

    // Who wants the end gives up nothing.
    let before_cancel = aborted.len();
    if ended == Ended::Interrupted {
        aborted.retain(|client| !matches!(client.reason, AbortReason::Stuck(_)));
    }
    let cancelled_count = before_cancel - aborted.len();
    let all_aborted = aborted.len() == args.load.client as usize;
    let ended = match ended {
        Ended::ClientsGone if !all_aborted && args.load.transactions.is_some() => Ended::AsPlanned,
        ended => ended,
    };
    if ended == Ended::ClientsGone && all_aborted && measurement.transactions_count() == 0 {
        return Err(RunError::AllAborted(abort_text(&aborted, args.load.client)));
    }
    // A run that lost all its clients lasted up to the last transaction.
    let measured = match ended {
        Ended::ClientsGone => measurement.finish_at_last(),
        Ended::AsPlanned => measurement.finish(None),
        Ended::Interrupted | Ended::OneAborted => measurement.finish(Some(ended_ns)),
    };
    Ok(Measurements {
        started_at,
        measured,
        ended,
        aborted,
        commands,
        cancelled_count,
        usage,
        io,
        connecting_ns,
        reconnecting,
        steal_ns,
        start_ns,
        traced,
        log_warnings,
    })
}

/// What every record goes through.
fn take(
    record: &TransactionRecord,
    measurement: &mut Measurement,
    progress: &mut Progress,
    logs: &mut Logging,
) {
    measurement.record(record);
    progress.record(record);
    if measurement.is_in_window(record.received_ns) {
        logs.record(record);
    }
}

/// All that has to be kept going while the load runs.
struct Driver {
    load: RunningLoad,
    tracing: Tracing,
    measurement: Measurement,
    progress: Progress,
    logs: Logging,
    exit_on_abort: bool,
}

impl Driver {
    /// Drains records until `end_ns`, an interrupt, or until no client is left.
    fn drive(&mut self, end_ns: Option<u64>, interrupt: &Interrupt) -> Result<Ended, RunError> {
        loop {
            self.load.drain(&mut |record| {
                take(record, &mut self.measurement, &mut self.progress, &mut self.logs);
                self.tracing.record(record);
            });
            if let Some(note) = self.tracing.tick(monotonic_ns())? {
                self.progress.annotate(Some(note));
            }
            let now_ns = monotonic_ns();
            self.progress.tick(now_ns);
            if interrupt.is_set() {
                return Ok(Ended::Interrupted);
            }
            if end_ns.is_some_and(|end| now_ns >= end) {
                return Ok(Ended::AsPlanned);
            }
            if self.load.active_clients() == 0 {
                return Ok(Ended::ClientsGone);
            }
            if self.exit_on_abort && self.load.aborted_clients() > 0 {
                return Ok(Ended::OneAborted);
            }
            let next_ns = end_ns
                .unwrap_or(u64::MAX)
                .min(self.tracing.next_tick_ns())
                .min(self.progress.next_tick_ns());
            let rest_ns = next_ns.saturating_sub(now_ns).min(TICK_NS);
            std::thread::sleep(Duration::from_nanos(rest_ns));
        }
    }
}
