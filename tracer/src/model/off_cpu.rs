//! Where tasks slept.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::ProfileFrame;

/// Sleeps, from watching some tasks at a time at each of their switches.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct OffCpu {
    /// `server` (backends), `client`, `other` traced tasks.
    pub sides: BTreeMap<String, SideOffCpu>,
    /// The frames that stacks number.
    pub frames: Vec<ProfileFrame>,
    /// Windows that ended early because records were lost.
    pub lost_count: u64,
    /// Tasks that could not be watched.
    pub failed_count: u64,
    /// Wakings that were lost: their sleeps end when the task runs again, and have no waker.
    #[serde(default)]
    pub lost_wakings_count: u64,
    /// Times that wakings could not be watched at all.
    #[serde(default)]
    pub unwoken_count: u64,
}

/// One side's.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SideOffCpu {
    /// Windows, each of one task.
    pub windows_count: u64,
    /// Their time.
    pub observed_ns: u64,
    /// Share of the time asleep in kernel locks, which the ledger has exactly, 0..1.
    pub lock_share: f64,
    /// Where it slept otherwise, most time first.
    pub stacks: Vec<OffCpuStack>,
}

/// One place to sleep.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct OffCpuStack {
    /// Estimated share of the side's time, 0..1.
    pub share: f64,
    /// Sleeps that were seen.
    pub sleeps_count: u64,
    /// Their mean length; those that a window cuts are shorter than they were.
    pub mean_ns: u64,
    /// Numbers of frames, innermost first. Of a sleep that had begun before the window, the kernel's
    /// part alone.
    pub frames: Vec<u32>,
    /// Who ended the sleeps, most first, at most 5.
    #[serde(default)]
    pub wakers: Vec<Waker>,
}

/// Who woke.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Waker {
    /// The task's name; `[interrupt]` where the waking came from one.
    pub command: String,
    /// Sleeps that it ended.
    pub count: u64,
    /// Its stack, innermost first.
    pub frames: Vec<u32>,
}
