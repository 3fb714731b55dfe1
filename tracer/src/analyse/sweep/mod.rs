//! What a sweep's runs say together: how throughput scales, where it turns or dips, and which state of
//! the ledger the latency goes into that each step adds.

mod groups;
mod scalability;
mod without_lock;

use std::collections::BTreeMap;

pub use self::groups::{STATE_GROUPS, StateGroup};
use self::scalability::{Point, fit};
use self::without_lock::{Measured, without_lock};
use super::compare::{decompose, per_transaction};
use super::statistics::{Series, resampled_means};
use crate::model::{Curve, Estimate, Run, Step};

/// The option whose curves have a law of scaling.
pub const CLIENTS: &str = "client";
/// Throughput this near to the highest is as good as it.
const NEAR_PEAK: f64 = 0.95;
/// Resampling is repeatable.
const SEED: u64 = 1;

/// A step that was made or not.
#[derive(Clone, Debug)]
pub struct Attempt {
    /// The value along the curve.
    pub value: String,
    /// The other options' values.
    pub others: BTreeMap<String, String>,
    /// Where the run is saved.
    pub file: String,
    /// The run, or why there is none.
    pub outcome: Result<Run, String>,
}

/// The curves, in the order of their first steps.
pub fn curves(along: &str, attempts: &[Attempt]) -> Vec<Curve> {
    let mut order: Vec<&BTreeMap<String, String>> = Vec::new();
    for attempt in attempts {
        if !order.contains(&&attempt.others) {
            order.push(&attempt.others);
        }
    }
    let of = |others: &BTreeMap<String, String>| {
        let attempts: Vec<&Attempt> =
            attempts.iter().filter(|attempt| attempt.others == *others).collect();
        curve(along, others.clone(), &attempts)
    };
    order.into_iter().map(of).collect()
}

fn curve(along: &str, values: BTreeMap<String, String>, attempts: &[&Attempt]) -> Curve {
    let mut steps = Vec::new();
    let mut measurements: Vec<Measured<'_>> = Vec::new();
    for (index, attempt) in attempts.iter().enumerate() {
        let mut step =
            Step { value: attempt.value.clone(), file: attempt.file.clone(), ..Step::default() };
        match &attempt.outcome {
            Ok(run) => {
                let resampled = resampled_means(&tps_series(run), SEED);
                measured(&mut step, run, &resampled);
                if let Some(before) = measurements.last() {
                    added(&mut step, before.run, run);
                }
                let (clients, tps) = (f64::from(step.clients), step.tps.value);
                let point = Point { clients, tps, resampled };
                measurements.push(Measured { step: index, run, point });
            }
            Err(reason) => step.failure = Some(reason.clone()),
        }
        steps.push(step);
    }
    let without_lock = without_lock(&measurements, along == CLIENTS);
    let points: Vec<Point> = measurements.into_iter().map(|measured| measured.point).collect();
    let scalability = (along == CLIENTS).then(|| fit(&points)).flatten();
    let (knee, dips) = (knee(&steps), dips(&steps));
    Curve { values, steps, scalability, without_lock, knee, dips }
}

fn tps_series(run: &Run) -> Series {
    Series::new(run.intervals.iter().map(|interval| (interval.tps, interval.duration_ns as f64)))
}

fn measured(step: &mut Step, run: &Run, resampled: &[f64]) {
    let mut sorted = resampled.to_vec();
    sorted.sort_by(f64::total_cmp);
    let at = |part: f64| sorted.get((part * sorted.len() as f64) as usize).copied();
    step.clients = run.workload.clients;
    step.verdict.clone_from(&run.verdict);
    step.tps = Estimate { value: run.throughput.tps, low: at(0.025), high: at(0.975) };
    step.latency_mean_ns = run.latency_ns.as_ref().map(|latency| latency.mean);
    step.latency_p99_ns = run.latency_ns.as_ref().map(|latency| latency.p99);
    if let Some(server) = &run.ledger.server {
        let account = &server.per_transaction_ns;
        step.states_ns = account.states();
        let rest = account.client_and_transport.map(|ns| ("client_and_transport", ns));
        let rest = rest.or(account.not_split.map(|ns| ("not_split", ns)));
        step.states_ns.extend(rest.map(|(name, ns)| (name.to_owned(), ns)));
    }
    let locks = per_transaction(run);
    let server = locks.iter().filter(|(lock, _)| lock.side == "server");
    if let Some((lock, ns)) = server.max_by(|(_, left), (_, right)| left.total_cmp(right)) {
        step.top_lock = Some(format!("{} {}", lock.class, lock.place()));
        step.top_lock_ns = Some(*ns);
    }
}

