//! Every task that was ever traced, with its newest (or last) account and what it is.

use std::collections::{BTreeMap, HashMap};

use lockscope_ebpf::{Gate, LockClass, Side, State, TaskAccount, WaitStats};

use super::slices::Slices;
use super::states::States;
use super::sums::{Group, Sums};
use crate::collect::Snapshot;
use crate::model::Backend;

const AUTOVACUUM_WORKER: &str = "autovacuum worker";
/// Roles whose work may explain an interval, and what it is called.
const HOUSEKEEPERS: [(&str, &str); 2] =
    [("checkpointer", "checkpoint"), (AUTOVACUUM_WORKER, "autovacuum")];

/// A task: a tid and when its account was opened, for tids come back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TaskKey {
    /// Thread id in the initial pid namespace.
    pub tid: u32,
    /// CLOCK_MONOTONIC.
    pub since_ns: u64,
}

/// What is known of a task.
#[derive(Clone, Debug)]
pub struct TaskRecord {
    /// Its newest account.
    pub account: TaskAccount,
    /// `client backend`, `checkpointer`, `load worker`, …
    pub role: String,
    /// Whose time it is.
    pub group: Group,
    /// What was open in its clock whenever the gate was shut.
    folded: States,
    /// What is open in its clock now.
    open: States,
}

impl TaskRecord {
    fn new(account: TaskAccount, role: String, group: Group) -> TaskRecord {
        TaskRecord { account, role, group, folded: States::default(), open: States::default() }
    }

    /// Its time by state, what is open in its clock included.
    pub fn states(&self) -> States {
        let mut states = States::from(self.account.clock.states_ns);
        states.add(&self.folded);
        states.add(&self.open);
        states
    }

    /// The state that the clock has open, and how long within this opening of the gate. A task that
    /// has had no event in it is looked at.
    fn open_state(
        &self,
        gate: &Gate,
        now_ns: u64,
        look: impl FnOnce() -> State,
    ) -> Option<(State, u64)> {
        let account = &self.account;
        let end_ns = if account.exited == 0 { now_ns } else { account.exited_ns.min(now_ns) };
        if let Some(open_ns) = account.clock.open_ns(gate, end_ns) {
            return Some((account.clock.state, open_ns));
        }
        let open_ns = end_ns.saturating_sub(gate.opened_ns.max(account.since_ns));
        (open_ns > 0).then(|| (look(), open_ns))
    }
}

/// What ended before it was looked at was a child of the server.
const SHORT_LIVED: &str = "short-lived child";

/// All of them.
#[derive(Clone, Debug, Default)]
pub struct Accounts {
    tasks: HashMap<TaskKey, TaskRecord>,
}

impl Accounts {
    /// Takes the accounts of a snapshot. A task that is seen first is classified by `classify`
    /// (tid, account → role, group), while it still lives if it does; and again when it has sent its first
    /// reply, for it may have been seen first before it was what it is.
    pub fn update(
        &mut self,
        snapshot: &Snapshot,
        mut classify: impl FnMut(u32, &TaskAccount) -> Option<(String, Group)>,
    ) {
        for (tid, account) in &snapshot.tasks {
            let key = TaskKey { tid: *tid, since_ns: account.since_ns };
            match self.tasks.get_mut(&key) {
                Some(record) => {
                    let had_replied = record.account.requests_count > 0;
                    record.account = *account;
                    if !had_replied
                        && account.requests_count > 0
                        && let Some((role, group)) = classify(*tid, account)
                    {
                        (record.role, record.group) = (role, group);
                    }
                }
                None => {
                    let (role, group) = classify(*tid, account)
                        .unwrap_or((SHORT_LIVED.to_owned(), Group::Background));
                    self.tasks.insert(key, TaskRecord::new(*account, role, group));
                }
            }
        }
    }

    /// Gives the tasks that live the role that they have now.
    pub fn reclassify(
        &mut self,
        mut role: impl FnMut(&TaskKey, &TaskRecord) -> Option<(String, Group)>,
    ) {
        let living = self.tasks.iter_mut().filter(|(_, record)| record.account.exited == 0);
        for (key, record) in living {
            if let Some((role, group)) = role(key, record) {
                record.role = role;
                record.group = group;
            }
        }
    }

    /// The gate was shut at `shut_ns`: charges what the clocks have open to the states that they
    /// are in. `look` tells that of a task which has had no event in this opening.
    pub fn end_opening(
        &mut self,
        gate: &Gate,
        shut_ns: u64,
        mut look: impl FnMut(u32, &TaskAccount) -> State,
    ) {
        for (key, record) in &mut self.tasks {
            let open = record.open_state(gate, shut_ns, || look(key.tid, &record.account));
            record.open = States::default();
            if let Some((state, ns)) = open {
                record.folded.charge(state, ns);
            }
        }
    }

    /// The same for a reading while the gate is open: the next one begins anew. A task without an
    /// event is taken to go on with what it did.
    pub fn look_into_opening(&mut self, gate: &Gate, now_ns: u64) {
        for record in self.tasks.values_mut() {
            let open = record.open_state(gate, now_ns, || record.account.clock.state);
            record.open = States::default();
            if let Some((state, ns)) = open {
                record.open.charge(state, ns);
            }
        }
    }

