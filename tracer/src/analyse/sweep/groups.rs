//! The ledger's states in a few groups, as tables and pictures of several runs show them.

use crate::model::Step;

/// States that are shown as one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StateGroup {
    /// Its heading.
    pub title: &'static str,
    /// The states, or their parts before a point: `spin` is every `spin.*`.
    states: &'static [&'static str],
}

/// Every state is in one of them, from the inside of the server outwards.
pub const STATE_GROUPS: [StateGroup; 7] = [
    StateGroup { title: "cpu", states: &["cpu"] },
    StateGroup { title: "spin", states: &["spin", "irq"] },
    StateGroup { title: "lock sleep", states: &["lock_sleep"] },
    StateGroup { title: "run queue", states: &["runq"] },
    StateGroup { title: "io", states: &["io"] },
    StateGroup { title: "other wait", states: &["wait", "idle_in_transaction"] },
    StateGroup { title: "client, transport", states: &["client_and_transport", "not_split"] },
];

impl StateGroup {
    /// The step's nanoseconds per transaction in each of its states; none that was not measured.
    pub fn times_ns(self, step: &Step) -> impl Iterator<Item = f64> + '_ {
        let is_one =
            move |state: &str| self.states.contains(&state.split('.').next().unwrap_or(state));
        step.states_ns.iter().filter(move |(state, _)| is_one(state)).map(|(_, ns)| *ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::PerTransaction;

    /// The columns of a table add up to the whole.
    #[test]
    fn every_state_is_in_one_group() {
        let kinds = |names: &[&str]| names.iter().map(|name| ((*name).to_owned(), 1.0)).collect();
        let account = PerTransaction {
            cpu: Some(1.0),
            io: Some(1.0),
            irq: Some(1.0),
            idle_in_transaction: Some(1.0),
            runq_by_cause: kinds(&["queued", "wakeup"]),
            spin: kinds(&["osq", "rq"]),
            lock_sleep: kinds(&["mutex"]),
            wait: kinds(&["LWLock", "IO"]),
            ..PerTransaction::default()
        };
        let mut step = Step { states_ns: account.states(), ..Step::default() };
        step.states_ns.insert("client_and_transport".to_owned(), 1.0);
        let grouped: Vec<usize> =
            STATE_GROUPS.iter().map(|group| group.times_ns(&step).count()).collect();
        assert_eq!(grouped, [1, 3, 1, 2, 1, 3, 1]);
        assert_eq!(grouped.iter().sum::<usize>(), step.states_ns.len());
    }
}
