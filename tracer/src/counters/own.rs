//! The kernel's own counters of a task: CPU time, switches, page faults, migrations.

use std::collections::HashMap;

use crate::kernel::task;

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
    let file = |name| task::read_text(format!("/proc/{tgid}/task/{tid}/{name}")).ok();
    let stat = task::thread_stat(tid, tgid)?;
    let faults = OwnCounters {
        minor_faults_count: stat.minor_faults_count,
        major_faults_count: stat.major_faults_count,
        ..OwnCounters::default()
    };
    // One file has all the rest, where the kernel has that one.
    match file("sched") {
        Some(sched) => in_sched(&sched, faults),
        None => in_status(&file("status")?, &file("schedstat")?, faults),
    }
}

/// `/proc/PID/sched`: milliseconds with all six digits behind the point.
fn in_sched(sched: &str, faults: OwnCounters) -> Option<OwnCounters> {
    let value = |name| value(sched, name);
    Some(OwnCounters {
        task_clock_ns: value("se.sum_exec_runtime")?.replace('.', "").parse().ok()?,
        voluntary_count: value("nr_voluntary_switches")?.parse().ok()?,
        involuntary_count: value("nr_involuntary_switches")?.parse().ok()?,
        migrations_count: Some(value("se.nr_migrations")?.parse().ok()?),
        ..faults
    })
}

/// Without CONFIG_SCHED_DEBUG nothing tells the migrations.
fn in_status(status: &str, schedstat: &str, faults: OwnCounters) -> Option<OwnCounters> {
    Some(OwnCounters {
        task_clock_ns: schedstat.split_ascii_whitespace().next()?.parse().ok()?,
        voluntary_count: value(status, "voluntary_ctxt_switches")?.parse().ok()?,
        involuntary_count: value(status, "nonvoluntary_ctxt_switches")?.parse().ok()?,
        ..faults
    })
}

/// `name : value`, a line each.
fn value<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let mut pairs = text.lines().filter_map(|line| line.split_once(':'));
    pairs.find(|(found, _)| found.trim_end() == name).map(|(_, value)| value.trim())
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
    fn either_way_of_telling_is_understood() {
        let faults = OwnCounters { minor_faults_count: 7, ..OwnCounters::default() };
        let sched = "sh (9, #threads: 1)\n\
            se.exec_start                  :        1500.250000\n\
            se.sum_exec_runtime            :           2.000345\n\
            se.nr_migrations               :                 12\n\
            nr_switches                    :                  7\n\
            nr_voluntary_switches          :                  4\n\
            nr_involuntary_switches        :                  3\n";
        let told = OwnCounters {
            task_clock_ns: 2_000_345,
            voluntary_count: 4,
            involuntary_count: 3,
            migrations_count: Some(12),
            ..faults
        };
        assert_eq!(in_sched(sched, faults), Some(told));
        assert_eq!(in_sched("", faults), None);
        let status = "Name:\tsh\nvoluntary_ctxt_switches:\t4\nnonvoluntary_ctxt_switches:\t3\n";
        let without = OwnCounters { migrations_count: None, ..told };
        assert_eq!(in_status(status, "2000345 30 4\n", faults), Some(without));
        assert_eq!(in_status(status, "", faults), None);
    }

    #[test]
    fn the_running_kernel_s_two_ways_agree() {
        let own = std::process::id();
        let text = |name| task::read_text(format!("/proc/{own}/{name}")).unwrap();
        let faults = OwnCounters::default();
        let counters = in_status(&text("status"), &text("schedstat"), faults).unwrap();
        let Ok(sched) = task::read_text(format!("/proc/{own}/sched")) else {
            return eprintln!("skipped: this kernel has no /proc/PID/sched");
        };
        // Read later: this task runs meanwhile.
        let later = in_sched(&sched, faults).unwrap();
        assert!(later.task_clock_ns >= counters.task_clock_ns, "{later:?} {counters:?}");
        assert!(later.voluntary_count >= counters.voluntary_count, "{later:?} {counters:?}");
    }
}
