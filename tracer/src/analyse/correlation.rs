//! Which class of waits moves with the latency, from one interval to the next.
//!
//! Spearman's rank correlation (C. Spearman, "The proof and measurement of association between two
//! things", 1904; ties get their mean rank): it asks for a monotonic relation only, and one wild
//! interval cannot make it. It tells what moves together, not what causes what.

use std::collections::{BTreeMap, BTreeSet};

use statrs::distribution::{ContinuousCDF as _, StudentsT};

use crate::model::{Correlation, Interval};

/// Fewer intervals give coefficients that chance gives too.
pub const MIN_INTERVALS: usize = 8;

/// The correlation of every state's nanoseconds per transaction with the mean latency, strongest
/// first. Empty below [`MIN_INTERVALS`]; a state that never changes has none. Intervals without a
/// traced transaction are left out.
pub fn with_latency(intervals: &[Interval]) -> Vec<Correlation> {
    let rows: Vec<(f64, BTreeMap<String, f64>)> = intervals
        .iter()
        .filter_map(|interval| {
            let states = interval.per_transaction_ns.as_ref()?.states();
            Some((interval.latency_ns? as f64, states))
        })
        .collect();
    if rows.len() < MIN_INTERVALS {
        return Vec::new();
    }
    let latencies: Vec<f64> = rows.iter().map(|(latency, _)| *latency).collect();
    let states: BTreeSet<&String> = rows.iter().flat_map(|(_, states)| states.keys()).collect();
    let mut found: Vec<Correlation> = states
        .into_iter()
        .filter_map(|state| {
            let ns: Vec<f64> = rows
                .iter()
                .map(|(_, states)| states.get(state).copied().unwrap_or_default())
                .collect();
            let coefficient = spearman(&ns, &latencies)?;
            Some(Correlation {
                state: state.clone(),
                spearman: coefficient,
                p_value: p_value(coefficient, rows.len()),
                intervals_count: rows.len() as u64,
            })
        })
        .collect();
    found.sort_by(|left, right| right.spearman.abs().total_cmp(&left.spearman.abs()));
    found
}

/// `None` where one of the two does not vary.
fn spearman(left: &[f64], right: &[f64]) -> Option<f64> {
    pearson(&ranks(left), &ranks(right))
}

/// Ranks from 1; equal values share the mean of theirs.
pub(super) fn ranks(values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|left, right| values[*left].total_cmp(&values[*right]));
    let mut ranks = vec![0.0; values.len()];
    let mut first = 0;
    for run in order.chunk_by(|left, right| values[*left] == values[*right]) {
        let mean = first as f64 + (run.len() as f64 + 1.0) / 2.0;
        for index in run {
            ranks[*index] = mean;
        }
        first += run.len();
    }
    ranks
}

fn pearson(left: &[f64], right: &[f64]) -> Option<f64> {
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    let (mean_left, mean_right) = (mean(left), mean(right));
    let (mut product, mut square_left, mut square_right) = (0.0, 0.0, 0.0);
    for (left, right) in left.iter().zip(right) {
        product += (left - mean_left) * (right - mean_right);
        square_left += (left - mean_left).powi(2);
        square_right += (right - mean_right).powi(2);
    }
    let scale = (square_left * square_right).sqrt();
    (scale > 0.0).then(|| (product / scale).clamp(-1.0, 1.0))
}

/// Two-sided, by the t approximation of the coefficient's distribution under independence
/// (Kendall and Stuart, "The Advanced Theory of Statistics", §31.19). Successive intervals are
/// rarely independent, so it is a lower bound.
fn p_value(coefficient: f64, count: usize) -> f64 {
    let freedom = count as f64 - 2.0;
    let rest = 1.0 - coefficient * coefficient;
    if rest <= 0.0 {
        return 0.0;
    }
    let t = coefficient.abs() * (freedom / rest).sqrt();
    StudentsT::new(0.0, 1.0, freedom).map_or(1.0, |student| 2.0 * student.sf(t))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::model::PerTransaction;

    fn interval(latency_ns: u64, osq: f64, rq: f64) -> Interval {
        let spin = BTreeMap::from([("osq".to_owned(), osq), ("rq".to_owned(), rq)]);
        let per_transaction_ns = Some(PerTransaction { spin, ..PerTransaction::default() });
        Interval { latency_ns: Some(latency_ns), per_transaction_ns, ..Interval::default() }
    }

    #[test]
    fn the_class_that_moves_with_the_latency_comes_first() {
        let intervals: Vec<Interval> = (0_u32..10)
            .map(|n| interval(1000 + u64::from(n * n), f64::from(n).exp(), f64::from(n % 2)))
            .collect();
        let found = with_latency(&intervals);
        assert_eq!(found[0].state, "spin.osq");
        assert!((found[0].spearman - 1.0).abs() < 1e-12);
        assert_eq!(found[0].intervals_count, 10);
        assert!(found[0].p_value < 1e-6 && found[1].p_value > 0.3, "{found:?}");
    }

    #[test]
    fn too_few_intervals_and_constant_states_have_none() {
        let few: Vec<Interval> = (0..7_u32).map(|n| interval(n.into(), n.into(), 0.0)).collect();
        assert_eq!(with_latency(&few), []);
        let flat: Vec<Interval> = (0..9_u32).map(|n| interval(n.into(), 5.0, 5.0)).collect();
        assert_eq!(with_latency(&flat), []);
    }

    /// The expected coefficient is Pearson's of the ranks, worked out apart.
    #[test]
    fn ties_share_their_rank() {
        let left = [1.0, 2.0, 2.0, 4.0, 5.0, 6.0, 7.0, 9.0];
        let right = [3.0, 1.0, 4.0, 4.0, 6.0, 8.0, 7.0, 9.0];
        assert_eq!(ranks(&left), [1.0, 2.5, 2.5, 4.0, 5.0, 6.0, 7.0, 8.0]);
        assert!((spearman(&left, &right).unwrap() - 0.921_687).abs() < 1e-6);
    }

    proptest! {
        #[test]
        fn the_coefficient_is_bounded_and_ignores_any_monotonic_change(
            pairs in prop::collection::vec((0_u32..50, 0_u32..50), 8..40)
        ) {
            let left: Vec<f64> = pairs.iter().map(|(left, _)| f64::from(*left)).collect();
            let right: Vec<f64> = pairs.iter().map(|(_, right)| f64::from(*right)).collect();
            if let Some(coefficient) = spearman(&left, &right) {
                prop_assert!((-1.0..=1.0).contains(&coefficient));
                let bent: Vec<f64> = left.iter().map(|value| value.powi(3) + 7.0).collect();
                prop_assert!((spearman(&bent, &right).unwrap() - coefficient).abs() < 1e-9);
                let turned: Vec<f64> = left.iter().map(|value| -value).collect();
                prop_assert!((spearman(&turned, &right).unwrap() + coefficient).abs() < 1e-9);
            }
        }
    }
}
