//! What to narrow the trace and its lock table to.

use std::time::Duration;

use clap::Args;

use super::values::microseconds;
use crate::filter::FilterOptions;
use crate::load::cpus::CpuList;

/// Filters.
#[derive(Debug, Default, Args)]
#[command(next_help_heading = "Filters (all that are given must hold; lists are alternatives)")]
pub struct FilterArgs {
    /// Trace these processes only.
    #[arg(long, value_name = "PID", value_delimiter = ',')]
    pub pid: Vec<u32>,
    /// Trace these threads only.
    #[arg(long, value_name = "TID", value_delimiter = ',')]
    pub tid: Vec<u32>,
    /// Trace the tasks of this name only, as ps -L shows it.
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub comm: Vec<String>,
    /// Trace the tasks of this control group and of those below it only.
    #[arg(long, value_name = "PATH", value_delimiter = ',')]
    pub cgroup: Vec<String>,
    /// Trace the tasks of this container only: the begin of its id (Docker, Podman, containerd), or
    /// the number of its pid namespace (`lsns -t pid`).
    #[arg(long, value_name = "ID", value_delimiter = ',')]
    pub container: Vec<String>,
    /// In the lock table, count waits that ended on these CPUs only.
    #[arg(long, value_name = "CPUS")]
    pub cpu: Option<CpuList>,
    /// In the lock table, count waits of these classes only: osq, mutex_owner, qspinlock, rq, …
    #[arg(long, value_name = "CLASS", value_delimiter = ',')]
    pub lock_class: Vec<String>,
    /// Show the locks of this name only.
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub lock: Vec<String>,
    /// Show the locks only that this kernel function wanted, by their heaviest stack.
    #[arg(long, value_name = "FUNCTION", value_delimiter = ',')]
    pub caller: Vec<String>,
    /// In the lock table, count waits of at least this many microseconds only.
    #[arg(long, value_name = "US", value_parser = microseconds)]
    pub min_wait: Option<Duration>,
}

impl FilterArgs {
    /// Whether no option says which tasks to trace.
    pub fn names_no_task(&self) -> bool {
        self.pid.is_empty()
            && self.tid.is_empty()
            && self.comm.is_empty()
            && self.cgroup.is_empty()
            && self.container.is_empty()
    }

    /// The same for the tracing code.
    pub fn options(&self) -> FilterOptions {
        FilterOptions {
            pids: self.pid.clone(),
            tids: self.tid.clone(),
            comms: self.comm.clone(),
            cgroups: self.cgroup.clone(),
            containers: self.container.clone(),
            cpus: self.cpu.clone(),
            classes: self.lock_class.clone(),
            locks: self.lock.clone(),
            callers: self.caller.clone(),
            min_wait_ns: self
                .min_wait
                .map_or(0, |wait| u64::try_from(wait.as_nanos()).unwrap_or(u64::MAX)),
        }
    }
}
