//! The end of a load: clients may finish what they are doing, for a while.

use std::time::Duration;

/// How long clients may go on after the end of the run, counted from it.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// Until it is said that they are waited for.
    pub silent: Duration,
    /// Until the server is asked to cancel their statements.
    pub before_cancel: Duration,
    /// Until clients are given up that have not ended even so.
    pub before_cut: Duration,
}

impl Patience {
    /// After the time of the run.
    pub const PLANNED: Self = Self {
        silent: Duration::from_secs(1),
        before_cancel: Duration::from_secs(5),
        before_cut: Duration::from_secs(7),
    };
    /// When the user wants the end.
    pub const INTERRUPTED: Self = Self {
        silent: Duration::from_millis(300),
        before_cancel: Duration::from_millis(500),
        before_cut: Duration::from_millis(2500),
    };
}

/// What there is to be done for clients that have not ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Say,
    Cancel,
    Cut,
}

/// Steps that have been taken.
#[derive(Debug, Default)]
pub(super) struct Steps {
    taken: usize,
}

impl Steps {
    /// The next step, once it is due.
    pub(super) fn next(&mut self, patience: &Patience, elapsed: Duration) -> Option<Step> {
        let steps = [
            (patience.silent, Step::Say),
            (patience.before_cancel, Step::Cancel),
            (patience.before_cut, Step::Cut),
        ];
        let (due, step) = *steps.get(self.taken)?;
        if elapsed < due {
            return None;
        }
        self.taken += 1;
        Some(step)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_come_once_each_and_in_order() {
        let mut steps = Steps::default();
        let mut at = |ms| steps.next(&Patience::INTERRUPTED, Duration::from_millis(ms));
        assert_eq!(at(299), None);
        assert_eq!((at(300), at(301)), (Some(Step::Say), None));
        assert_eq!((at(3000), at(3000), at(3000)), (Some(Step::Cancel), Some(Step::Cut), None));
    }
}
