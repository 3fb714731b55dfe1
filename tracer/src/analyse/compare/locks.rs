//! Locks by what they are, not by where they lie: addresses and CPU numbers change from run to run.

use std::collections::BTreeMap;

use super::sources::{Kind, Measured, whole};
use crate::model::{Lock, Run};

/// What makes two rows of two runs the same lock.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::analyse) struct LockIdentity {
    pub(in crate::analyse) class: String,
    pub(in crate::analyse) side: String,
    pub(in crate::analyse) name: String,
    pub(in crate::analyse) caller: Option<String>,
}

impl LockIdentity {
    fn of(lock: &Lock) -> LockIdentity {
        let caller = lock.caller.clone();
        let name = match lock.name.starts_with("0x") {
            // The address of one boot tells nothing of another.
            true => "unnamed".to_owned(),
            false => without_numbers(&lock.name),
        };
        LockIdentity { class: lock.class.clone(), side: lock.side.clone(), name, caller }
    }

    /// `rq[*].lock <- try_to_wake_up`.
    pub(in crate::analyse) fn place(&self) -> String {
        match &self.caller {
            Some(caller) if !self.name.contains(caller.as_str()) => {
                format!("{} <- {caller}", self.name)
            }
            _ => self.name.clone(),
        }
    }
}

/// `rq[3].lock` becomes `rq[*].lock`.
fn without_numbers(name: &str) -> String {
    let mut out = String::new();
    let mut rest = name;
    while let Some((before, after)) = rest.split_once('[') {
        let digits = after.len() - after.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        out += before;
        out += if digits > 0 && after[digits..].starts_with(']') { "[*" } else { "[" };
        rest = if out.ends_with('*') { &after[digits..] } else { after };
    }
    out + rest
}

/// Nanoseconds per traced transaction by lock and caller.
pub(in crate::analyse) fn per_transaction(run: &Run) -> BTreeMap<LockIdentity, f64> {
    let traced = run.throughput.traced_transactions_count;
    let mut sums = BTreeMap::new();
    for lock in run.locks.iter().filter(|_| traced > 0) {
        *sums.entry(LockIdentity::of(lock)).or_insert(0.0) += lock.total_ns as f64 / traced as f64;
    }
    sums
}

/// The lock table as metrics.
pub(super) fn locks(run: &Run) -> Vec<Measured> {
    let row = |(lock, ns): (LockIdentity, f64)| {
        let place = lock.place();
        let metric = format!("lock.{}.{} {place}", lock.side, lock.class);
        whole(metric, format!("{} {} {place}", lock.side, lock.class), Kind::TIME, ns)
    };
    per_transaction(run).into_iter().map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_in_brackets_are_instances() {
        for (name, expected) in [
            ("rq[3].lock", "rq[*].lock"),
            ("lru[12].list[0]", "lru[*].list[*]"),
            ("inode.i_rwsem (ext4)", "inode.i_rwsem (ext4)"),
            ("a[i]", "a[i]"),
            ("a[", "a["),
        ] {
            assert_eq!(without_numbers(name), expected);
        }
    }

    #[test]
    fn instances_add_up_and_addresses_are_no_names() {
        let lock = |name: &str, total_ns: u64| Lock {
            class: "rq".to_owned(),
            side: "server".to_owned(),
            name: name.to_owned(),
            caller: Some("__schedule".to_owned()),
            total_ns,
            ..Lock::default()
        };
        let mut run = Run::new();
        run.locks = vec![lock("rq[0].lock", 100), lock("rq[1].lock", 50), lock("0xffff", 10)];
        assert!(per_transaction(&run).is_empty(), "nothing to divide by");
        run.throughput.traced_transactions_count = 10;
        let found: Vec<(String, f64)> =
            per_transaction(&run).into_iter().map(|(lock, ns)| (lock.place(), ns)).collect();
        let expected = [("rq[*].lock <- __schedule", 15.0), ("unnamed <- __schedule", 1.0)]
            .map(|(l, ns)| (l.to_owned(), ns));
        assert_eq!(found, expected);
    }
}