    /// Every task, in no order.
    pub fn iter(&self) -> impl Iterator<Item = (&TaskKey, &TaskRecord)> {
        self.tasks.iter()
    }

    /// Wall time of a task with the programs on, up to `now_ns`.
    pub fn wall_ns(account: &TaskAccount, slices: &Slices, now_ns: u64) -> u64 {
        let end_ns = if account.exited == 0 { now_ns } else { account.exited_ns.min(now_ns) };
        slices.on_ns_between(account.since_ns, end_ns)
    }

    /// How long the server's housekeepers have been at work: everything but their wait for work.
    /// Nothing where Postgres does not tell what it waits for.
    pub fn at_work(&self) -> HashMap<&'static str, u64> {
        let mut found = HashMap::new();
        for record in self.tasks.values() {
            let kind = HOUSEKEEPERS.iter().find(|(role, _)| *role == record.role);
            let states = record.states();
            let waited = states.ns(State::WAIT_ACTIVITY) > 0 || record.role == AUTOVACUUM_WORKER;
            if let Some((_, kind)) = kind.filter(|_| waited) {
                *found.entry(*kind).or_default() += states.at_work_ns();
            }
        }
        found
    }

    /// The sum over a group.
    pub fn sums(&self, group: Group, slices: &Slices, now_ns: u64) -> Sums {
        self.sums_where(slices, now_ns, |record| record.group == group)
    }

    /// Transactions that were told, by the set of latency buckets that they are counted in.
    pub fn told_by_set(&self) -> BTreeMap<u8, u64> {
        let mut told = BTreeMap::new();
        for account in self.tasks.values().map(|record| &record.account) {
            *told.entry(account.counted).or_default() += account.told_count;
        }
        told
    }

    /// From the first session that has told a transaction to the end of the last one.
    pub fn load_between(&self, now_ns: u64) -> Option<(u64, u64)> {
        let accounts = || self.tasks.values().map(|record| &record.account);
        let sessions = || accounts().filter(|account| account.told_count > 0);
        let end_ns = |account: &TaskAccount| match account.exited {
            0 => now_ns,
            _ => account.exited_ns.min(now_ns),
        };
        let begin_ns = sessions().map(|account| account.since_ns).min()?;
        Some((begin_ns, sessions().map(end_ns).max()?))
    }

    /// The sum over the tasks that are wanted.
    pub fn sums_where(
        &self,
        slices: &Slices,
        now_ns: u64,
        wanted: impl Fn(&TaskRecord) -> bool,
    ) -> Sums {
        let mut sums = Sums::default();
        for record in self.tasks.values().filter(|record| wanted(record)) {
            let wall_ns = Self::wall_ns(&record.account, slices, now_ns);
            sums.add_task(&record.account, &record.states(), wall_ns);
        }
        sums
    }

    /// One row a task, most lock time first, then by tid.
    ///
    /// `transactions` tells those of a backend, by its tid and account.
    pub fn backends(
        &self,
        slices: &Slices,
        now_ns: u64,
        transactions: impl Fn(u32, &TaskAccount) -> Option<u64>,
    ) -> Vec<Backend> {
        let row = |(key, record): (&TaskKey, &TaskRecord)| {
            let wall_ns = Self::wall_ns(&record.account, slices, now_ns);
            let is_backend = record.group == Group::Backend;
            let transactions = is_backend.then(|| transactions(key.tid, &record.account)).flatten();
            backend(key, record, wall_ns, transactions)
        };
        let mut rows: Vec<Backend> = self.tasks.iter().map(row).collect();
        rows.sort_by_key(|row| {
            (std::cmp::Reverse(row.spin_ns + row.lock_sleep_ns + row.irq_ns), row.tid)
        });
        rows
    }
}

fn backend(
    key: &TaskKey,
    record: &TaskRecord,
    wall_ns: u64,
    transactions_count: Option<u64>,
) -> Backend {
    let account = &record.account;
    let mut sums = Sums::default();
    sums.add_task(account, &record.states(), wall_ns);
    Backend {
        pid: account.tgid,
        tid: key.tid,
        side: Side::ALL
            .get(usize::from(account.side))
            .map_or("other", |side| side.name())
            .to_owned(),
        role: record.role.clone(),
        transactions_count,
        wall_ns,
        spin_ns: sums.spin_ns(),
        lock_sleep_ns: sums.lock_sleep_ns(),
        irq_ns: account.irq_ns,
        irq_count: account.irq_count,
        inner_pid: None,
        schedstat_cpu_ns: None,
        schedstat_runq_ns: None,
        states_ns: states_ns(account, &sums.states),
        wait_counts: ended(account)
            .map(|(class, waits)| (class.name().to_owned(), waits.end_count))
            .collect(),
    }
}

