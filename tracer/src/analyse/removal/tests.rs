//! The bounds beside the truth: simulated networks with the lock and without it.

use super::simulation::{Network, Step, Waiting, mean_value_analysis};
use super::*;
use crate::model::Load;

/// Measured transactions, and what chance may move their rate by.
const TRANSACTIONS: u64 = 20_000;
const CHANCE: f64 = 0.03;

/// A lock around a part of the work.
fn locked(
    waiting: Waiting,
    clients: usize,
    cpus: usize,
    think: f64,
    before: f64,
    held: f64,
) -> Network {
    let steps = vec![
        Step::Think(think),
        Step::Compute(before),
        Step::Acquire(0),
        Step::Compute(held),
        Step::Release(0),
    ];
    Network { clients, cpus, locks: vec![waiting], steps, random: true }
}

/// The bounds with the lock, and the throughput without it.
fn bounds_and_truth(network: &Network) -> (RemovalBounds, f64) {
    let found = removal(&network.run(TRANSACTIONS));
    let bounds = found.bounds.unwrap_or_else(|| panic!("{:?}", found.no_estimate));
    assert_eq!(found.lock.unwrap().name, "lock_0");
    (bounds, network.without(0).run(TRANSACTIONS).throughput.tps)
}

/// What a simulation of a single queue must agree with.
#[test]
fn the_simulation_agrees_with_mean_value_analysis() {
    for clients in [1, 4, 12] {
        let network = locked(Waiting::Spin, clients, clients, 50_000.0, 0.0, 10_000.0);
        let simulated = network.run(TRANSACTIONS).throughput.tps;
        let exact = mean_value_analysis(clients, 50_000.0, &[10_000.0]);
        assert!((simulated / exact - 1.0).abs() < CHANCE, "{clients}: {simulated}, not {exact}");
        // A run queue in front of one CPU is the other queue.
        let network = locked(Waiting::Sleep, clients, 1, 50_000.0, 10_000.0, 0.0);
        let simulated = network.without(0).run(TRANSACTIONS).throughput.tps;
        assert!((simulated / exact - 1.0).abs() < CHANCE, "{clients}: {simulated}, not {exact}");
    }
}

#[test]
fn the_truth_lies_within_the_bounds() {
    for waiting in [Waiting::Spin, Waiting::Sleep] {
        for (clients, cpus) in [(4, 8), (16, 8), (32, 2)] {
            for (think, before, held) in [
                (0.0, 20_000.0, 20_000.0),
                (100_000.0, 30_000.0, 20_000.0),
                (5_000.0, 2_000.0, 40_000.0),
            ] {
                for random in [true, false] {
                    let network =
                        Network { random, ..locked(waiting, clients, cpus, think, before, held) };
                    let found = removal(&network.run(TRANSACTIONS));
                    // Where nobody waits, there is nothing to remove.
                    let Some(bounds) = found.bounds else {
                        assert_eq!(found.no_estimate.unwrap().code, "no_dominant_lock");
                        continue;
                    };
                    let truth = network.without(0).run(TRANSACTIONS).throughput.tps;
                    let (low, high) =
                        (bounds.tps_low * (1.0 - CHANCE), bounds.tps_high * (1.0 + CHANCE));
                    assert!((low..=high).contains(&truth), "{network:?}: {truth} {bounds:?}");
                    assert!(
                        (bounds.tps_low..=bounds.tps_high).contains(&bounds.tps_rest_as_now),
                        "{bounds:?}"
                    );
                }
            }
        }
    }
}

/// All CPUs spin: what the spinning took is given back, and no more.
#[test]
fn of_saturated_cpus_the_upper_bound_is_the_truth() {
    let (bounds, truth) = bounds_and_truth(&locked(Waiting::Spin, 16, 4, 0.0, 20_000.0, 20_000.0));
    assert_eq!(bounds.limited_by, "cpus");
    assert!((bounds.tps_high / truth - 1.0).abs() < CHANCE, "{truth} {bounds:?}");
    assert!(bounds.tps_high > 1.5 * bounds.tps_low);
}

/// A CPU each: without the lock nobody waits, and a transaction is shorter by what it waited.
#[test]
fn with_a_cpu_for_each_client_the_rest_stays_as_it_is() {
    for waiting in [Waiting::Spin, Waiting::Sleep] {
        let (bounds, truth) = bounds_and_truth(&locked(waiting, 8, 8, 0.0, 20_000.0, 20_000.0));
        assert!((bounds.tps_rest_as_now / truth - 1.0).abs() < CHANCE, "{truth} {bounds:?}");
        assert!((bounds.tps_high / truth - 1.0).abs() < CHANCE, "{truth} {bounds:?}");
    }
}

/// Sleeping takes no CPU: where the CPUs are the limit, all of their time is still needed.
#[test]
fn a_lock_that_sleeps_gives_back_no_cpu_time() {
    let (bounds, truth) = bounds_and_truth(&locked(Waiting::Sleep, 32, 2, 0.0, 45_000.0, 25_000.0));
    assert_eq!(bounds.limited_by, "cpus");
    assert!((bounds.cpu_ns / 70_000.0 - 1.0).abs() < CHANCE, "{bounds:?}");
    assert!((truth / bounds.tps_high - 1.0).abs() < CHANCE, "{truth} {bounds:?}");
    assert!(bounds.tps_high < 1.2 * bounds.tps_low, "{bounds:?}");
}

