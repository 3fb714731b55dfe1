//! How to trace.

use std::time::Duration;

use clap::Args;

use super::profile::ProfileArgs;
use super::values::{at_least_one, microseconds, ring_bytes};
use crate::probe::ProbeArgs;

/// How to trace a run of one's own.
#[derive(Debug, Args)]
#[command(next_help_heading = "Tracing")]
pub struct TraceArgs {
    /// Measure the load only, without eBPF.
    #[arg(long, conflicts_with_all = [
        "also_pid", "bpf_log", "probes", "frequency", "no_profile", "no_counters",
        "pid", "tid", "comm", "cgroup", "cpu", "lock_class", "lock", "caller", "min_wait",
    ])]
    pub no_trace: bool,
    /// Trace this process too, with an account for each thread (may be repeated): a pooler, a
    /// noisy neighbour.
    #[arg(long, value_name = "PID")]
    pub also_pid: Vec<u32>,
    /// Keep the programs on all the time: lockscope's own cost is then not measured.
    #[arg(long)]
    pub no_control: bool,
    /// The programs.
    #[command(flatten)]
    pub programs: ProgramArgs,
}

/// What the eBPF programs are and how much they keep.
#[derive(Debug, Args)]
#[command(next_help_heading = "Tracing")]
pub struct ProgramArgs {
    /// Which hooks to use.
    #[command(flatten)]
    pub probes: ProbeArgs,
    /// Print what the eBPF programs log: tasks that join and leave, and what has no room.
    #[arg(long)]
    pub bpf_log: bool,
    /// Take the stack of every wait of at least this many microseconds.
    #[arg(long, value_name = "US", default_value = "20", value_parser = microseconds)]
    pub sample_above: Duration,
    /// Of shorter waits, take the stack of one in this many (0: of none).
    #[arg(long, value_name = "N", default_value = "16")]
    pub sample_every: u32,
    /// Room for this many traced tasks [default: 4096, more for more clients].
    #[arg(long, value_name = "N", value_parser = at_least_one)]
    pub max_tasks: Option<u32>,
    /// Room for this many contended locks, by class and side [default: 8192, less on many CPUs].
    #[arg(long, value_name = "N", value_parser = at_least_one)]
    pub max_locks: Option<u32>,
    /// Bytes of the buffer in which samples wait to be read, a power of two of at least 4096
    /// [default: 1048576].
    #[arg(long, value_name = "BYTES", value_parser = ring_bytes)]
    pub ring_bytes: Option<u32>,
    /// What is sampled and counted beside the programs.
    #[command(flatten)]
    pub profile: ProfileArgs,
}
