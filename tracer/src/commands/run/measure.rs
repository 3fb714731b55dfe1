//! Warm-up and the measured part.

use std::time::Duration;

use super::RunError;
use super::describe::abort_text;
use super::settings::{Settings, nanoseconds};
use super::tracing::{Traced, Tracing};
use crate::cli::RunArgs;
use crate::clock::monotonic_ns;
use crate::commands::progress::Progress;
use crate::kernel::environment::StealClock;
use crate::load::measure::{Measured, Measurement};
use crate::load::{AbortedClient, ConnectedLoad, RunningLoad};
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
}

/// What the measured part yields.
pub(super) struct Measurements {
    pub(super) started_at: String,
    pub(super) measured: Measured,
    pub(super) ended: Ended,
    pub(super) aborted: Vec<AbortedClient>,
    pub(super) worker_cpu_ns: u64,
    pub(super) steal_ns: Option<u64>,
    /// When the measured part began, CLOCK_MONOTONIC.
    pub(super) start_ns: u64,
    pub(super) traced: Traced,
}

/// Warm-up and the measured part.
pub(super) fn measure(
    args: &RunArgs,
    settings: &Settings,
    load: ConnectedLoad,
    mut tracing: Tracing,
    interrupt: &Interrupt,
) -> Result<Measurements, RunError> {
    let now_ns = monotonic_ns();
    let start_ns = now_ns + settings.warmup_ns;
    let end_ns = settings.duration_ns.map(|duration| start_ns + duration);
    let interval_ns = nanoseconds(args.output.interval);
    let mut measurement = Measurement::new(start_ns, end_ns, interval_ns);
    let period_ns = if args.output.quiet { 0 } else { nanoseconds(args.output.progress) };
    let mut progress = Progress::new(period_ns, now_ns, start_ns);
    // The first transaction is traced too where there is no warm-up.
    let is_cold = settings.warmup_ns == 0;
    let (duration_ns, control) = (settings.duration_ns, !args.trace.no_control);
    if is_cold {
        tracing.begin(start_ns, duration_ns, interval_ns, control)?;
    }
    let mut load = load.start();
    if !is_cold {
        let ended = Driver {
            load: &mut load,
            tracing: &mut tracing,
            measurement: &mut measurement,
            progress: &mut progress,
        }
        .drive(Some(start_ns), interrupt)?;
        if ended == Ended::Interrupted {
            return Err(RunError::InterruptedEarly(interrupt.name()));
        }
        tracing.begin(start_ns, duration_ns, interval_ns, control)?;
    }
    progress.begin_measured_part();
    let started_at = jiff::Timestamp::now().to_string();
    let cpu_before_ns = load.cpu_ns();
    let steal = StealClock::start();
    let mut driver = Driver {
        load: &mut load,
        tracing: &mut tracing,
        measurement: &mut measurement,
        progress: &mut progress,
    };
    let mut ended = driver.drive(end_ns, interrupt)?;
    // The backends leave when the clients do: their accounts are read before.
    tracing.stop()?;
    load.stop();
    let ended_ns = monotonic_ns();
    let steal_ns = steal.elapsed_ns();
    let worker_cpu_ns = load.cpu_ns() - cpu_before_ns;
    let aborted = load
        .finish(&mut |record| {
            measurement.record(record);
            tracing.record(record);
        })?
        .aborted;
    let traced = tracing.finish()?;

    let all_aborted = aborted.len() == args.load.client as usize;
    if ended == Ended::ClientsGone && !all_aborted && args.load.transactions.is_some() {
        ended = Ended::AsPlanned;
    }
    if ended == Ended::ClientsGone && all_aborted && measurement.transactions_count() == 0 {
        return Err(RunError::AllAborted(abort_text(&aborted, args.load.client)));
    }
    // A run that lost all its clients lasted up to the last transaction.
    let cut_ns = (ended == Ended::Interrupted).then_some(ended_ns);
    let measured = match ended {
        Ended::ClientsGone => measurement.finish_at_last(),
        _ => measurement.finish(cut_ns),
    };
    Ok(Measurements {
        started_at,
        measured,
        ended,
        aborted,
        worker_cpu_ns,
        steal_ns,
        start_ns,
        traced,
    })
}

/// All that has to be kept going while the load runs.
struct Driver<'a> {
    load: &'a mut RunningLoad,
    tracing: &'a mut Tracing,
    measurement: &'a mut Measurement,
    progress: &'a mut Progress,
}

impl Driver<'_> {
    /// Drains records until `end_ns`, an interrupt, or until no client is left.
    fn drive(&mut self, end_ns: Option<u64>, interrupt: &Interrupt) -> Result<Ended, RunError> {
        loop {
            self.load.drain(&mut |record| {
                self.measurement.record(record);
                self.progress.record(record);
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
            let next_ns = end_ns.unwrap_or(u64::MAX).min(self.tracing.next_tick_ns());
            let rest_ns = next_ns.saturating_sub(now_ns).min(TICK_NS);
            std::thread::sleep(Duration::from_nanos(rest_ns));
        }
    }
}