/// Two locks in a row, the second nearly as long: the waiting moves there.
#[test]
fn the_waiting_may_move_to_the_next_lock() {
    let mut network = locked(Waiting::Sleep, 16, 16, 0.0, 10_000.0, 20_000.0);
    network.locks.push(Waiting::Sleep);
    network.steps.extend([Step::Acquire(1), Step::Compute(18_000.0), Step::Release(1)]);
    let (bounds, truth) = bounds_and_truth(&network);
    assert!(truth < 1.2 * bounds.tps_low && truth >= bounds.tps_low, "{truth} {bounds:?}");
    assert!(bounds.tps_rest_as_now > 2.0 * bounds.tps_low, "{bounds:?}");
}

/// Half of the time for the kernel's lock passes in Postgres's, which is held meanwhile: its waits go too,
/// and more is gained than the kernel lock's own time. Only the bound from above holds that.
#[test]
fn other_waits_may_go_with_the_lock_s() {
    let held = [Step::Acquire(0), Step::Compute(10_000.0), Step::Release(0)];
    let mut steps = vec![Step::Think(5_000.0), Step::Acquire(1)];
    steps.extend(held);
    steps.extend([Step::Release(1), Step::Compute(10_000.0)]);
    steps.extend([held, held, held, held].concat());
    let locks = vec![Waiting::Spin, Waiting::LwLock];
    let network = Network { clients: 12, cpus: 12, locks, steps, random: true };
    let (bounds, truth) = bounds_and_truth(&network);
    assert!(truth <= bounds.tps_high && truth >= bounds.tps_low, "{truth} {bounds:?}");
    let run = network.run(TRANSACTIONS);
    let lwlock = run.ledger.server.as_ref().unwrap().per_transaction_ns.wait["LWLock"];
    assert!(lwlock > 0.0 && bounds.other_waits_ns >= lwlock);
}

#[test]
fn without_a_closed_loop_that_is_split_there_is_no_estimate() {
    let good = || locked(Waiting::Spin, 8, 8, 0.0, 20_000.0, 20_000.0).run(5_000);
    assert!(removal(&good()).bounds.is_some());
    type Change = fn(&mut Run);
    let changes: [(&str, Change); 7] = [
        ("not_traced", |run| run.throughput.traced_transactions_count = 0),
        ("other_load", |run| run.load = None),
        ("open_loop", |run| run.load.as_mut().unwrap().rate = Some(1e4)),
        ("reconnects", |run| run.load = Some(Load { reconnect: true, ..Load::default() })),
        ("clients_gave_up", |run| run.throughput.aborted_clients_count = 1),
        ("depth_locks", |run| {
            run.ledger.server.as_mut().unwrap().per_transaction_ns.cpu = None;
        }),
        ("no_dominant_lock", |run| run.locks.clear()),
    ];
    for (code, change) in changes {
        let mut run = good();
        change(&mut run);
        let found = removal(&run);
        assert_eq!(found.no_estimate.unwrap().code, code);
        assert_eq!(found.bounds, None);
    }
    // Whoever attaches counts transactions by the replies, and only after this.
    let mut attached = Run { load: None, ..good() };
    attached.throughput.traced_transactions_count = 0;
    assert_eq!(removal(&attached).no_estimate.unwrap().code, "other_load");
    let mut untraced = good();
    untraced.ledger.server = None;
    assert_eq!(removal(&untraced).no_estimate.unwrap().code, "not_traced");
}

#[test]
fn a_small_lock_is_named_and_nothing_is_promised() {
    let run = locked(Waiting::Spin, 2, 8, 0.0, 100_000.0, 1_000.0).run(20_000);
    let found = removal(&run);
    let reason = found.no_estimate.unwrap();
    assert_eq!(
        (reason.code.as_str(), found.lock.unwrap().name.as_str()),
        ("no_dominant_lock", "lock_0")
    );
    assert!(reason.text.contains("5.0 %") && reason.text.contains("lock_0"), "{}", reason.text);
}

/// A load generator whose two threads are busy for nine tenths of the time gives a ninth more at most.
#[test]
fn the_load_generator_s_threads_are_a_limit() {
    let mut run = locked(Waiting::Sleep, 8, 64, 100_000.0, 20_000.0, 20_000.0).run(20_000);
    run.workload.jobs = 2;
    let client_ns = 0.9 * 2.0e9 / run.throughput.tps;
    let traced = run.throughput.traced_transactions_count as f64;
    run.ledger.client = Some(SideLedger {
        states_ns: [("cpu".to_owned(), (client_ns * traced) as u64)].into(),
        ..SideLedger::default()
    });
    let bounds = removal(&run).bounds.unwrap();
    assert_eq!(bounds.limited_by, "client_threads");
    assert!((bounds.tps_high / run.throughput.tps - 1.0 / 0.9).abs() < 0.001, "{bounds:?}");
    run.workload.pin_client = Some("0".to_owned());
    let pinned = removal(&run).bounds.unwrap();
    assert!(pinned.ceilings.iter().any(|ceiling| ceiling.resource == "client_cpus"), "{pinned:?}");
}

/// Every class of a lock goes with it, by its share of what the class waits.
#[test]
fn the_classes_of_a_lock_are_one_and_another_lock_s_waits_stay() {
    let mut run = locked(Waiting::Spin, 8, 8, 0.0, 20_000.0, 20_000.0).run(5_000);
    let whole = removal(&run).lock.unwrap().spin_ns;
    let mut other = run.locks[0].clone();
    other.name = "other".to_owned();
    other.total_ns /= 3;
    run.locks.push(other);
    let found = removal(&run).lock.unwrap();
    assert_eq!(
        (found.name.as_str(), found.classes.as_slice()),
        ("lock_0", &["qspinlock".to_owned()][..])
    );
    assert!((found.spin_ns / whole - 0.75).abs() < 0.001, "{} of {whole}", found.spin_ns);
}
