//! Filters: which tasks are traced, which waits are counted by lock, which locks are shown.
//!
//! All filters that are given must hold; the values of one are alternatives. Task filters decide
//! what is traced at all, so they hold for every number. The others narrow the lock table: the
//! ledger keeps all waits, for its states must add up.

mod container;
mod near;
mod rows;
mod tasks;

use lockscope_ebpf::LockClass;

pub use rows::RowFilter;
pub use tasks::TaskFilter;

use crate::load::cpus::{CpuList, CpuListError};
use container::Container;
pub(crate) use near::did_you_mean;

/// A filter that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum FilterError {
    /// `--pid`
    #[error("--pid {0}: no such process; `ps -e` lists them")]
    NoProcess(u32),
    /// `--pid` with a thread's id.
    #[error("--pid {tid}: this is a thread of process {pid}; use --tid {tid}, or --pid {pid}")]
    IsThread {
        /// As given.
        tid: u32,
        /// The process.
        pid: u32,
    },
    /// `--tid`
    #[error("--tid {0}: no such thread; `ps -eL` lists them")]
    NoThread(u32),
    /// `--comm`
    #[error("--comm {comm}: no task has this name now{near}")]
    NoComm {
        /// As given, cut as the kernel does.
        comm: String,
        /// Similar names.
        near: String,
    },
    /// `--cgroup`
    #[error("--cgroup {cgroup}: no such control group{near}")]
    NoCgroup {
        /// As given.
        cgroup: String,
        /// Similar names.
        near: String,
    },
    /// `--container`
    #[error("--container {container}: no such container or pid namespace{near}")]
    NoContainer {
        /// As given.
        container: String,
        /// Those that there are.
        near: String,
    },
    /// `--container` with the begin of several ids.
    #[error("--container {container}: several containers' ids begin so: {found}; give more of one")]
    ManyContainers {
        /// As given.
        container: String,
        /// Their ids.
        found: String,
    },
    /// `--cpu`
    #[error("--cpu: {0}")]
    Cpu(#[from] CpuListError),
    /// `--cpu` with a CPU that is not there.
    #[error("--cpu {cpu}: this machine has no such CPU; it has 0-{last}")]
    NoCpu {
        /// As given.
        cpu: usize,
        /// The highest possible.
        last: usize,
    },
    /// `--lock-class`
    #[error("--lock-class {class}: no such class{near} known: {known}")]
    NoClass {
        /// As given.
        class: String,
        /// Similar names.
        near: String,
        /// All of them.
        known: String,
    },
    /// `--caller`
    #[error("--caller {function}: this kernel has no such function{near}")]
    NoFunction {
        /// As given.
        function: String,
        /// Similar names.
        near: String,
    },
    /// `--lock`
    #[error("--lock {lock}: no lock is ever named so on this kernel{near}")]
    NoLock {
        /// As given.
        lock: String,
        /// Similar names.
        near: String,
    },
    /// The kernel's symbols cannot be read.
    #[error("--caller and --lock need the kernel's symbols: {0}")]
    Symbols(#[from] std::io::Error),
}

/// Filters as given, unchecked.
#[derive(Clone, Debug, Default)]
pub struct FilterOptions {
    /// `--pid`
    pub pids: Vec<u32>,
    /// `--tid`
    pub tids: Vec<u32>,
    /// `--comm`
    pub comms: Vec<String>,
    /// `--cgroup`
    pub cgroups: Vec<String>,
    /// `--container`
    pub containers: Vec<String>,
    /// `--cpu`
    pub cpus: Option<CpuList>,
    /// `--lock-class`
    pub classes: Vec<String>,
    /// `--lock`
    pub locks: Vec<String>,
    /// `--caller`
    pub callers: Vec<String>,
    /// `--min-wait`, nanoseconds; 0 = all.
    pub min_wait_ns: u64,
}

/// What a run is narrowed to.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    /// Which tasks are traced.
    pub tasks: TaskFilter,
    /// Which waits the lock table counts.
    pub waits: WaitFilter,
    /// Which rows of it are shown.
    pub rows: RowFilter,
    /// As the report's head says it.
    pub words: Vec<String>,
}

/// Which waits the programs count by lock.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WaitFilter {
    /// Classes; none = all.
    pub classes: Vec<LockClass>,
    /// CPUs on which the wait ended; none = all.
    pub cpus: Option<CpuList>,
    /// Shorter waits are left out.
    pub min_wait_ns: u64,
}

impl WaitFilter {
    /// One bit a class that is counted, by its index.
    pub fn class_mask(&self) -> u32 {
        match self.classes.is_empty() {
            true => u32::MAX,
            false => self.classes.iter().fold(0, |mask, class| mask | 1 << (*class as u32)),
        }
    }
}

