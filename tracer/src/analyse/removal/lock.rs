//! The lock that costs the server most, and its part of each class's time.

use std::collections::BTreeMap;

use crate::analyse::compare::{LockIdentity, per_transaction};
use crate::model::{Run, SideLedger};

/// Waits of one name, whatever the instance, class and caller.
pub(super) struct NamedLock {
    pub(super) name: String,
    /// Where the server waits for it most.
    pub(super) caller: Option<String>,
    /// Its share of each class's waits, 0..1, by side and class.
    shares: BTreeMap<(String, String), f64>,
}

impl NamedLock {
    /// Every lock that has a name, or at least a caller.
    pub(super) fn all(run: &Run) -> Vec<NamedLock> {
        let waits = per_transaction(run);
        let classes = class_totals(run, &waits);
        let mut locks: BTreeMap<String, (NamedLock, f64)> = BTreeMap::new();
        for (lock, ns) in &waits {
            let Some(name) = name_of(lock) else { continue };
            let (named, heaviest_ns) = locks.entry(name.clone()).or_insert_with(|| {
                (NamedLock { name, caller: None, shares: BTreeMap::new() }, 0.0)
            });
            if lock.side == "server" && *ns > *heaviest_ns {
                named.caller.clone_from(&lock.caller);
                *heaviest_ns = *ns;
            }
            let key = (lock.side.clone(), lock.class.clone());
            let whole = classes.get(&key).copied().unwrap_or(0.0);
            if whole > 0.0 {
                *named.shares.entry(key).or_insert(0.0) += ns / whole;
            }
        }
        locks.into_values().map(|(lock, _)| lock).collect()
    }

    /// One of another run.
    pub(super) fn never_waited_for(name: &str) -> NamedLock {
        NamedLock { name: name.to_owned(), caller: None, shares: BTreeMap::new() }
    }

    /// Classes of the server's waits for it.
    pub(super) fn classes(&self) -> Vec<String> {
        let of_server = self.shares.keys().filter(|(side, _)| side == "server");
        of_server.map(|(_, class)| class.clone()).collect()
    }

    /// The server's time in it within transactions, per transaction: spinning and asleep.
    pub(super) fn in_transaction_ns(&self, server: &SideLedger) -> (f64, f64) {
        let account = &server.per_transaction_ns;
        let of = |states: &BTreeMap<String, f64>| {
            let part = |(class, ns): (&String, &f64)| ns * self.share("server", class);
            states.iter().map(part).sum::<f64>()
        };
        (of(&account.spin), of(&account.lock_sleep))
    }

    /// All of a side's spinning on it, also between transactions.
    pub(super) fn spinning_ns(&self, side: &str, ledger: &SideLedger) -> f64 {
        let of_class = |(state, ns): (&String, &u64)| {
            let class = state.strip_prefix("spin.")?;
            Some(*ns as f64 * self.share(side, class))
        };
        ledger.states_ns.iter().filter_map(of_class).sum()
    }

    fn share(&self, side: &str, class: &str) -> f64 {
        self.shares.get(&(side.to_owned(), class.to_owned())).copied().unwrap_or(0.0)
    }
}

fn name_of(lock: &LockIdentity) -> Option<String> {
    if lock.name == "unnamed" { lock.caller.clone() } else { Some(lock.name.clone()) }
}

/// Waits per transaction by side and class. Those that found no room in the table of locks are in the
/// class's own sum alone.
fn class_totals(run: &Run, waits: &BTreeMap<LockIdentity, f64>) -> BTreeMap<(String, String), f64> {
    let mut listed: BTreeMap<(String, String), f64> = BTreeMap::new();
    for (lock, ns) in waits {
        *listed.entry((lock.side.clone(), lock.class.clone())).or_insert(0.0) += ns;
    }
    let transactions = run.throughput.traced_transactions_count.max(1) as f64;
    let ledger = &run.ledger;
    for (side, ledger) in [("server", &ledger.server), ("client", &ledger.client)] {
        for (class, ns) in ledger.iter().flat_map(|ledger| &ledger.waits_ns) {
            let all = listed.entry((side.to_owned(), class.clone())).or_insert(0.0);
            *all = all.max(*ns as f64 / transactions);
        }
    }
    listed
}
