//! The curve without the waits for one lock: bounds of each step, and the law of scaling that is left.

use super::scalability::{Point, fit};
use crate::analyse::removal::{bounds_without, removal};
use crate::model::{RemovedLock, Run, StepWithoutLock, WithoutLock};

/// A step that was made.
pub(super) struct Measured<'run> {
    /// Its index.
    pub(super) step: usize,
    pub(super) run: &'run Run,
    pub(super) point: Point,
}

/// Without the lock that takes most of a transaction in any step; `None` where none is dominant in any.
///
/// The law is fitted to what the steps would yield if all else in a transaction took as long as it does: its
/// contention is what is not the lock's.
pub(super) fn without_lock(
    measurements: &[Measured<'_>],
    clients_vary: bool,
) -> Option<WithoutLock> {
    let lock = dominant(measurements)?;
    let mut steps = Vec::new();
    let mut points = Vec::new();
    for Measured { step, run, point } in measurements {
        let Some(bounds) = bounds_without(run, &lock.name) else { continue };
        let gain = bounds.tps_rest_as_now / bounds.tps_low;
        points.push(Point {
            clients: point.clients,
            tps: point.tps * gain,
            resampled: point.resampled.iter().map(|tps| tps * gain).collect(),
        });
        steps.push(StepWithoutLock {
            step: *step,
            tps_low: bounds.tps_low,
            tps_rest_as_now: bounds.tps_rest_as_now,
            tps_high: bounds.tps_high,
        });
    }
    let scalability = clients_vary.then(|| fit(&points)).flatten();
    Some(WithoutLock { name: lock.name, caller: lock.caller, steps, scalability })
}

fn dominant(measurements: &[Measured<'_>]) -> Option<RemovedLock> {
    let with_share = measurements.iter().filter_map(|measured| {
        let found = removal(measured.run);
        let (lock, bounds) = (found.lock?, found.bounds?);
        Some((lock.wait_ns() / bounds.cycle_ns, lock))
    });
    with_share.max_by(|(left, _), (right, _)| left.total_cmp(right)).map(|(_, lock)| lock)
}
