//! The rank test: whether one side's values tend to be larger, whatever their distribution.
//!
//! H. Mann and D. Whitney, "On a test of whether one of two random variables is stochastically larger than
//! the other", Ann. Math. Statist. 18 (1947).

use statrs::distribution::{ContinuousCDF as _, StudentsT};

use super::Dependence;
use crate::analyse::correlation::ranks;

/// Up to so many ways to lay out the ranks the exact distribution is counted.
const MOST_EXACT: usize = 400;

/// Two-sided p-value for values that are independent of each other: exact where they are few and distinct.
/// Also the smallest that so many values can give. `None` for an empty side.
pub fn independent_ranks(base: &[f64], new: &[f64]) -> Option<(f64, f64)> {
    let (left, right) = (base.len(), new.len());
    if left == 0 || right == 0 {
        return None;
    }
    let ranked = Ranked::of(base, new);
    if left * right > MOST_EXACT || ranked.has_ties() {
        let floor = 1.0 / (left + right) as f64;
        return Some((ranked.p_value([1.0, 1.0]), floor.min(0.05)));
    }
    let counts = distribution(left, right);
    let all: f64 = counts.iter().sum();
    let wins = ranked.wins().round() as usize;
    let smaller = wins.min(left * right - wins);
    let tail: f64 = counts.iter().take(smaller + 1).sum();
    Some(((2.0 * tail / all).min(1.0), 2.0 / all))
}

/// Two-sided p-value for two series in the order of time. The variance of the statistic is that of
/// independent values, each side's share of it times the inflation of its ranks' mean: the effective number
/// of values takes the place of their number. `None` for an empty side.
pub fn serial_ranks(base: &[f64], new: &[f64]) -> Option<f64> {
    if base.is_empty() || new.is_empty() {
        return None;
    }
    let ranked = Ranked::of(base, new);
    let (left, right) = ranked.ranks.split_at(base.len());
    Some(ranked.p_value([left, right].map(|ranks| Dependence::of(ranks).inflation)))
}

/// The ranks of all values, base first.
struct Ranked {
    ranks: Vec<f64>,
    counts: [f64; 2],
}

impl Ranked {
    fn of(base: &[f64], new: &[f64]) -> Ranked {
        let ranks = ranks(&[base, new].concat());
        Ranked { ranks, counts: [base.len() as f64, new.len() as f64] }
    }

    fn has_ties(&self) -> bool {
        let mut sorted = self.ranks.clone();
        sorted.sort_by(f64::total_cmp);
        sorted.windows(2).any(|pair| pair[0] == pair[1])
    }

    /// Pairs in which the new side's value is the larger, ties half: the statistic U.
    fn wins(&self) -> f64 {
        let [left, right] = self.counts;
        let sum: f64 = self.ranks[left as usize..].iter().sum();
        sum - right * (right + 1.0) / 2.0
    }

    /// By the normal approximation with Student's tails, ties taken off the variance.
    fn p_value(&self, inflation: [f64; 2]) -> f64 {
        let [left, right] = self.counts;
        let all = left + right;
        let mean = (all + 1.0) / 2.0;
        let spread: f64 = self.ranks.iter().map(|rank| (rank - mean).powi(2)).sum();
        // The variance of a mean of ranks drawn without replacement, of both sides.
        let unit = spread / (all - 1.0).max(1.0);
        let variance = unit * (inflation[0] / left + inflation[1] / right);
        if variance <= 0.0 {
            return 1.0;
        }
        let share = self.wins() / (left * right) - 0.5;
        // A share of wins is a difference of mean ranks, over their number.
        let z = (share.abs() * all) / variance.sqrt();
        let freedom = (left / inflation[0]).min(right / inflation[1]) * 2.0 - 2.0;
        StudentsT::new(0.0, 1.0, freedom.max(1.0)).map_or(1.0, |student| 2.0 * student.sf(z))
    }
}

/// How many layouts of the ranks have U = 0, 1, 2, ….
fn distribution(left: usize, right: usize) -> Vec<f64> {
    // Partitions of U into at most `left` parts, none above `right`: the Gaussian binomial coefficients,
    // (1 - q^(right + 1)) … (1 - q^(right + left)) / (1 - q) … (1 - q^left).
    let size = left * right + 1;
    let mut counts = vec![0.0; size];
    counts[0] = 1.0;
    for part in 1..=left {
        for index in (right + part..size).rev() {
            counts[index] -= counts[index - right - part];
        }
        for index in part..size {
            counts[index] += counts[index - part];
        }
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(left: f64, right: f64, by: f64) {
        assert!((left - right).abs() <= by, "{left} is not {right}");
    }

    #[test]
    fn the_distribution_is_that_of_the_tables() {
        assert_eq!(distribution(2, 2), [1.0, 1.0, 2.0, 1.0, 1.0]);
        assert_eq!(distribution(3, 3), [1.0, 1.0, 2.0, 3.0, 3.0, 3.0, 3.0, 2.0, 1.0, 1.0]);
        assert_eq!(distribution(5, 4).iter().sum::<f64>(), 126.0);
    }

    #[test]
    fn few_values_are_counted_exactly() {
        let apart = independent_ranks(&[1.0, 2.0, 3.0], &[4.0, 5.0, 6.0]).unwrap();
        close(apart.0, 0.1, 1e-12);
        close(apart.1, 0.1, 1e-12);
        let five = [[1.0, 2.0, 3.0, 4.0, 5.0], [6.0, 7.0, 8.0, 9.0, 10.0]];
        close(independent_ranks(&five[1], &five[0]).unwrap().0, 2.0 / 252.0, 1e-12);
        let mixed = independent_ranks(&[1.0, 4.0], &[2.0, 3.0]).unwrap();
        close(mixed.0, 1.0, 1e-12);
        assert!(independent_ranks(&[], &[1.0]).is_none());
    }

    /// Ages of men and women at the diagnosis of diabetes; an exact p of 0.1111.
    #[test]
    fn a_published_example() {
        let (men, women) = ([19.0, 22.0, 16.0, 29.0, 24.0], [20.0, 11.0, 17.0, 12.0]);
        close(independent_ranks(&women, &men).unwrap().0, 0.1111, 1e-4);
    }

    #[test]
    fn many_values_and_ties_are_approximated() {
        let left: Vec<f64> = (0..60).map(|i| f64::from(i % 12)).collect();
        let right: Vec<f64> = left.iter().map(|value| value + 3.0).collect();
        assert!(independent_ranks(&left, &right).unwrap().0 < 0.001);
        close(independent_ranks(&left, &left).unwrap().0, 1.0, 1e-9);
        assert_eq!(independent_ranks(&[1.0; 30], &[1.0; 30]).unwrap().0, 1.0);
    }

    #[test]
    fn a_drift_is_not_taken_for_a_difference() {
        // A slow wave each, of which one side has seen more of the upper half.
        let wave = |from: u32| -> Vec<f64> {
            (from..from + 60).map(|i| (f64::from(i) / 12.0).sin()).collect()
        };
        let (left, right) = (wave(0), wave(20));
        let (independent, _) = independent_ranks(&left, &right).unwrap();
        let serial = serial_ranks(&left, &right).unwrap();
        assert!(independent < 0.05 && serial > 0.3, "{independent} {serial}");
    }
}
