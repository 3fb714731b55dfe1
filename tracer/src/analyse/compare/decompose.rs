//! Where the time went that one side takes longer: a difference of means is the sum of the differences of
//! the ledger's states.

use std::collections::{BTreeMap, BTreeSet};

use super::locks::{LockIdentity, per_transaction};
use super::sources::state_label;
use crate::model::{Decomposition, LockPart, Part, Run};

/// Nanoseconds per transaction by state.
type Parts = BTreeMap<String, f64>;
/// A run's account: what its parts add up to, and the parts.
type Account = (f64, Parts);
/// What depth `locks` does not tell apart.
const NOT_SPLIT: &str = "not_split";

/// Every decomposition that all runs of both sides allow.
pub(in crate::analyse) fn decompose(base: &[Run], new: &[Run]) -> Vec<Decomposition> {
    let latency = of("mean_latency", "mean latency of the traced transactions", latency, base, new);
    let cycle = of(
        "clients_over_tps",
        "clients / tps: the time a client takes for a transaction",
        clients_over_tps,
        base,
        new,
    );
    latency.into_iter().chain(cycle).collect()
}

fn of(
    name: &str,
    title: &str,
    account: fn(&Run) -> Option<Account>,
    base: &[Run],
    new: &[Run],
) -> Option<Decomposition> {
    let (base_ns, mut base_parts) = mean(base, account)?;
    let (new_ns, mut new_parts) = mean(new, account)?;
    if base_parts.contains_key(NOT_SPLIT) || new_parts.contains_key(NOT_SPLIT) {
        [&mut base_parts, &mut new_parts].into_iter().for_each(fold);
    }
    let whole = new_ns - base_ns;
    let states: BTreeSet<&String> = base_parts.keys().chain(new_parts.keys()).collect();
    let locks = lock_changes(base, new);
    let mut parts: Vec<Part> = states
        .into_iter()
        .map(|state| {
            let of = |parts: &Parts| parts.get(state).copied().unwrap_or(0.0);
            let (base_ns, new_ns) = (of(&base_parts), of(&new_parts));
            Part {
                state: state.clone(),
                label: part_label(state),
                base_ns,
                new_ns,
                difference_ns: new_ns - base_ns,
                share: (whole != 0.0).then(|| (new_ns - base_ns) / whole),
                lock: None,
            }
        })
        .filter(|part| part.base_ns != 0.0 || part.new_ns != 0.0)
        .collect();
    parts.sort_by(|a, b| b.difference_ns.abs().total_cmp(&a.difference_ns.abs()));
    for part in &mut parts {
        part.lock = heaviest_lock(part, &locks);
    }
    let sum: f64 = parts.iter().map(|part| part.difference_ns).sum();
    Some(Decomposition {
        name: name.to_owned(),
        title: title.to_owned(),
        base_ns,
        new_ns,
        parts,
        closure: (whole != 0.0).then(|| sum / whole),
    })
}

/// Where a side was not split, the other's states beside the locks are one part as well: what was not
/// measured on one side has not changed.
fn fold(parts: &mut Parts) {
    let is_split = |state: &str| {
        let beside = ["server.spin.", "server.lock_sleep.", "server.irq", "between_", "while_"];
        !beside.iter().any(|kept| state.starts_with(kept))
    };
    let folded: f64 = parts.iter().filter(|(state, _)| is_split(state)).map(|(_, ns)| ns).sum();
    parts.retain(|state, _| !is_split(state));
    parts.insert(NOT_SPLIT.to_owned(), folded);
}

/// The mean over runs, part by part; `None` unless every run has the account.
fn mean(runs: &[Run], account: fn(&Run) -> Option<Account>) -> Option<Account> {
    let count = runs.len() as f64;
    let mut sum = (0.0, BTreeMap::new());
    for run in runs {
        let (whole, parts) = account(run)?;
        sum.0 += whole / count;
        for (state, ns) in parts {
            *sum.1.entry(state).or_insert(0.0) += ns / count;
        }
    }
    (!runs.is_empty()).then_some(sum)
}

/// The server's states and the remainder, which are the mean latency of the traced transactions.
fn latency(run: &Run) -> Option<Account> {
    let account = &run.ledger.server.as_ref()?.per_transaction_ns;
    let mut parts: Parts =
        account.states().into_iter().map(|(state, ns)| (format!("server.{state}"), ns)).collect();
    let rest = account.client_and_transport.map(|ns| ("client_and_transport", ns));
    let rest = rest.or(account.not_split.map(|ns| (NOT_SPLIT, ns)));
    parts.extend(rest.map(|(name, ns)| (name.to_owned(), ns)));
    let whole = parts.values().sum();
    (run.throughput.traced_transactions_count > 0 && whole > 0.0).then_some((whole, parts))
}

