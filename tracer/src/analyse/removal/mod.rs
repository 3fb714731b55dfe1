//! What removing the dominant kernel lock would buy: bounds of throughput by operational analysis (P. Denning,
//! J. Buzen, "The operational analysis of queueing network models", Computing Surveys 10, 1978; E. Lazowska
//! et al., "Quantitative System Performance", 1984, chapter 5). `docs/metrics.md` has the rules. A pure
//! function of the run.
//!
//! In a closed loop N clients at throughput X take N / X for a transaction and the time to the next. Without
//! the lock's waits it is shorter by these; other waits may shrink with them, service times do not. And no
//! resource is busy for more than all of the time: m CPUs give at most m / D transactions a second, each
//! taking D of CPU time. Spinning on the lock is a part of D now, sleeping is none.

mod capacity;
mod lock;
#[cfg(test)]
mod simulation;
#[cfg(test)]
mod tests;

use capacity::{Demand, capacities};
use lock::NamedLock;

use super::units::percent;
use crate::model::{Ceiling, NoEstimate, Removal, RemovalBounds, RemovedLock, Run, SideLedger};

/// A lock is dominant from this share of a client's cycle, or of the CPU time, on.
const DOMINANT: f64 = 0.05;
/// States in which a transaction waits for others, and which may shrink when others are served faster.
const QUEUES: [&str; 8] = [
    "runq.",
    "spin.",
    "lock_sleep.",
    "irq",
    "wait.LWLock",
    "wait.Lock",
    "wait.BufferPin",
    "wait.IPC",
];

/// The bounds for the lock with most of the server's time, or why there are none.
pub fn removal(run: &Run) -> Removal {
    let Closed { server, clients, cycle_ns } = match Closed::of(run) {
        Ok(closed) => closed,
        Err(no_estimate) => {
            return Removal { no_estimate: Some(no_estimate), ..Removal::default() };
        }
    };
    let Some((lock, removed)) = heaviest(run, server) else {
        let text = "the server waited for no kernel lock that is known".to_owned();
        return without(None, "no_dominant_lock", text);
    };
    let demand = Demand::of(run, &lock);
    let wait_share = removed.wait_ns() / cycle_ns;
    let share = wait_share.max(demand.spinning_share());
    if share < DOMINANT {
        let text = format!(
            "no kernel lock has {} of a transaction's time or of the CPU time; the largest, {}, has {}",
            percent(DOMINANT),
            removed.name,
            percent(share)
        );
        return without(Some(removed), "no_dominant_lock", text);
    }
    let bounds = bounds(run, server, &removed, &demand, clients, cycle_ns);
    Removal { lock: Some(removed), bounds: Some(bounds), no_estimate: None }
}

fn without(lock: Option<RemovedLock>, code: &str, text: String) -> Removal {
    Removal { lock, no_estimate: Some(no_estimate(code, text)), bounds: None }
}

fn no_estimate(code: &str, text: impl Into<String>) -> NoEstimate {
    NoEstimate { code: code.to_owned(), text: text.into() }
}

/// The bounds without the lock of this name, which this run may not have waited for; `None` where none can be
/// given.
pub(super) fn bounds_without(run: &Run, name: &str) -> Option<RemovalBounds> {
    let Closed { server, clients, cycle_ns } = Closed::of(run).ok()?;
    let lock = NamedLock::all(run).into_iter().find(|lock| lock.name == name);
    let lock = lock.unwrap_or_else(|| NamedLock::never_waited_for(name));
    let (spin_ns, sleep_ns) = lock.in_transaction_ns(server);
    let removed = RemovedLock { spin_ns, sleep_ns, ..RemovedLock::default() };
    Some(bounds(run, server, &removed, &Demand::of(run, &lock), clients, cycle_ns))
}

/// A closed loop whose time is split.
struct Closed<'run> {
    server: &'run SideLedger,
    clients: f64,
    /// Clients / tps.
    cycle_ns: f64,
}

