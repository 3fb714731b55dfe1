//! Counting the same events with bpftrace, by process and class.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::command::wait_until;

/// bpftrace compiles its program first, on emulated CPUs.
const LIMIT: Duration = Duration::from_secs(240);
/// Its output is looked at only after all probes are attached.
const READY: &str = "ready";
const TRACEPOINT: &str = "/sys/kernel/tracing/events/lock/contention_begin";

/// The classes by the flags of `lock:contention_begin` (include/trace/events/lock.h). Run queues'
/// locks are spinlocks to the tracepoint, and so are those that interrupts spin for.
const FLAGS: [(u64, &[&str]); 13] = [
    (1, &["qspinlock", "rq"]),
    (2, &["rwsem"]),
    (3, &["rwlock"]),
    (4, &["rwsem"]),
    (5, &["rwlock"]),
    (8, &["rt_mutex"]),
    (10, &["rt_mutex"]),
    (12, &["rt_mutex"]),
    (18, &["percpu_rwsem"]),
    (20, &["percpu_rwsem"]),
    (32, &["mutex"]),
    (33, &["mutex_spin"]),
    (0, &["semaphore"]),
];
/// The classes that have functions of their own.
const FUNCTIONS: [(&str, &str); 3] = [
    ("osq_lock", "osq"),
    ("mutex_spin_on_owner", "mutex_owner"),
    ("rwsem_spin_on_owner", "rwsem_owner"),
];

/// A bpftrace under way; ended when dropped.
#[derive(Debug)]
pub struct Reference {
    child: Child,
    output: PathBuf,
}

impl Reference {
    /// Starts counting for these processes and waits until it does.
    ///
    /// # Errors
    /// When bpftrace is missing or refuses the program.
    pub fn start(pids: &[u32], results: &Path) -> Result<Self> {
        let output = results.join("reference.txt");
        let stdout = File::create(&output).context("cannot keep bpftrace's output")?;
        let stderr = stdout.try_clone().context("cannot keep bpftrace's output")?;
        let child = Command::new("bpftrace")
            .args(["-e", &Offer::of_this_kernel().program(pids)])
            .stdin(Stdio::null())
            .stdout(stdout)
            .stderr(stderr)
            .spawn()
            .context("cannot start bpftrace; `cargo xtask setup` installs it")?;
        let mut reference = Self { child, output };
        let mut ended = false;
        wait_until(LIMIT, || {
            ended = reference.child.try_wait().map_or(true, |status| status.is_some());
            ended || reference.said().lines().any(|line| line == READY)
        })
        .context("bpftrace attaches nothing")?;
        if ended {
            bail!("bpftrace ended: {}", reference.said());
        }
        Ok(reference)
    }

    /// Ends it and reads what it counted.
    ///
    /// # Errors
    /// When it does not end.
    pub fn finish(mut self) -> Result<Counts> {
        kill(Pid::from_raw(i32::try_from(self.child.id())?), Signal::SIGINT)
            .context("cannot end bpftrace")?;
        wait_until(LIMIT, || self.child.try_wait().is_ok_and(|status| status.is_some()))
            .context("bpftrace does not end")?;
        Ok(Counts::parse(&self.said()))
    }

    fn said(&self) -> String {
        fs::read_to_string(&self.output).unwrap_or_default()
    }
}

