//! From one task's switches and wakings to its sleeps: where it slept, for how long, who woke it.
//! Without a kernel, so that it is tested without one.

/// What happened to the watched task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// It is about to leave its CPU, and this is its stack (numbers of places, innermost first).
    Stack(Vec<u32>),
    /// It has left it; `preempted` = to make room, not to sleep.
    Out { preempted: bool },
    /// Somebody wakes it, and this is their stack.
    Waking { waker: u32, stack: Vec<u32> },
    /// It has a CPU again.
    In,
}

/// Where a task slept.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Where {
    /// Its stack, by numbers of places.
    Stack(Vec<u32>),
    /// It slept when the watching began: the kernel's part by name, as `/proc/TID/stack` tells it.
    Kernel(Vec<String>),
}

/// A sleep, up to its waking.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Sleep {
    pub(super) place: Where,
    pub(super) duration_ns: u64,
    /// Who ended it, and their stack; `None` when it did not end.
    pub(super) waker: Option<(u32, Vec<u32>)>,
}

/// The sleeps between two moments, cut at both. `asleep` is where the task slept at the begin.
pub(super) fn sleeps(
    begin_ns: u64,
    end_ns: u64,
    asleep: Option<Vec<String>>,
    steps: &[(u64, Step)],
) -> Vec<Sleep> {
    let mut found = Vec::new();
    let mut last_stack = None;
    // Where it sleeps, and since when.
    let mut open = asleep.map(|frames| (Where::Kernel(frames), begin_ns));
    for (at_ns, step) in steps {
        let at_ns = (*at_ns).clamp(begin_ns, end_ns);
        let mut end = |open: &mut Option<(Where, u64)>, waker| {
            if let Some((place, since_ns)) = open.take() {
                found.push(Sleep { place, duration_ns: at_ns.saturating_sub(since_ns), waker });
            }
        };
        match step {
            Step::Stack(stack) => last_stack = Some(stack.clone()),
            Step::Out { preempted: true } => last_stack = None,
            Step::Out { preempted: false } => {
                open = last_stack.take().map(|stack| (Where::Stack(stack), at_ns));
            }
            Step::Waking { waker, stack } => end(&mut open, Some((*waker, stack.clone()))),
            // Nobody was seen waking it: another task's waking may have been lost.
            Step::In => end(&mut open, None),
        }
    }
    if let Some((place, since_ns)) = open {
        found.push(Sleep { place, duration_ns: end_ns.saturating_sub(since_ns), waker: None });
    }
    found
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn stack(number: u32) -> Step {
        Step::Stack(vec![number])
    }

    const OUT: Step = Step::Out { preempted: false };

    fn waking(waker: u32) -> Step {
        Step::Waking { waker, stack: vec![9] }
    }

    fn found(asleep: Option<Vec<String>>, steps: &[(u64, Step)]) -> Vec<(Where, u64, Option<u32>)> {
        let sleeps = sleeps(100, 200, asleep, steps).into_iter();
        sleeps.map(|s| (s.place, s.duration_ns, s.waker.map(|(tid, _)| tid))).collect()
    }

    #[test]
    fn a_sleep_ends_when_it_is_woken_not_when_it_runs() {
        let steps = [(110, stack(1)), (111, OUT), (131, waking(7)), (140, Step::In)];
        assert_eq!(found(None, &steps), [(Where::Stack(vec![1]), 20, Some(7))]);
    }

    #[test]
    fn preemption_is_no_sleep() {
        let out = Step::Out { preempted: true };
        assert_eq!(found(None, &[(110, stack(1)), (111, out), (140, Step::In)]), []);
    }

    #[test]
    fn what_the_window_cuts_counts_as_far_as_it_is_inside() {
        let kernel = || Some(vec!["pipe_read".to_owned()]);
        let at_begin = Where::Kernel(vec!["pipe_read".to_owned()]);
        assert_eq!(found(kernel(), &[]), [(at_begin.clone(), 100, None)]);
        let steps = [(130, waking(7)), (131, Step::In), (150, stack(2)), (150, OUT)];
        let expected = [(at_begin, 30, Some(7)), (Where::Stack(vec![2]), 50, None)];
        assert_eq!(found(kernel(), &steps), expected);
    }

    proptest! {
        /// Whatever comes in whatever order, no more time is found than there was.
        #[test]
        fn sleeps_do_not_overlap(steps in prop::collection::vec((90_u64..210, 0_u8..5), 0..40)) {
            let mut steps: Vec<(u64, Step)> = steps
                .into_iter()
                .map(|(at, kind)| (at, match kind {
                    0 => stack(1),
                    1 => OUT,
                    2 => Step::Out { preempted: true },
                    3 => waking(7),
                    _ => Step::In,
                }))
                .collect();
            steps.sort_by_key(|(at, _)| *at);
            let total: u64 = sleeps(100, 200, None, &steps).iter().map(|s| s.duration_ns).sum();
            prop_assert!(total <= 100, "{}", total);
        }
    }
}
