//! The machine, the kernel and the server that a run was measured on.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Everything about the surroundings that may explain a difference between two runs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Environment {
    /// The running kernel.
    pub kernel: Kernel,
    /// The processors.
    pub cpu: Cpu,
    /// Name of the hypervisor (`kvm`, `xen`, …), absent on bare metal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hypervisor: Option<String>,
    /// Memory, huge pages and limits.
    #[serde(default)]
    pub memory: Memory,
    /// The Postgres server, absent when there was none or it could not be asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub postgres: Option<Postgres>,
    /// The block stack under the data directory, top (file system) first.
    #[serde(default)]
    pub storage: Vec<StorageLayer>,
}

/// The running kernel.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Kernel {
    /// `uname -r`.
    pub release: String,
    /// `uname -v`.
    #[serde(default)]
    pub version: String,
    /// Preemption mode: `none`, `voluntary`, `full`, `lazy`, `rt`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preemption: Option<String>,
    /// How the mode is known: `running` (read from the scheduler), `boot` (command line or built-in
    /// default of a kernel that can change it at run time), `build` (fixed at build time).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preemption_source: Option<String>,
    /// Configuration options that matter for locks (`CONFIG_…` → value).
    #[serde(default)]
    pub config_flags: BTreeMap<String, String>,
    /// The current clock source.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clocksource: Option<String>,
    /// Vulnerability → mitigation, as the kernel words it, without those not affected.
    #[serde(default)]
    pub mitigations: BTreeMap<String, String>,
    /// The kernel command line.
    #[serde(default)]
    pub cmdline: String,
}

/// The processors.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Cpu {
    /// Model name.
    pub model: String,
    /// Online logical CPUs.
    pub count: u32,
    /// Physical cores.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub core_count: Option<u32>,
    /// Sockets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub socket_count: Option<u32>,
    /// NUMA nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub numa_node_count: Option<u32>,
    /// Frequency governor (several, joined by commas, when CPUs differ), absent where there is no
    /// cpufreq.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub governor: Option<String>,
    /// Names of CPU 0's idle states that are enabled, absent where there is no cpuidle.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub c_states: Option<Vec<String>>,
    /// Time stolen by the hypervisor during the run, over all CPUs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steal_ns: Option<u64>,
}

/// Memory, huge pages and limits.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Memory {
    /// MemTotal.
    #[serde(default)]
    pub total_bytes: u64,
    /// Transparent huge pages: `always`, `madvise`, `never`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transparent_huge_pages: Option<String>,
    /// `HugePages_Total`.
    #[serde(default)]
    pub huge_pages_count: u64,
    /// Memory limit of this cgroup.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cgroup_limit_bytes: Option<u64>,
    /// CPU limit of this cgroup, in CPUs times 1000.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cgroup_cpu_limit_millis: Option<u64>,
}

/// The Postgres server.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Postgres {
    /// `server_version`.
    pub version: String,
    /// Settings that matter for a benchmark (`shared_buffers`, `max_connections`, …).
    #[serde(default)]
    pub settings: BTreeMap<String, String>,
    /// The data directory, absent for a remote server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data_directory: Option<String>,
    /// True when lockscope made a throw-away cluster for the run.
    #[serde(default)]
    pub embedded: bool,
}

/// One layer of the storage stack: a file system, a mapped device, a disk.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StorageLayer {
    /// `filesystem`, `dm`, `md`, `partition`, `disk`.
    pub kind: String,
    /// Device or file-system name (`xfs`, `dm-0`, `sda`).
    pub name: String,
    /// Mount options, I/O scheduler, device-mapper target … by name.
    #[serde(default)]
    pub attributes: BTreeMap<String, String>,
}
