//! The kernel's own counters of a task: CPU time, switches, page faults, migrations.

use std::collections::HashMap;
use std::fs;

use procfs::process::Process;

/// Since the task began, or between two readings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OwnCounters {
    /// Time on a CPU (schedstat).
    pub task_clock_ns: u64,
    /// Switches because it went to sleep.
    pub voluntary_count: u64,
    /// Switches because another task was to run.
    pub involuntary_count: u64,
    /// Page faults without I/O.
    pub minor_faults_count: u64,
    /// Page faults with I/O.
    pub major_faults_count: u64,
    /// Moves to another CPU; absent where the kernel does not tell (CONFIG_SCHED_DEBUG).
    pub migrations_count: Option<u64>,
}

/// Those of living tasks (tid and process), by tid.
pub fn read_all(tasks: impl IntoIterator<Item = (u32, u32)>) -> HashMap<u32, OwnCounters> {
    let one = |(tid, tgid)| Some((tid, read_own(tid, tgid)?));
    tasks.into_iter().filter_map(one).collect()
}

/// One task's; `None` when it is gone.
pub fn read_own(tid: u32, tgid: u32) -> Option<OwnCounters> {
    let task = Process::new(i32::try_from(tgid).ok()?).ok()?;
    let task = task.task_from_tid(i32::try_from(tid).ok()?).ok()?;
    let (status, stat) = (task.status().ok()?, task.stat().ok()?);
    let sched = fs::read_to_string(format!("/proc/{tgid}/task/{tid}/sched")).unwrap_or_default();
    Some(OwnCounters {
        task_clock_ns: task.schedstat().ok()?.sum_exec_runtime,
        voluntary_count: status.voluntary_ctxt_switches?,
        involuntary_count: status.nonvoluntary_ctxt_switches?,
        minor_faults_count: stat.minflt,
        major_faults_count: stat.majflt,
        migrations_count: migrations(&sched),
    })
}

fn migrations(sched: &str) -> Option<u64> {
    let line = sched.lines().find(|line| line.starts_with("se.nr_migrations"))?;
    line.split_once(':')?.1.trim().parse().ok()
}

/// What came between two readings, summed over the tasks that are in both; and how many those are.
pub fn between(
    before: &HashMap<u32, OwnCounters>,
    after: &HashMap<u32, OwnCounters>,
) -> HashMap<u32, OwnCounters> {
    let difference = |(tid, after): (&u32, &OwnCounters)| {
        let before = before.get(tid)?;
        let migrations = after.migrations_count.zip(before.migrations_count);
        Some((
            *tid,
            OwnCounters {
                // A tid that came back has less than before: another task.
                task_clock_ns: after.task_clock_ns.checked_sub(before.task_clock_ns)?,
                voluntary_count: after.voluntary_count.checked_sub(before.voluntary_count)?,
                involuntary_count: after.involuntary_count.checked_sub(before.involuntary_count)?,
                minor_faults_count: after
                    .minor_faults_count
                    .checked_sub(before.minor_faults_count)?,
                major_faults_count: after
                    .major_faults_count
                    .checked_sub(before.major_faults_count)?,
                migrations_count: match migrations {
                    Some((after, before)) => Some(after.checked_sub(before)?),
                    None => None,
                },
            },
        ))
    };
    after.iter().filter_map(difference).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_has_counters_and_one_that_is_gone_none() {
        let own = std::process::id();
        let read = read_own(own, own).unwrap();
        assert!(read.minor_faults_count > 0, "{read:?}");
        assert_eq!(read_own(1 << 23, 1 << 23), None);
    }

    #[test]
    fn only_what_is_in_both_readings_is_counted() {
        let counters = |task_clock_ns, migrations_count| OwnCounters {
            task_clock_ns,
            migrations_count,
            ..OwnCounters::default()
        };
        let before = HashMap::from([
            (1, counters(5, Some(1))),
            (2, counters(9, None)),
            (3, counters(90, None)),
        ]);
        let after = HashMap::from([
            (1, counters(25, Some(4))),
            (3, counters(8, None)),
            (4, counters(7, None)),
        ]);
        assert_eq!(between(&before, &after), HashMap::from([(1, counters(20, Some(3)))]));
    }

    #[test]
    fn migrations_are_read_where_they_are_told() {
        let text = "se.exec_start : 1.5\nse.nr_migrations                             :       12\n";
        assert_eq!(migrations(text), Some(12));
        assert_eq!(migrations(""), None);
    }
}
