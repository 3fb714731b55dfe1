//! Counting the same events with bpftrace, by process and class.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::command::wait_until;
use anyhow::{Context as _, Result, bail};

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

/// The slow paths by class, for kernels without the tracepoint: those that are waits in any case, and
/// those of which only the passes that slept are.
const SLOW_PATHS: [(&str, &[&str]); 2] = [
    (
        "mutex",
        &[
            "__mutex_lock_slowpath",
            "__mutex_lock_interruptible_slowpath",
            "__mutex_lock_killable_slowpath",
        ],
    ),
    ("rwlock", &["queued_read_lock_slowpath", "queued_write_lock_slowpath"]),
];
const SLEEPING_PATHS: [(&str, &[&str]); 2] = [
    ("rwsem", &["rwsem_down_read_slowpath", "rwsem_down_write_slowpath"]),
    ("percpu_rwsem", &["percpu_rwsem_wait"]),
];

/// What records of tracepoints are made of, for kernels without BTF.
const TYPES: &str = "#define pid_t int";
/// A task that goes off the CPU because it waits; one that is preempted has a state above these bits.
/// Kernels this old may lack the types by which bpftrace could read the task's own count.
const SLEEPS: &str = "tracepoint:sched:sched_switch /(args->prev_state & 0xff) != 0";

/// A bpftrace under way; ended when dropped.
#[derive(Debug)]
pub struct Reference {
    child: Child,
    /// Its end is the sign for bpftrace to end. A signal would be lost now and then: bpftrace 0.17 looks
    /// for one only where its wait for events was interrupted, and misses one between two waits.
    sign: Child,
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
        let sign = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::null()).spawn();
        let sign = sign.context("cannot start cat")?;
        let child = Command::new("bpftrace")
            .args(["-e", &Offer::of_this_kernel().program(pids, sign.id())])
            .stdin(Stdio::null())
            .stdout(stdout)
            .stderr(stderr)
            .spawn()
            .context("cannot start bpftrace; `cargo xtask setup` installs it")?;
        let mut reference = Self { child, sign, output };
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
        drop(self.sign.stdin.take());
        wait_until(LIMIT, || self.child.try_wait().is_ok_and(|status| status.is_some()))
            .with_context(|| format!("bpftrace does not end; it has said: {}", self.said()))?;
        Ok(Counts::parse(&self.said()))
    }

    fn said(&self) -> String {
        fs::read_to_string(&self.output).unwrap_or_default()
    }
}

impl Drop for Reference {
    fn drop(&mut self) {
        for child in [&mut self.child, &mut self.sign] {
            // Usually it has ended.
            let _ = child.kill();
            let _ = child.wait();
        }
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

    /// A program that counts by process, and in `@flags` by the tracepoint's flags too, until the process
    /// `sign` ends.
    fn program(&self, pids: &[u32], sign: u32) -> String {
        let ours: Vec<String> = pids.iter().map(|pid| format!("pid == {pid}")).collect();
        let ours = ours.join(" || ");
        let (event, flags) = match self.tracepoint {
            true => ("tracepoint:lock:contention_begin", "args->flags"),
            false => ("kprobe:native_queued_spin_lock_slowpath", "1"),
        };
        let mut program = format!(
            "{TYPES}\nBEGIN {{ printf(\"{READY}\\n\"); }}\n\
             tracepoint:sched:sched_process_exit /pid == {sign}/ {{ exit(); }}\n\
             {event} /{ours}/ {{ @flags[pid, {flags}] = count(); }}\n"
        );
        let counting = |function: &str, class: &str| {
            format!("kprobe:{function} /{ours}/ {{ @{class}[pid] = count(); }}\n")
        };
        for (function, class) in &self.functions {
            program.push_str(&counting(function, class));
        }
        if !self.tracepoint {
            for (class, functions) in SLOW_PATHS {
                functions.iter().for_each(|function| program.push_str(&counting(function, class)));
            }
            program.push_str(&format!("{SLEEPS} && ({ours})/ {{ @sleeps[tid]++; }}\n"));
            for (class, functions) in SLEEPING_PATHS {
                functions
                    .iter()
                    .for_each(|function| program.push_str(&slept_in(function, class, &ours)));
            }
        }
        program
    }
}

/// Counts the passes in which the task has gone to sleep.
fn slept_in(function: &str, class: &str, ours: &str) -> String {
    format!(
        "kprobe:{function} /{ours}/ {{ @before[tid] = @sleeps[tid]; }}\n\
         kretprobe:{function} /({ours}) && @before[tid] != @sleeps[tid]/ \
         {{ @{class}[pid] = count(); }}\n"
    )
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
        let by_function = FUNCTIONS.map(|(_, class)| class).into_iter();
        let by_function = by_function.chain(SLOW_PATHS.map(|(class, _)| class));
        for class in by_function.chain(SLEEPING_PATHS.map(|(class, _)| class)) {
            let count = self.functions.get(&(class.to_owned(), pid)).copied().unwrap_or(0);
            *groups.entry(vec![class]).or_insert(0) += count;
        }
        if self.functions.keys().any(|(class, _)| class == "mutex") {
            // A slow path is passed once, whether it slept or only spun.
            let both = ["mutex", "mutex_spin"];
            let count = both.iter().filter_map(|class| groups.remove(&vec![*class])).sum();
            groups.insert(both.to_vec(), count);
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
    fn without_the_tracepoint_a_mutex_slow_path_is_one_wait() {
        let groups = Counts::parse("@flags[7, 1]: 10\n@mutex[7]: 3\n@rwsem[7]: 2\n").of(7);
        assert_eq!(groups[&vec!["mutex", "mutex_spin"]], 3);
        assert_eq!(groups[&vec!["rwsem"]], 2);
        assert!(!groups.contains_key(&vec!["mutex"]));
    }

    #[test]
    fn only_the_given_processes_are_counted() {
        for tracepoint in [false, true] {
            let program = Offer { tracepoint, functions: FUNCTIONS.to_vec() }.program(&[7, 8], 9);
            let slow_paths = SLOW_PATHS.iter().chain(&SLEEPING_PATHS).map(|(_, names)| names.len());
            let more = if tracepoint { 0 } else { slow_paths.sum() };
            let all = 1 + FUNCTIONS.len() + more;
            assert_eq!(program.matches("/pid == 7 || pid == 8/").count(), all);
            assert_eq!(program.contains("contention_begin"), tracepoint);
            assert!(program.contains("sched_process_exit /pid == 9/ { exit(); }"), "{program}");
            let mut probes = program
                .lines()
                .filter(|line| line.contains("probe:") || line.contains("tracepoint:"))
                .filter(|line| !line.contains("exit()"));
            assert!(probes.all(|line| line.contains("pid == 7 || pid == 8")), "{program}");
        }
    }
}