impl Drop for Reference {
    fn drop(&mut self) {
        // Usually it has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What there is to count on a kernel.
struct Offer {
    /// Without the tracepoint, spinlocks are counted only, by their slow path.
    tracepoint: bool,
    /// Those of `FUNCTIONS` that it has.
    functions: Vec<(&'static str, &'static str)>,
}

impl Offer {
    fn of_this_kernel() -> Self {
        let symbols = fs::read_to_string("/proc/kallsyms").unwrap_or_default();
        let symbols: BTreeSet<&str> =
            symbols.lines().filter_map(|line| line.split_whitespace().nth(2)).collect();
        Self {
            tracepoint: Path::new(TRACEPOINT).exists(),
            functions: FUNCTIONS.into_iter().filter(|(name, _)| symbols.contains(name)).collect(),
        }
    }

    /// A program that counts by process, and in `@flags` by the tracepoint's flags too.
    fn program(&self, pids: &[u32]) -> String {
        let ours: Vec<String> = pids.iter().map(|pid| format!("pid == {pid}")).collect();
        let ours = ours.join(" || ");
        let (event, flags) = match self.tracepoint {
            true => ("tracepoint:lock:contention_begin", "args->flags"),
            false => ("kprobe:native_queued_spin_lock_slowpath", "1"),
        };
        let mut program = format!(
            "BEGIN {{ printf(\"{READY}\\n\"); }}\n\
             {event} /{ours}/ {{ @flags[pid, {flags}] = count(); }}\n"
        );
        for (function, class) in &self.functions {
            let probe = format!("kprobe:{function} /{ours}/ {{ @{class}[pid] = count(); }}\n");
            program.push_str(&probe);
        }
        program
    }
}

/// What some processes waited for.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Counts {
    flags: BTreeMap<(u32, u64), u64>,
    functions: BTreeMap<(String, u32), u64>,
}

impl Counts {
    /// Reads lines like `@flags[12, 33]: 7` and `@osq[12]: 7`; others are bpftrace's own.
    fn parse(text: &str) -> Self {
        let mut counts = Self::default();
        for line in text.lines() {
            counts.read(line);
        }
        counts
    }

    fn read(&mut self, line: &str) -> Option<()> {
        let (map, rest) = line.strip_prefix('@')?.split_once('[')?;
        let (keys, count) = rest.split_once("]: ")?;
        let keys: Vec<u64> = keys.split(", ").filter_map(|key| key.parse().ok()).collect();
        let (pid, count) = (u32::try_from(*keys.first()?).ok()?, count.parse().ok()?);
        match keys.get(1) {
            Some(flags) => self.flags.insert((pid, *flags), count),
            None => self.functions.insert((map.to_owned(), pid), count),
        };
        Some(())
    }

    /// For each group of lockscope's classes that bpftrace cannot tell apart, how many waits (or
    /// phases of waits) of a process it saw begin.
    #[must_use]
    pub fn of(&self, pid: u32) -> BTreeMap<Vec<&'static str>, u64> {
        let mut groups = BTreeMap::new();
        for (flags, classes) in FLAGS {
            let count = self.flags.get(&(pid, flags)).copied().unwrap_or(0);
            *groups.entry(classes.to_vec()).or_insert(0) += count;
        }
        for (_, class) in FUNCTIONS {
            let count = self.functions.get(&(class.to_owned(), pid)).copied().unwrap_or(0);
            *groups.entry(vec![class]).or_insert(0) += count;
        }
        groups
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_read_by_process_and_class() {
        let text = "Attaching 5 probes...\nready\n^C\n\n@flags[7, 4]: 10\n@flags[7, 2]: 3\n\
                    @flags[8, 4]: 99\n@osq[7]: 12\n";
        let groups = Counts::parse(text).of(7);
        assert_eq!(groups[&vec!["rwsem"]], 13);
        assert_eq!(groups[&vec!["osq"]], 12);
        assert_eq!(groups[&vec!["mutex_owner"]], 0);
        assert_eq!(groups[&vec!["qspinlock", "rq"]], 0);
    }

    #[test]
    fn only_the_given_processes_are_counted() {
        for tracepoint in [false, true] {
            let program = Offer { tracepoint, functions: FUNCTIONS.to_vec() }.program(&[7, 8]);
            assert_eq!(program.matches("/pid == 7 || pid == 8/").count(), 1 + FUNCTIONS.len());
            assert_eq!(program.contains("tracepoint:"), tracepoint);
        }
    }
}
