//! The kernel's own count of a task's time on a CPU and of waiting for one: what the ledger must
//! agree with.

use std::collections::HashMap;

use crate::kernel::task::read_text;

/// Nanoseconds since the task began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Schedstat {
    /// On a CPU.
    pub cpu_ns: u64,
    /// Runnable, without one.
    pub runq_ns: u64,
}

/// Reads `/proc/PID/task/TID/schedstat` of tasks (tid and process); those that are gone or not
/// counted are left out.
pub(super) fn read(tasks: impl IntoIterator<Item = (u32, u32)>) -> HashMap<u32, Schedstat> {
    let one = |(tid, tgid)| {
        let text = read_text(format!("/proc/{tgid}/task/{tid}/schedstat")).ok()?;
        Some((tid, parse(&text)?))
    };
    tasks.into_iter().filter_map(one).collect()
}

/// What came between two readings, of the tasks that are in both.
pub(super) fn between(
    before: &HashMap<u32, Schedstat>,
    after: &HashMap<u32, Schedstat>,
) -> HashMap<u32, Schedstat> {
    let difference = |(tid, after): (&u32, &Schedstat)| {
        let before = before.get(tid)?;
        let cpu_ns = after.cpu_ns.checked_sub(before.cpu_ns)?;
        Some((*tid, Schedstat { cpu_ns, runq_ns: after.runq_ns.checked_sub(before.runq_ns)? }))
    };
    after.iter().filter_map(difference).collect()
}

fn parse(text: &str) -> Option<Schedstat> {
    let mut numbers = text.split_whitespace().map(str::parse);
    Some(Schedstat { cpu_ns: numbers.next()?.ok()?, runq_ns: numbers.next()?.ok()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_living_task_is_counted_and_one_that_is_gone_left_out() {
        let own = std::process::id();
        let before =
            HashMap::from([(own, parse("120 30 4\n").unwrap()), (1, Schedstat::default())]);
        let after = HashMap::from([(own, parse("150 35 5\n").unwrap())]);
        let expected = Schedstat { cpu_ns: 30, runq_ns: 5 };
        assert_eq!(between(&before, &after), HashMap::from([(own, expected)]));
        assert!(read([(1 << 23, 1 << 23)]).is_empty());
        assert_eq!(parse(""), None);
    }
}
