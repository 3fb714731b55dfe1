//! Warm-up and the measured part.

use std::time::Duration;

use super::RunError;
use super::describe::abort_text;
use super::settings::{Settings, nanoseconds};
use crate::cli::RunArgs;
use crate::commands::progress::Progress;
use crate::load::clock::monotonic_ns;
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

/// What the load itself yields.
pub(super) struct LoadResult {
    pub(super) started_at: String,
    pub(super) measured: Measured,
    pub(super) ended: Ended,
    pub(super) aborted: Vec<AbortedClient>,
    pub(super) worker_cpu_ns: u64,
}

/// Warm-up and the measured part.
pub(super) fn measure(
    args: &RunArgs,
    settings: &Settings,
    load: ConnectedLoad,
    interrupt: &Interrupt,
) -> Result<LoadResult, RunError> {
    let now_ns = monotonic_ns();
    let start_ns = now_ns + settings.warmup_ns;
    let end_ns = settings.duration_ns.map(|duration| start_ns + duration);
    let mut measurement = Measurement::new(start_ns, end_ns, nanoseconds(args.output.interval));
    let period_ns = if args.output.quiet { 0 } else { nanoseconds(args.output.progress) };
    let mut progress = Progress::new(period_ns, now_ns, start_ns);
    let mut load = load.start();

    if settings.warmup_ns > 0 {
        let ended = drive(&mut load, Some(start_ns), interrupt, &mut measurement, &mut progress);
        if ended == Ended::Interrupted {
            return Err(RunError::InterruptedEarly(interrupt.name()));
        }
    }
    progress.begin_measured_part();
    let started_at = jiff::Timestamp::now().to_string();
    let cpu_before_ns = load.cpu_ns();
    let mut ended = drive(&mut load, end_ns, interrupt, &mut measurement, &mut progress);
    load.stop();
    let ended_ns = monotonic_ns();
    let worker_cpu_ns = load.cpu_ns() - cpu_before_ns;
    let aborted = load.finish(&mut |record| measurement.record(record))?.aborted;

    let all_aborted = aborted.len() == args.load.client as usize;
    if ended == Ended::ClientsGone && !all_aborted && args.load.transactions.is_some() {
        ended = Ended::AsPlanned;
    }
    if all_aborted && measurement.transactions_count() == 0 {
        return Err(RunError::AllAborted(abort_text(&aborted, args.load.client)));
    }
    // A run that lost all its clients lasted up to the last transaction.
    let cut_ns = (ended == Ended::Interrupted).then_some(ended_ns);
    let measured = match ended {
        Ended::ClientsGone => measurement.finish_at_last(),
        _ => measurement.finish(cut_ns),
    };
    Ok(LoadResult { started_at, measured, ended, aborted, worker_cpu_ns })
}

/// Drains records until `end_ns`, an interrupt, or until no client is left.
fn drive(
    load: &mut RunningLoad,
    end_ns: Option<u64>,
    interrupt: &Interrupt,
    measurement: &mut Measurement,
    progress: &mut Progress,
) -> Ended {
    loop {
        load.drain(&mut |record| {
            measurement.record(record);
            progress.record(record);
        });
        let now_ns = monotonic_ns();
        progress.tick(now_ns);
        if interrupt.is_set() {
            return Ended::Interrupted;
        }
        if end_ns.is_some_and(|end| now_ns >= end) {
            return Ended::AsPlanned;
        }
        if load.active_clients() == 0 {
            return Ended::ClientsGone;
        }
        let rest_ns = end_ns.map_or(TICK_NS, |end| end - now_ns);
        std::thread::sleep(Duration::from_nanos(rest_ns.min(TICK_NS)));
    }
}
