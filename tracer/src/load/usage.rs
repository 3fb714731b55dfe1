//! What worker threads use.

use crate::clock::thread_cpu_ns;

/// What a thread has used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Time on a CPU.
    pub cpu_ns: u64,
    /// Time ready to run and waiting for a CPU; absent where the kernel does not count it.
    pub run_queue_ns: Option<u64>,
}

impl Usage {
    pub(super) fn of(tid: u32) -> Self {
        let path = format!("/proc/self/task/{tid}/schedstat");
        let text = std::fs::read_to_string(path).unwrap_or_default();
        let run_queue_ns = text.split_whitespace().nth(1).and_then(|field| field.parse().ok());
        Self { cpu_ns: thread_cpu_ns(tid).unwrap_or_default(), run_queue_ns }
    }

    /// Since `before`.
    pub fn since(self, before: Self) -> Self {
        let run_queue_ns = self.run_queue_ns.zip(before.run_queue_ns);
        Self {
            cpu_ns: self.cpu_ns.saturating_sub(before.cpu_ns),
            run_queue_ns: run_queue_ns.map(|(after, before)| after.saturating_sub(before)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn use_is_what_came_since() {
        let usage = |cpu_ns, run_queue_ns| Usage { cpu_ns, run_queue_ns };
        assert_eq!(usage(10, Some(7)).since(usage(4, Some(2))), usage(6, Some(5)));
        assert_eq!(usage(10, None).since(usage(4, Some(2))), usage(6, None));
    }
}
