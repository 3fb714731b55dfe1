//! What the programs themselves cost, as the kernel counts it.

use std::collections::HashMap;
use std::os::fd::{AsFd as _, OwnedFd};

use super::{TraceError, Tracer};
use crate::clock::monotonic_ns;
use crate::collect::bpf;

/// What one program cost in a window with BPF_ENABLE_STATS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProgramCost {
    /// Its name.
    pub program: &'static str,
    /// Its runs.
    pub run_count: u64,
    /// Their nanoseconds.
    pub run_ns: u64,
}

/// A window with BPF_ENABLE_STATS on; ends when dropped.
pub struct StatsWindow {
    enabled: OwnedFd,
    at_start: HashMap<&'static str, bpf::ProgramCounters>,
    start_ns: u64,
}

impl Tracer {
    /// Turns BPF_ENABLE_STATS on until the window is closed.
    ///
    /// # Errors
    /// The kernel refuses (needs CAP_SYS_ADMIN).
    pub fn open_stats_window(&self) -> Result<StatsWindow, TraceError> {
        let enabled = aya::sys::enable_stats(aya::sys::Stats::RunTime).map_err(|error| {
            TraceError::Map { map: "(statistics)", action: "enabled", source: error.io_error }
        })?;
        Ok(StatsWindow { enabled, at_start: self.counters()?, start_ns: monotonic_ns() })
    }

    /// What each program cost since the window was opened, and the window's length.
    ///
    /// # Errors
    /// A program's counters cannot be read.
    pub fn close_stats_window(
        &self,
        window: StatsWindow,
    ) -> Result<(Vec<ProgramCost>, u64), TraceError> {
        let at_end = self.counters()?;
        drop(window.enabled);
        let costs = at_end.into_iter().map(|(program, end)| {
            let start = window.at_start.get(program).copied().unwrap_or_default();
            ProgramCost {
                program,
                run_count: end.run_count - start.run_count,
                run_ns: end.run_ns - start.run_ns,
            }
        });
        Ok((costs.collect(), monotonic_ns() - window.start_ns))
    }

    /// Events that programs missed because they were running on that CPU already.
    ///
    /// # Errors
    /// A program's counters cannot be read.
    pub fn recursion_misses(&self) -> Result<u64, TraceError> {
        Ok(self.counters()?.values().map(|counters| counters.recursion_misses).sum())
    }

    fn counters(&self) -> Result<HashMap<&'static str, bpf::ProgramCounters>, TraceError> {
        let read = |name: &'static str| {
            let program = self.ebpf.program(name).ok_or(TraceError::MissingProgram(name))?;
            let failed = |source| TraceError::Map { map: name, action: "read", source };
            let fd = program.fd().map_err(|error| failed(std::io::Error::other(error)))?;
            Ok((name, bpf::program_counters(fd.as_fd()).map_err(failed)?))
        };
        self.attached.iter().copied().map(read).collect()
    }
}
