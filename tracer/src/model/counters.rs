//! Counters of the processor and of the kernel, by side.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// What was counted beside the time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Counters {
    /// `server` (backends), `background`, `client`, `other` traced tasks.
    pub sides: BTreeMap<String, SideCounters>,
    /// Hardware events that the machine does not offer.
    #[serde(default)]
    pub missing: Vec<MissingEvent>,
    /// Tasks that could not be counted in a window.
    #[serde(default)]
    pub failed_count: u64,
    /// The CPUs' speed at the begin.
    pub speed_at_begin: CpuSpeed,
    /// The same at the end.
    pub speed_at_end: CpuSpeed,
}

/// One side's.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SideCounters {
    /// Tasks that lived all the time: the kernel's counters are theirs.
    pub tasks_count: u64,
    /// Time on a CPU.
    pub task_clock_ns: u64,
    /// Switches, of either kind.
    pub context_switches_count: u64,
    /// Those because another task was to run.
    pub involuntary_switches_count: u64,
    /// Moves to another CPU; absent where the kernel does not tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub migrations_count: Option<u64>,
    /// Page faults without I/O.
    pub minor_faults_count: u64,
    /// Page faults with I/O.
    pub major_faults_count: u64,
    /// CPU time in the windows in which hardware events were counted.
    #[serde(default)]
    pub counted_ns: u64,
    /// Hardware events in them, by perf's names.
    #[serde(default)]
    pub events: BTreeMap<String, EventCount>,
}

/// One hardware event.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct EventCount {
    /// In the windows, scaled up for the time in which its group had no turn.
    pub count: u64,
    /// By nanosecond of CPU time.
    pub per_cpu_ns: f64,
    /// Time in which it had its turn, of that in which it was to be counted, 0..1.
    pub running_share: f64,
}

/// An event that was not counted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MissingEvent {
    /// By perf's name.
    pub name: String,
    /// Why not.
    pub reason: String,
}

/// How fast the CPUs were let run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CpuSpeed {
    /// CPU 0's governor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub governor: Option<String>,
    /// Whether boost (turbo) is allowed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub boost: Option<bool>,
    /// Of the slowest CPU, as the kernel tells it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lowest_khz: Option<u64>,
    /// Of the fastest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub highest_khz: Option<u64>,
}

impl SideCounters {
    /// Instructions a cycle.
    pub fn instructions_per_cycle(&self) -> Option<f64> {
        self.ratio("instructions", "cycles")
    }

    /// One event's count by another's.
    pub fn ratio(&self, event: &str, by: &str) -> Option<f64> {
        let (event, by) = (self.events.get(event)?, self.events.get(by)?);
        (by.count > 0 && event.running_share > 0.0).then(|| event.count as f64 / by.count as f64)
    }
}
