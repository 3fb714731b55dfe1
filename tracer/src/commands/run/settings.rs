//! What a run is to be, decided before anything is touched.

use std::time::Duration;

use super::RunError;
use crate::cli::LoadArgs;
use crate::load::cpus::CpuList;
use crate::load::workload::{Protocol, Workload};

const DEFAULT_WARMUP: Duration = Duration::from_secs(2);

/// What to run, decided before anything is touched.
pub(super) struct Settings {
    pub(super) workload: &'static Workload,
    pub(super) protocol: Protocol,
    pub(super) jobs: u32,
    pub(super) warmup_ns: u64,
    /// Measured time; absent where the number of transactions ends the run.
    pub(super) duration_ns: Option<u64>,
}

impl Settings {
    pub(super) fn new(args: &LoadArgs) -> Result<Self, RunError> {
        let workload = args.workload();
        let available = CpuList::available()?;
        for cpus in [&args.pin_client, &args.pin_server].into_iter().flatten() {
            cpus.check(&available)?;
        }
        let usable = args.pin_client.as_ref().unwrap_or(&available).count();
        let jobs = args.jobs.unwrap_or(u32::try_from(usable).unwrap_or(u32::MAX));
        let by_count = args.transactions.is_some();
        let default_warmup = if by_count { Duration::ZERO } else { DEFAULT_WARMUP };
        Ok(Self {
            workload,
            protocol: workload.protocol(args.protocol)?,
            jobs: jobs.clamp(1, args.client),
            warmup_ns: nanoseconds(args.warmup.unwrap_or(default_warmup)),
            duration_ns: (!by_count).then(|| nanoseconds(args.time)),
        })
    }
}

/// As the clocks count.
pub(super) fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
