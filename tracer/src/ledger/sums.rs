//! Sums of accounts, and their nanoseconds per transaction.

use lockscope_ebpf::{CLASS_COUNT, LockClass, State, TaskAccount, WaitStats};

use super::states::States;
use crate::collect::{Machine, add_waits};
use crate::model::{PerTransaction, SideLedger};

/// Whose time is summed. The server is split in two: only a backend's time is part of a
/// transaction's latency.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Group {
    /// Client backends of the server, and their parallel workers.
    Backend,
    /// The server's other processes: postmaster, checkpointer, walwriter, …
    Background,
    /// The load generator's worker threads.
    Client,
    /// Everything else on the machine.
    Other,
}

impl Group {
    /// The word for it in the model.
    pub fn name(self) -> &'static str {
        match self {
            Group::Backend => "server",
            Group::Background => "background",
            Group::Client => "client",
            Group::Other => "other",
        }
    }
}

/// A sum over tasks, or the difference of two such sums.
#[derive(Clone, Debug)]
pub struct Sums {
    /// By class. The maxima are of the whole run, also in a difference.
    pub waits: [WaitStats; CLASS_COUNT],
    /// Waits of interrupts while one of the tasks was current.
    pub irq_count: u64,
    /// Nanoseconds of those.
    pub irq_ns: u64,
    /// Tasks summed.
    pub tasks_count: u64,
    /// Their wall time with the programs on; 0 for `Other`, which has none.
    pub wall_ns: u64,
    /// ReadyForQuery with status `I` that they sent.
    pub transactions_count: u64,
    /// Those that were told from their begin to their end, and counted.
    pub told_count: u64,
    /// Their time by state; nothing where the clocks are not kept.
    pub states: States,
}

impl Default for Sums {
    fn default() -> Self {
        Sums {
            waits: [WaitStats::ZERO; CLASS_COUNT],
            irq_count: 0,
            irq_ns: 0,
            tasks_count: 0,
            wall_ns: 0,
            transactions_count: 0,
            told_count: 0,
            states: States::default(),
        }
    }
}

impl Sums {
    /// Adds a task that was traced for `wall_ns`, and its time by state.
    pub fn add_task(&mut self, account: &TaskAccount, states: &States, wall_ns: u64) {
        self.add_waits(&account.waits);
        self.irq_count += account.irq_count;
        self.irq_ns += account.irq_ns;
        self.tasks_count += 1;
        self.wall_ns += wall_ns;
        self.transactions_count += account.transactions_count;
        self.told_count += account.told_count;
        self.states.add(states);
    }

    /// Adds the tasks that are not traced, as the CPUs counted them.
    pub fn add_others(&mut self, machine: &Machine) {
        self.add_waits(&machine.other_waits);
        self.irq_count += machine.other_irq_count;
        self.irq_ns += machine.other_irq_ns;
    }

    fn add_waits(&mut self, more: &[WaitStats; CLASS_COUNT]) {
        for (sum, waits) in self.waits.iter_mut().zip(more) {
            add_waits(sum, waits);
        }
    }

    /// What came since `earlier`.
    pub fn since(&self, earlier: &Sums) -> Sums {
        let mut difference = self.clone();
        for (waits, before) in difference.waits.iter_mut().zip(&earlier.waits) {
            waits.begin_count = waits.begin_count.saturating_sub(before.begin_count);
            waits.end_count = waits.end_count.saturating_sub(before.end_count);
            waits.total_ns = waits.total_ns.saturating_sub(before.total_ns);
        }
        difference.irq_count = self.irq_count.saturating_sub(earlier.irq_count);
        difference.irq_ns = self.irq_ns.saturating_sub(earlier.irq_ns);
        difference.wall_ns = self.wall_ns.saturating_sub(earlier.wall_ns);
        difference.transactions_count =
            self.transactions_count.saturating_sub(earlier.transactions_count);
        difference.told_count = self.told_count.saturating_sub(earlier.told_count);
        difference.states = self.states.since(&earlier.states);
        difference
    }

    /// Nanoseconds in spin classes.
    pub fn spin_ns(&self) -> u64 {
        self.ns_where(LockClass::is_spin)
    }

    /// Nanoseconds in sleep classes.
    pub fn lock_sleep_ns(&self) -> u64 {
        self.ns_where(|class| !class.is_spin())
    }

    fn ns_where(&self, wanted: impl Fn(LockClass) -> bool) -> u64 {
        self.by_class().filter(|(class, _)| wanted(*class)).map(|(_, waits)| waits.total_ns).sum()
    }

    /// The classes that had waits, in the classes' order.
    pub fn by_class(&self) -> impl Iterator<Item = (LockClass, &WaitStats)> {
        LockClass::ALL
            .into_iter()
            .zip(&self.waits)
            .filter(|(_, waits)| waits.begin_count > 0 || waits.end_count > 0)
    }

    /// Means over `transactions`; `None` when there were none.
    ///
    /// Every class of `measured` is there, also when it had no wait; the others were not measured.
    /// With `mean_latency_ns`, what lock time leaves of it is `not_split`. Lock time of a backend
    /// between its transactions counts too, so the rest is never less than 0.
    pub fn per_transaction(
        &self,
        measured: &[LockClass],
        transactions: u64,
        mean_latency_ns: Option<f64>,
    ) -> Option<PerTransaction> {
        if transactions == 0 {
            return None;
        }
        if self.states.total_ns() > 0 {
            return Some(self.split(measured, transactions, mean_latency_ns));
        }
        let mean = |ns: u64| ns as f64 / transactions as f64;
        let mut means = PerTransaction { irq: Some(mean(self.irq_ns)), ..Default::default() };
        for class in measured {
            let waits = &self.waits[*class as usize];
            let states = if class.is_spin() { &mut means.spin } else { &mut means.lock_sleep };
            states.insert(class.name().to_owned(), mean(waits.total_ns));
        }
        means.not_split = mean_latency_ns.map(|latency| (latency - means.lock_ns()).max(0.0));
        Some(means)
    }

