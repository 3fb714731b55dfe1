//! Time by state.

use std::collections::BTreeMap;

use lockscope_ebpf::{STATE_COUNT, State};

use crate::model::PerTransaction;

/// Nanoseconds by state: of a task, of a side, of the transactions of one latency.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct States([u64; STATE_COUNT]);

impl Default for States {
    fn default() -> States {
        States([0; STATE_COUNT])
    }
}

impl From<[u64; STATE_COUNT]> for States {
    fn from(states_ns: [u64; STATE_COUNT]) -> States {
        States(states_ns)
    }
}

impl States {
    /// Adds time in a state.
    pub fn charge(&mut self, state: State, ns: u64) {
        if let Some(sum) = self.0.get_mut(usize::from(state.0)) {
            *sum += ns;
        }
    }

    /// Adds another task's.
    pub fn add(&mut self, more: &States) {
        for (sum, ns) in self.0.iter_mut().zip(&more.0) {
            *sum += ns;
        }
    }

    /// What came since `earlier`.
    pub fn since(&self, earlier: &States) -> States {
        let mut difference = self.clone();
        for (ns, before) in difference.0.iter_mut().zip(&earlier.0) {
            *ns = ns.saturating_sub(*before);
        }
        difference
    }

    /// Takes a state out.
    pub fn clear(&mut self, state: State) {
        if let Some(sum) = self.0.get_mut(usize::from(state.0)) {
            *sum = 0;
        }
    }

    /// Means over `transactions` (at least 1), without what lies between transactions.
    pub fn per_transaction(&self, transactions: u64) -> PerTransaction {
        let mean = |ns: u64| ns as f64 / transactions.max(1) as f64;
        let mut means = PerTransaction {
            cpu: Some(mean(self.ns(State::CPU))),
            io: Some(mean(self.ns(State::IO))),
            irq: Some(mean(self.ns(State::IRQ))),
            idle_in_transaction: Some(mean(self.ns(State::IDLE_IN_TRANSACTION))),
            ..PerTransaction::default()
        };
        for (state, ns) in self.iter() {
            let (name, Some(kind)) = state.name() else { continue };
            let kinds = match name {
                "runq" => &mut means.runq_by_cause,
                "spin" => &mut means.spin,
                "lock_sleep" => &mut means.lock_sleep,
                _ => &mut means.wait,
            };
            kinds.insert(kind.to_owned(), mean(ns));
        }
        means.runq = Some(means.runq_by_cause.values().sum());
        means
    }

    /// The time in one state.
    pub fn ns(&self, state: State) -> u64 {
        self.0.get(usize::from(state.0)).copied().unwrap_or(0)
    }

    /// Everything but waiting for work: `wait.Activity` of Postgres's housekeepers.
    pub fn at_work_ns(&self) -> u64 {
        let idle = [State::WAIT_ACTIVITY, State::WAIT_UNKNOWN, State::IDLE];
        self.total_ns() - idle.iter().map(|state| self.ns(*state)).sum::<u64>()
    }

    /// All of it.
    pub fn total_ns(&self) -> u64 {
        self.0.iter().sum()
    }

    /// The states that took time.
    pub fn iter(&self) -> impl Iterator<Item = (State, u64)> {
        State::all().map(|state| (state, self.ns(state))).filter(|(_, ns)| *ns > 0)
    }

    /// The same by name: `cpu`, `spin.osq`, `wait.LWLock`.
    pub fn by_name(&self) -> BTreeMap<String, u64> {
        self.iter().map(|(state, ns)| (States::name(state), ns)).collect()
    }

    /// A state's name in `states_ns`.
    pub fn name(state: State) -> String {
        match state.name() {
            (name, None) => name.to_owned(),
            (name, Some(kind)) => format!("{name}.{kind}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_are_added_subtracted_and_named() {
        let mut states = States::default();
        states.charge(State::CPU, 10);
        states.charge(State::wait(0x0100_0000), 5);
        let before = states.clone();
        states.charge(State::lock(0), 7);
        states.charge(State::CPU, 1);
        assert_eq!(states.since(&before).total_ns(), 8);
        let names: Vec<_> = states.by_name().into_iter().collect();
        let expected = [("cpu", 11), ("spin.osq", 7), ("wait.LWLock", 5)];
        assert_eq!(names, expected.map(|(name, ns)| (name.to_owned(), ns)));
        states.add(&before);
        assert_eq!(states.ns(State::CPU), 21);
    }
}