impl Closed<'_> {
    fn of(run: &Run) -> Result<Closed<'_>, NoEstimate> {
        let Some(load) = run.load.as_ref().filter(|_| run.workload.clients > 0) else {
            let text = "the load is not lockscope's own: how many clients there are, and what they \
                        wait for before they begin a transaction, is not known";
            return Err(no_estimate("other_load", text));
        };
        let tps = run.throughput.tps;
        let traced = run.throughput.traced_transactions_count > 0 && tps > 0.0;
        let Some(server) = run.ledger.server.as_ref().filter(|_| traced) else {
            return Err(no_estimate("not_traced", "no transaction was traced"));
        };
        if load.rate.is_some() {
            let text = "transactions begin at a given rate (-R), whatever a lock takes of them: \
                        without the lock latency falls, not throughput";
            return Err(no_estimate("open_loop", text));
        }
        if load.reconnect {
            let text =
                "each transaction has a connection of its own (-C), whose making is in no account";
            return Err(no_estimate("reconnects", text));
        }
        if run.throughput.aborted_clients_count > 0 {
            let text = "clients gave up meanwhile: how many made the load is not one number";
            return Err(no_estimate("clients_gave_up", text));
        }
        if server.per_transaction_ns.cpu.is_none() {
            let text =
                "depth locks does not tell waiting for a CPU from working: trace at depth ledger";
            return Err(no_estimate("depth_locks", text));
        }
        let clients = f64::from(run.workload.clients);
        Ok(Closed { server, clients, cycle_ns: 1e9 * clients / tps })
    }
}

/// The lock that the server's transactions wait for most.
fn heaviest(run: &Run, server: &SideLedger) -> Option<(NamedLock, RemovedLock)> {
    let removed = |lock: NamedLock| {
        let (spin_ns, sleep_ns) = lock.in_transaction_ns(server);
        let (name, caller, classes) = (lock.name.clone(), lock.caller.clone(), lock.classes());
        (lock, RemovedLock { name, caller, classes, spin_ns, sleep_ns })
    };
    let locks = NamedLock::all(run).into_iter().map(removed);
    locks
        .filter(|(_, removed)| removed.wait_ns() > 0.0)
        .max_by(|(_, left), (_, right)| left.wait_ns().total_cmp(&right.wait_ns()))
}

fn bounds(
    run: &Run,
    server: &SideLedger,
    lock: &RemovedLock,
    demand: &Demand,
    clients: f64,
    cycle_ns: f64,
) -> RemovalBounds {
    let now = run.throughput.tps;
    let other_waits_ns = other_waits(run, server, lock, demand, cycle_ns);
    // What is left holds all service times, so it is more than nothing, but for rounding.
    let shortest_ns = (cycle_ns - lock.wait_ns() - other_waits_ns).max(1.0);
    let transaction = 1e9 * clients / shortest_ns;
    let capacities = capacities(run, demand);
    let mut ceilings = vec![Ceiling { resource: "transaction".to_owned(), tps: transaction }];
    ceilings.extend(capacities);
    let capacity = ceilings[1..].iter().map(|ceiling| ceiling.tps).fold(f64::INFINITY, f64::min);
    let rest_as_now = 1e9 * clients / (cycle_ns - lock.wait_ns()).max(1.0);
    let (limited_by, high) = match transaction <= capacity {
        true => ("transaction".to_owned(), transaction),
        false => {
            let limit = ceilings[1..].iter().find(|ceiling| ceiling.tps == capacity);
            (limit.map(|limit| limit.resource.clone()).unwrap_or_default(), capacity)
        }
    };
    RemovalBounds {
        // Slices without tracing are faster, so a resource may seem busy for more than all of the time.
        tps_low: now,
        tps_rest_as_now: rest_as_now.min(capacity).max(now),
        tps_high: high.max(now),
        limited_by,
        ceilings,
        cycle_ns,
        other_waits_ns,
        cpu_ns: demand.total_ns(),
    }
}

/// Waits of a cycle that are not the lock's and may shrink with them.
fn other_waits(
    run: &Run,
    server: &SideLedger,
    lock: &RemovedLock,
    demand: &Demand,
    cycle_ns: f64,
) -> f64 {
    let states = server.per_transaction_ns.states();
    let is_queue = |state: &str| QUEUES.iter().any(|queue| state.starts_with(queue));
    let queues: f64 =
        states.iter().filter(|(state, _)| is_queue(state)).map(|(_, ns)| ns).sum::<f64>();
    let in_server: f64 = states.values().sum();
    let think_ns = run.load.as_ref().and_then(|load| load.think_ns).unwrap_or(0) as f64;
    // Outside the server a transaction waits at most for its thread, until that has served its others.
    let outside = (cycle_ns - in_server - think_ns).max(0.0).min(demand.thread_wait_ns(run));
    (queues - lock.wait_ns()).max(0.0) + outside
}