    /// The same from the clocks, which split all of the time.
    fn split(
        &self,
        measured: &[LockClass],
        transactions: u64,
        mean_latency_ns: Option<f64>,
    ) -> PerTransaction {
        let mut states = self.states.clone();
        if mean_latency_ns.is_some() {
            // Asleep for the client: no part of its transaction.
            states.clear(State::WAIT_CLIENT);
        }
        let mut means = states.per_transaction(transactions);
        for class in measured {
            let classes = if class.is_spin() { &mut means.spin } else { &mut means.lock_sleep };
            classes.entry(class.name().to_owned()).or_insert(0.0);
        }
        means.client_and_transport =
            mean_latency_ns.map(|latency| (latency - means.total_ns()).max(0.0));
        means
    }

    /// The account as the model has it; without a transaction there are no means.
    pub fn side_ledger(
        &self,
        measured: &[LockClass],
        transactions: u64,
        mean_latency_ns: Option<f64>,
    ) -> SideLedger {
        let means = self.per_transaction(measured, transactions, mean_latency_ns);
        SideLedger {
            per_transaction_ns: means.unwrap_or_default(),
            transactions_count: None,
            latency_ns: None,
            by_latency: Vec::new(),
            tasks_count: self.tasks_count,
            wall_ns: (self.wall_ns > 0).then_some(self.wall_ns),
            states_ns: self.states.by_name(),
            balance: (self.wall_ns > 0 && self.states.total_ns() > 0)
                .then(|| self.states.total_ns() as f64 / self.wall_ns as f64),
            wait_counts: measured
                .iter()
                .map(|class| (class.name().to_owned(), self.waits[*class as usize].end_count))
                .collect(),
            waits_ns: measured
                .iter()
                .map(|class| (class.name().to_owned(), self.waits[*class as usize].total_ns))
                .collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use lockscope_ebpf::Side;

    use super::*;

    fn account(class: LockClass, count: u64, total_ns: u64) -> TaskAccount {
        let mut account = TaskAccount::new(1, Side::Server, 0);
        let waits = &mut account.waits[class as usize];
        waits.begin_count = count;
        waits.end_count = count;
        waits.total_ns = total_ns;
        account.irq_ns = 10;
        account
    }

    #[test]
    fn states_and_the_rest_sum_to_the_mean_latency() {
        let mut sums = Sums::default();
        sums.add_task(&account(LockClass::Osq, 2, 400), &States::default(), 1_000);
        sums.add_task(&account(LockClass::Mutex, 1, 580), &States::default(), 1_000);
        let means = sums.per_transaction(&LockClass::ALL, 10, Some(1_000.0)).unwrap();
        assert_eq!(means.spin["osq"], 40.0);
        assert_eq!(means.lock_sleep["mutex"], 58.0);
        assert_eq!(means.irq, Some(2.0));
        assert_eq!(means.lock_ns() + means.not_split.unwrap(), 1_000.0);
        assert_eq!(sums.tasks_count, 2);
        assert_eq!(means.spin["rq"], 0.0, "measured, and no wait");
        let without_osq = sums.per_transaction(&[LockClass::Mutex], 10, None).unwrap();
        assert!(!without_osq.spin.contains_key("osq"), "not measured");
        assert!(sums.per_transaction(&LockClass::ALL, 0, None).is_none());
    }

    #[test]
    fn an_interval_is_the_difference_of_two_sums() {
        let mut before = Sums::default();
        before.add_task(&account(LockClass::Rq, 1, 100), &States::default(), 50);
        let mut after = Sums::default();
        after.add_task(&account(LockClass::Rq, 4, 700), &States::default(), 90);
        let interval = after.since(&before);
        assert_eq!(interval.waits[LockClass::Rq as usize].total_ns, 600);
        assert_eq!(interval.waits[LockClass::Rq as usize].end_count, 3);
        assert_eq!(interval.wall_ns, 40);
        assert_eq!((interval.spin_ns(), interval.lock_sleep_ns()), (600, 0));
    }

    #[test]
    fn the_clocks_split_all_of_the_latency() {
        let mut states = States::default();
        for (state, ns) in [
            (State::CPU, 400),
            (State::QUEUED, 90),
            (State::WAKEUP, 10),
            (State::lock(LockClass::Osq as u8), 20),
            (State::lock(LockClass::Mutex as u8), 30),
            (State::wait(0x0100_0000), 40),
            (State::IRQ, 10),
            (State::IDLE, 5_000),
            (State::BETWEEN_CPU, 60),
            (State::WAIT_CLIENT, 7_000),
        ] {
            states.charge(state, ns);
        }
        let mut sums = Sums::default();
        sums.add_task(&account(LockClass::Osq, 2, 400), &states, 12_660);
        let ledger = sums.side_ledger(&LockClass::ALL, 10, Some(100.0));
        let means = ledger.per_transaction_ns;
        assert_eq!((means.cpu, means.runq, means.irq), (Some(40.0), Some(10.0), Some(1.0)));
        assert_eq!((means.spin["osq"], means.lock_sleep["mutex"]), (2.0, 3.0));
        assert_eq!((means.spin["rq"], means.not_split), (0.0, None));
        assert_eq!(means.wait["LWLock"], 4.0);
        assert_eq!(means.client_and_transport, Some(40.0));
        assert_eq!(means.total_ns() + means.rest_ns().unwrap(), 100.0);
        assert_eq!(ledger.balance, Some(1.0));
        assert_eq!(ledger.states_ns["idle"], 5_000);
    }
}
