//! Who was on a CPU, and where in its code.

use serde::{Deserialize, Serialize};

/// Samples of tasks on a CPU, over the measured time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Profile {
    /// What triggered the samples: `cycles` or `cpu-clock`.
    pub event: String,
    /// Why the cycle counter was not used; absent when it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub no_cycles: Option<String>,
    /// Samples a second and CPU that were asked for.
    pub frequency_hz: u64,
    /// Samples of all stacks.
    pub samples_count: u64,
    /// Records that were lost.
    pub lost_count: u64,
    /// How often the kernel paused the sampling because it took too long.
    pub throttled_count: u64,
    /// Samples whose stacks were rare among very many, and are kept by their innermost frame alone.
    #[serde(default)]
    pub shortened_count: u64,
    /// The frames that `stacks` number.
    pub frames: Vec<ProfileFrame>,
    /// Stacks by side and command, most samples first.
    pub stacks: Vec<ProfileStack>,
}

/// A function, or a place without a name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ProfileFrame {
    /// Its name; `[unknown]` where there is none.
    pub symbol: String,
    /// The file without its directories, `[kernel]`, `[bpf]`, `[vdso]`, `[jit]`.
    pub object: String,
    /// Why it has no name: `no_symbol`, `no_file`, `jit`, `process_gone`, `not_mapped`, `no_kallsyms`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unknown: Option<String>,
}

impl ProfileFrame {
    /// Whether it is the kernel's (or a BPF program's) code.
    pub fn is_kernel(&self) -> bool {
        matches!(self.object.as_str(), "[kernel]" | "[bpf]")
    }
}

/// The samples of one stack.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ProfileStack {
    /// `server` (backends), `background`, `client`, `other` traced tasks, `lockscope` (its tracing, not
    /// its load), `untraced` ones.
    pub side: String,
    /// The tasks' name.
    pub command: String,
    /// Samples.
    pub samples_count: u64,
    /// What they stand for: cycles, or nanoseconds of a CPU for `cpu-clock`.
    pub weight: u64,
    /// Numbers of frames, innermost first.
    pub frames: Vec<u32>,
}