/// What the step's latency has that the one before had not.
fn added(step: &mut Step, before: &Run, run: &Run) {
    let pair = (std::slice::from_ref(before), std::slice::from_ref(run));
    let all = decompose(pair.0, pair.1);
    if let Some(latency) = all.into_iter().find(|part| part.name == "mean_latency") {
        step.added_latency_ns = Some(latency.new_ns - latency.base_ns);
        step.added = latency.parts;
    }
}

/// The first step whose throughput is near the highest; `None` where that is the first or the last,
/// because then nothing turns within the sweep.
fn knee(steps: &[Step]) -> Option<usize> {
    let tps = |step: &Step| if step.failure.is_some() { 0.0 } else { step.tps.value };
    let highest = steps.iter().map(tps).fold(0.0, f64::max);
    let first = steps.iter().position(|step| tps(step) >= NEAR_PEAK * highest)?;
    (highest > 0.0 && first > 0 && first + 1 < steps.len()).then_some(first)
}

/// Steps whose interval lies below those of some step before and some step behind.
fn dips(steps: &[Step]) -> Vec<usize> {
    let is_below = |step: &Step, other: &Step| match (step.tps.high, other.tps.low) {
        (Some(high), Some(low)) => high < low,
        _ => false,
    };
    let is_dip = |index: &usize| {
        let (before, rest) = steps.split_at(*index);
        let Some((step, behind)) = rest.split_first() else { return false };
        [before, behind].iter().all(|side| side.iter().any(|other| is_below(step, other)))
    };
    (0..steps.len()).filter(is_dip).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Interval, Latency, Load, Lock, PerTransaction, SideLedger};

    /// A run of ten intervals around `tps`, whose server spends what `osq_ns` says in osq_lock.
    fn run(clients: u32, tps: f64, osq_ns: f64) -> Run {
        let mut run = Run::new();
        run.workload.clients = clients;
        run.throughput.tps = tps;
        run.throughput.traced_transactions_count = 1000;
        let mean = 1e9 * f64::from(clients) / tps;
        run.latency_ns = Some(Latency { mean: mean as u64, ..Latency::default() });
        let account = PerTransaction {
            cpu: Some(mean - osq_ns),
            spin: BTreeMap::from([("osq".to_owned(), osq_ns)]),
            ..PerTransaction::default()
        };
        run.ledger.server =
            Some(SideLedger { per_transaction_ns: account, ..SideLedger::default() });
        run.intervals = (0..10)
            .map(|index| Interval {
                duration_ns: 1_000_000_000,
                tps: tps * (1.0 + 0.002 * f64::from(index % 3 - 1)),
                ..Interval::default()
            })
            .collect();
        run
    }

    fn attempts(steps: &[(u32, f64, f64)]) -> Vec<Attempt> {
        steps
            .iter()
            .map(|&(clients, tps, osq_ns)| Attempt {
                value: clients.to_string(),
                others: BTreeMap::new(),
                file: format!("{clients}.lockscope"),
                outcome: Ok(run(clients, tps, osq_ns)),
            })
            .collect()
    }

    #[test]
    fn the_added_latency_of_each_step_is_told_by_state() {
        let found = curves(CLIENTS, &attempts(&[(1, 1000.0, 0.0), (2, 1000.0, 800_000.0)]));
        let step = &found[0].steps[1];
        assert_eq!(step.added_latency_ns.map(f64::round), Some(1e6));
        assert_eq!(step.added[0].state, "server.spin.osq");
        assert_eq!(step.added[0].difference_ns.round(), 800_000.0);
        assert!(found[0].steps[0].added.is_empty());
    }

    #[test]
    fn a_dip_between_two_faster_steps_is_found_and_a_plateau_is_none() {
        let dip = [(1, 1000.0, 0.0), (4, 4000.0, 0.0), (6, 3000.0, 0.0), (8, 4500.0, 0.0)];
        let found = &curves(CLIENTS, &attempts(&dip))[0];
        assert_eq!((found.dips.as_slice(), found.knee), (&[2][..], None));
        let flat = [(1, 1000.0, 0.0), (4, 3990.0, 0.0), (8, 4000.0, 0.0), (16, 3985.0, 0.0)];
        let found = &curves(CLIENTS, &attempts(&flat))[0];
        assert_eq!((found.dips.len(), found.knee), (0, Some(1)));
        assert!(found.scalability.is_some());
    }

    #[test]
    fn each_combination_of_the_other_options_is_a_curve_and_failures_stay_visible() {
        let mut all = attempts(&[(1, 1000.0, 0.0), (2, 1900.0, 0.0)]);
        for attempt in attempts(&[(1, 900.0, 0.0), (2, 100.0, 0.0)]) {
            let others = BTreeMap::from([("protocol".to_owned(), "simple".to_owned())]);
            all.push(Attempt { others, ..attempt });
        }
        all[3].outcome = Err("connection refused".to_owned());
        let found = curves(CLIENTS, &all);
        assert_eq!(found.len(), 2);
        assert_eq!(found[1].values["protocol"], "simple");
        assert_eq!(found[1].steps[1].failure.as_deref(), Some("connection refused"));
        assert!(found.iter().all(|curve| curve.scalability.is_none()));
        assert_eq!(curves("scale", &all)[0].scalability, None);
    }

    /// A curve that the law with contention describes, and whose cycle beyond that of one client is waiting
    /// for one lock: without it there is no contention.
    #[test]
    fn the_contention_that_is_one_lock_s_goes_with_it() {
        let (alone_ns, contention) = (100_000.0, 0.1);
        let mut all = attempts(&[]);
        for clients in [1, 2, 4, 8, 16] {
            let waits_ns = alone_ns * contention * f64::from(clients - 1);
            let tps = 1e9 * f64::from(clients) / (alone_ns + waits_ns);
            let mut attempt = attempts(&[(clients, tps, waits_ns)]).remove(0);
            let run = attempt.outcome.as_mut().unwrap();
            run.load = Some(Load::default());
            run.environment.cpu.count = 64;
            run.locks = vec![Lock {
                class: "osq".to_owned(),
                side: "server".to_owned(),
                name: "pipe.mutex".to_owned(),
                total_ns: (1000.0 * waits_ns) as u64,
                ..Lock::default()
            }];
            all.push(attempt);
        }
        let curve = &curves(CLIENTS, &all)[0];
        let with = curve.scalability.as_ref().unwrap();
        assert!((with.contention.value - contention).abs() < 0.001, "{with:?}");
        let without = curve.without_lock.as_ref().unwrap();
        assert_eq!((without.name.as_str(), without.steps.len()), ("pipe.mutex", 5));
        let law = without.scalability.as_ref().unwrap();
        assert!(law.contention.value < 0.001, "{law:?}");
        assert!((law.lambda_tps.value / 1e9 * alone_ns - 1.0).abs() < 0.001, "{law:?}");
        let most = &without.steps[4];
        assert!((most.tps_rest_as_now / 160_000.0 - 1.0).abs() < 0.001, "{most:?}");
        assert_eq!(curves("scale", &all)[0].without_lock.as_ref().unwrap().scalability, None);
    }

    #[test]
    fn without_a_lock_or_a_closed_loop_there_is_no_curve_without_it() {
        let found = curves(CLIENTS, &attempts(&[(1, 1000.0, 0.0), (2, 1000.0, 800_000.0)]));
        assert_eq!(found[0].without_lock, None);
    }
}