impl Filter {
    /// Checks the options against this machine, but for the names of tasks: those may come yet, see
    /// [`TaskFilter::check_names`].
    ///
    /// # Errors
    /// One of them names nothing; the error lists near misses.
    pub fn find(options: &FilterOptions) -> Result<Filter, FilterError> {
        let tasks = TaskFilter {
            pids: options.pids.clone(),
            tids: options.tids.clone(),
            comms: options.comms.iter().map(|comm| tasks::cut_comm(comm)).collect(),
            cgroups: options
                .cgroups
                .iter()
                .map(|cgroup| tasks::find_cgroup(cgroup))
                .collect::<Result<_, _>>()?,
            containers: options
                .containers
                .iter()
                .map(|given| Container::find(given))
                .collect::<Result<_, _>>()?,
        };
        tasks.check()?;
        let classes = options.classes.iter().map(|name| class(name)).collect::<Result<_, _>>()?;
        if let Some(cpus) = &options.cpus {
            check_cpus(cpus)?;
        }
        Ok(Filter {
            tasks,
            waits: WaitFilter {
                classes,
                cpus: options.cpus.clone(),
                min_wait_ns: options.min_wait_ns,
            },
            rows: RowFilter::find(&options.locks, &options.callers)?,
            words: words(options),
        })
    }
}

fn class(name: &str) -> Result<LockClass, FilterError> {
    let found = LockClass::ALL.into_iter().find(|class| class.name() == name);
    found.ok_or_else(|| {
        let names = LockClass::ALL.map(LockClass::name);
        let near = did_you_mean(name, names.iter().copied());
        let near = if near.is_empty() { ";".to_owned() } else { near };
        FilterError::NoClass { class: name.to_owned(), near, known: names.join(", ") }
    })
}

fn check_cpus(cpus: &CpuList) -> Result<(), FilterError> {
    let possible = crate::collect::possible_cpus()?;
    match cpus.iter().find(|cpu| *cpu >= possible) {
        Some(cpu) => Err(FilterError::NoCpu { cpu, last: possible - 1 }),
        None => Ok(()),
    }
}

fn words(options: &FilterOptions) -> Vec<String> {
    let mut words = Vec::new();
    let mut say = |option: &str, values: Vec<String>| {
        if !values.is_empty() {
            words.push(format!("{option} {}", values.join(",")));
        }
    };
    say("pid", options.pids.iter().map(ToString::to_string).collect());
    say("tid", options.tids.iter().map(ToString::to_string).collect());
    say("comm", options.comms.clone());
    say("cgroup", options.cgroups.clone());
    say("container", options.containers.clone());
    say("cpu", options.cpus.iter().map(ToString::to_string).collect());
    say("lock class", options.classes.clone());
    say("lock", options.locks.clone());
    say("caller", options.callers.clone());
    if options.min_wait_ns > 0 {
        let least = crate::analyse::units::duration(options.min_wait_ns as f64);
        say("waits of at least", vec![least]);
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(options: &FilterOptions) -> String {
        Filter::find(options).unwrap_err().to_string()
    }

    #[test]
    fn an_unknown_class_lists_near_misses_and_all() {
        let options =
            FilterOptions { classes: vec!["qspinlok".to_owned()], ..FilterOptions::default() };
        let error = refused(&options);
        assert!(error.contains("did you mean qspinlock?"), "{error}");
        assert!(error.contains("known: osq, "), "{error}");
    }

    #[test]
    fn a_cpu_that_is_not_there_is_refused() {
        let cpus = Some("0,900".parse().unwrap());
        let error = refused(&FilterOptions { cpus, ..FilterOptions::default() });
        assert!(error.contains("--cpu 900"), "{error}");
    }

    #[test]
    fn the_class_mask_has_a_bit_a_class() {
        assert_eq!(WaitFilter::default().class_mask(), u32::MAX);
        let classes = vec![LockClass::Osq, LockClass::Rq];
        let mask = WaitFilter { classes, ..WaitFilter::default() }.class_mask();
        assert_eq!(mask, 1 << LockClass::Osq as u32 | 1 << LockClass::Rq as u32);
    }

    #[test]
    fn what_is_filtered_is_said() {
        let options = FilterOptions {
            comms: vec!["postgres".to_owned(), "pgbench".to_owned()],
            min_wait_ns: 20_000,
            ..FilterOptions::default()
        };
        assert_eq!(words(&options), ["comm postgres,pgbench", "waits of at least 20.0 us"]);
    }
}