/// In a closed loop a client takes clients / tps for a transaction: its latency, and what lies between two.
/// The latency of all transactions is that of the traced ones and how these differ from the others.
fn clients_over_tps(run: &Run) -> Option<Account> {
    let is_closed = run.load.as_ref().is_some_and(|load| load.rate.is_none());
    let clients = f64::from(run.workload.clients);
    let whole = 1e9 * clients / run.throughput.tps;
    let all = run.load.as_ref().and_then(|load| load.total.latency_mean_ns);
    let all = all.or(run.latency_ns.as_ref().map(|latency| latency.mean as f64))?;
    let (traced, mut parts) = latency(run)?;
    parts.insert("while_not_traced".to_owned(), all - traced);
    parts.insert("between_transactions".to_owned(), whole - all);
    (is_closed && whole.is_finite() && clients > 0.0).then_some((whole, parts))
}

fn part_label(state: &str) -> String {
    match state {
        "while_not_traced" => "latency of all less that of the traced".to_owned(),
        "between_transactions" => "client, between transactions".to_owned(),
        "client_and_transport" | "not_split" => state_label(state),
        _ => format!("server {}", state_label(state.trim_start_matches("server."))),
    }
}

/// Change of each lock's nanoseconds per transaction.
fn lock_changes(base: &[Run], new: &[Run]) -> BTreeMap<LockIdentity, f64> {
    let mut changes = BTreeMap::new();
    for (runs, sign) in [(base, -1.0), (new, 1.0)] {
        for run in runs {
            for (lock, ns) in per_transaction(run) {
                *changes.entry(lock).or_insert(0.0) += sign * ns / runs.len() as f64;
            }
        }
    }
    changes
}

/// The lock that changed most in the part's direction, of those that make the part.
fn heaviest_lock(part: &Part, changes: &BTreeMap<LockIdentity, f64>) -> Option<LockPart> {
    let state = part.state.strip_prefix("server.")?;
    let class = state.strip_prefix("spin.").or(state.strip_prefix("lock_sleep."))?;
    let (lock, ns) = changes
        .iter()
        .filter(|(lock, _)| lock.class == class && lock.side == "server")
        .filter(|(_, ns)| ns.signum() == part.difference_ns.signum())
        .max_by(|(_, left), (_, right)| left.abs().total_cmp(&right.abs()))?;
    (lock.name != "unnamed" || lock.caller.is_some()).then(|| LockPart {
        name: lock.name.clone(),
        caller: lock.caller.clone(),
        difference_ns: *ns,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{PerTransaction, SideLedger};

    fn run(per_transaction_ns: PerTransaction) -> Run {
        let mut run = Run::new();
        run.ledger.server = Some(SideLedger { per_transaction_ns, ..SideLedger::default() });
        run.throughput.traced_transactions_count = 100;
        run
    }

    #[test]
    fn states_that_one_side_did_not_tell_apart_have_not_changed_by_themselves() {
        let spin = |ns| BTreeMap::from([("osq".to_owned(), ns)]);
        let locks =
            PerTransaction { spin: spin(10.0), not_split: Some(290.0), ..Default::default() };
        let ledger = PerTransaction {
            cpu: Some(60.0),
            wait: BTreeMap::from([("Lock".to_owned(), 80.0)]),
            spin: spin(40.0),
            client_and_transport: Some(170.0),
            ..PerTransaction::default()
        };
        let sides = [vec![run(locks)], vec![run(ledger)]];
        for [base, new] in [[0, 1], [1, 0]] {
            let sign = if base == 0 { 1.0 } else { -1.0 };
            let latency = &decompose(&sides[base], &sides[new])[0];
            let parts = latency.parts.iter().map(|part| (part.state.as_str(), part.difference_ns));
            let expected = [("server.spin.osq", 30.0 * sign), ("not_split", 20.0 * sign)];
            assert_eq!(parts.collect::<Vec<_>>(), expected);
            assert!((latency.closure.unwrap() - 1.0).abs() < 1e-9);
        }
        let both = &decompose(&sides[1], &sides[1])[0];
        assert!(both.parts.iter().any(|part| part.state == "server.wait.Lock"), "{both:?}");
    }
}
