//! Which hardware events are counted, in groups that fit the PMU.
//!
//! The events of a group are counted over the same time, so that their ratios hold; groups that do not
//! fit together take turns, and their numbers are scaled up.

use std::io;

use perf_event::events::{Cache, CacheId, CacheOp, CacheResult, Hardware, Software};
use perf_event::{Builder, Counter};

use super::Reading;

/// An event by the name that perf gives it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum HardwareEvent {
    /// Cycles of the core while it was not halted.
    Cycles,
    /// Instructions retired.
    Instructions,
    /// Branch instructions.
    Branches,
    /// Branches predicted wrongly.
    BranchMisses,
    /// Loads from the L1 data cache.
    L1dLoads,
    /// Loads that it did not have.
    L1dLoadMisses,
    /// Loads from the last level cache.
    LlcLoads,
    /// Loads that it did not have.
    LlcLoadMisses,
    /// Cycles without an instruction to issue.
    StalledFrontend,
    /// Cycles without a unit to issue to.
    StalledBackend,
}

use HardwareEvent::*;

/// At most four: every PMU has as many counters.
pub(super) const GROUPS: [&[HardwareEvent]; 3] = [
    &[Cycles, Instructions, Branches, BranchMisses],
    &[L1dLoads, L1dLoadMisses, LlcLoads, LlcLoadMisses],
    &[StalledFrontend, StalledBackend],
];

impl HardwareEvent {
    /// Every event.
    pub fn all() -> impl Iterator<Item = HardwareEvent> {
        GROUPS.into_iter().flatten().copied()
    }

    /// As perf calls it.
    pub fn name(self) -> &'static str {
        match self {
            Cycles => "cycles",
            Instructions => "instructions",
            Branches => "branches",
            BranchMisses => "branch-misses",
            L1dLoads => "L1-dcache-loads",
            L1dLoadMisses => "L1-dcache-load-misses",
            LlcLoads => "LLC-loads",
            LlcLoadMisses => "LLC-load-misses",
            StalledFrontend => "stalled-cycles-frontend",
            StalledBackend => "stalled-cycles-backend",
        }
    }

    fn builder(self) -> Builder<'static> {
        let cache = |which, result| Cache { which, operation: CacheOp::READ, result };
        match self {
            Cycles => Builder::new(Hardware::CPU_CYCLES),
            Instructions => Builder::new(Hardware::INSTRUCTIONS),
            Branches => Builder::new(Hardware::BRANCH_INSTRUCTIONS),
            BranchMisses => Builder::new(Hardware::BRANCH_MISSES),
            L1dLoads => Builder::new(cache(CacheId::L1D, CacheResult::ACCESS)),
            L1dLoadMisses => Builder::new(cache(CacheId::L1D, CacheResult::MISS)),
            LlcLoads => Builder::new(cache(CacheId::LL, CacheResult::ACCESS)),
            LlcLoadMisses => Builder::new(cache(CacheId::LL, CacheResult::MISS)),
            StalledFrontend => Builder::new(Hardware::STALLED_CYCLES_FRONTEND),
            StalledBackend => Builder::new(Hardware::STALLED_CYCLES_BACKEND),
        }
    }
}

/// The counters of one task, counting since they were opened.
pub(super) struct TaskCounters {
    clock: Counter,
    events: Vec<(HardwareEvent, Counter)>,
}

/// Events that this machine refuses, and why.
pub(super) type Refusals = Vec<(HardwareEvent, io::Error)>;

/// Asks for each event alone, for this thread.
pub(super) fn offered() -> (Vec<HardwareEvent>, Refusals) {
    let (mut offered, mut refused) = (Vec::new(), Vec::new());
    for event in GROUPS.concat() {
        match event.builder().observe_self().any_cpu().build() {
            Ok(_) => offered.push(event),
            Err(error) => refused.push((event, error)),
        }
    }
    (offered, refused)
}

impl TaskCounters {
    /// Opens those events of a task that the machine offers, by group.
    pub(super) fn open(tid: u32, offered: &[HardwareEvent]) -> io::Result<TaskCounters> {
        let clock = of_task(&mut Builder::new(Software::TASK_CLOCK), tid).build()?;
        let mut events: Vec<(HardwareEvent, Counter)> = Vec::new();
        for group in GROUPS {
            let mut leader: Option<usize> = None;
            for event in group.iter().filter(|event| offered.contains(event)) {
                let mut builder = event.builder();
                let builder = of_task(&mut builder, tid);
                let counter = match leader {
                    None => builder.build()?,
                    Some(leader) => {
                        let (_, leader) = &mut events[leader];
                        builder.build_with_group(leader)?
                    }
                };
                leader = leader.or(Some(events.len()));
                events.push((*event, counter));
            }
        }
        Ok(TaskCounters { clock, events })
    }

    /// What was counted, and for how long.
    pub(super) fn read(&mut self) -> io::Result<(u64, Vec<Reading>)> {
        let mut readings = Vec::with_capacity(self.events.len());
        for (event, counter) in &mut self.events {
            let data = counter.read_full()?;
            readings.push(Reading {
                event: *event,
                count: data.count(),
                enabled_ns: data.time_enabled().map_or(0, nanoseconds),
                running_ns: data.time_running().map_or(0, nanoseconds),
            });
        }
        Ok((self.clock.read_full()?.count(), readings))
    }
}

fn of_task<'a, 'b>(builder: &'a mut Builder<'b>, tid: u32) -> &'a mut Builder<'b> {
    let tid = i32::try_from(tid).unwrap_or(i32::MAX);
    builder.observe_pid(tid).any_cpu().include_kernel().enabled(true)
}

fn nanoseconds(time: std::time::Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