/// By state; where the clocks are not kept, the lock waits alone.
fn states_ns(account: &TaskAccount, states: &States) -> BTreeMap<String, u64> {
    if states.total_ns() > 0 {
        return states.by_name();
    }
    ended(account).map(|(class, waits)| (state_name(class), waits.total_ns)).collect()
}

/// The classes in which a wait ended.
fn ended(account: &TaskAccount) -> impl Iterator<Item = (LockClass, &WaitStats)> {
    LockClass::ALL.into_iter().zip(&account.waits).filter(|(_, waits)| waits.end_count > 0)
}

/// `spin.osq`, `lock_sleep.mutex`: the ledger's state with its class.
fn state_name(class: LockClass) -> String {
    States::name(State::lock(class as u8))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn snapshot(tasks: &[(u32, TaskAccount)]) -> Snapshot {
        Snapshot { tasks: tasks.iter().copied().collect(), ..Snapshot::default() }
    }

    #[test]
    fn a_tid_that_comes_back_is_another_task() {
        let mut accounts = Accounts::default();
        let mut first = TaskAccount::new(7, Side::Server, 10);
        first.transactions_count = 3;
        first.exited = 1;
        first.exited_ns = 60;
        let backend = |_: u32, _: &TaskAccount| Some(("client backend".to_owned(), Group::Backend));
        accounts.update(&snapshot(&[(7, first)]), backend);
        let mut second = TaskAccount::new(7, Side::Server, 80);
        second.transactions_count = 2;
        accounts.update(&snapshot(&[(7, second)]), backend);

        let mut slices = Slices::default();
        slices.begin(true, 0);
        slices.end(100);
        let sums = accounts.sums(Group::Backend, &slices, 100);
        assert_eq!(sums.transactions_count, 5);
        assert_eq!(sums.tasks_count, 2);
        assert_eq!(sums.wall_ns, 50 + 20);
    }

    #[test]
    fn a_session_that_was_seen_before_its_first_reply_is_a_backend_also_when_it_has_ended() {
        let mut accounts = Accounts::default();
        let classify = |_: u32, account: &TaskAccount| {
            // The title of a child that has just been forked is the postmaster's.
            let replied = account.requests_count > 0;
            let role = if replied { "client backend" } else { "postmaster" };
            Some((role.to_owned(), if replied { Group::Backend } else { Group::Background }))
        };
        let mut session = TaskAccount::new(7, Side::Server, 10);
        accounts.update(&snapshot(&[(7, session)]), classify);
        (session.requests_count, session.transactions_count) = (2, 1);
        (session.exited, session.exited_ns) = (1, 60);
        accounts.update(&snapshot(&[(7, session)]), classify);
        let (_, record) = accounts.iter().next().unwrap();
        assert_eq!((record.role.as_str(), record.group), ("client backend", Group::Backend));
        // Who is gone when it is looked at again stays what it was.
        let mut other = TaskAccount::new(8, Side::Server, 10);
        accounts.update(&snapshot(&[(8, other)]), classify);
        other.requests_count = 1;
        accounts.update(&snapshot(&[(8, other)]), |_, _| None);
        let (_, record) = accounts.iter().find(|(key, _)| key.tid == 8).unwrap();
        assert_eq!(record.group, Group::Background);
    }

    #[test]
    fn a_checkpointer_that_waits_for_work_is_not_at_work() {
        let mut account = TaskAccount::new(9, Side::Server, 0);
        account.clock.states_ns[usize::from(State::WAIT_ACTIVITY.0)] = 900;
        account.clock.states_ns[usize::from(State::CPU.0)] = 60;
        account.clock.states_ns[usize::from(State::IO.0)] = 40;
        let mut accounts = Accounts::default();
        for role in ["checkpointer", "walwriter"] {
            let tid = role.len() as u32;
            accounts.update(&snapshot(&[(tid, account)]), |_, _| {
                Some((role.to_owned(), Group::Background))
            });
        }
        assert_eq!(accounts.at_work(), HashMap::from([("checkpoint", 100)]));
    }

    #[test]
    fn rows_come_with_most_lock_time_first() {
        let mut accounts = Accounts::default();
        let mut busy = TaskAccount::new(2, Side::Server, 0);
        busy.waits[LockClass::Osq as usize].end_count = 1;
        busy.waits[LockClass::Osq as usize].total_ns = 9;
        let idle = TaskAccount::new(1, Side::Client, 0);
        accounts.update(&snapshot(&[(1, idle), (2, busy)]), |tid, _| {
            let group = if tid == 2 { Group::Backend } else { Group::Client };
            Some(("role".to_owned(), group))
        });
        let rows = accounts
            .backends(&Slices::default(), 100, |_, account| Some(account.transactions_count));
        assert_eq!(rows.iter().map(|row| row.tid).collect::<Vec<_>>(), [2, 1]);
        assert_eq!(rows[0].states_ns["spin.osq"], 9);
        assert_eq!(rows[0].wait_counts["osq"], 1);
        assert_eq!(rows[0].transactions_count, Some(0));
        assert_eq!(rows[1].transactions_count, None, "a load worker sends no ReadyForQuery");
    }
}
