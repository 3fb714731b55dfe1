//! Rounds that are pairs: a run of each side next to each other in time. What both share (the machine's drift,
//! its neighbours) is no part of the difference within a pair.

use super::Effect;
use crate::analyse::correlation::ranks;
use crate::analyse::stats::Summary;

/// The mean of the pairs' differences, new less base, with Student's t (Student, "The probable error of a mean",
/// Biometrika 6, 1908). `None` with fewer than two pairs, or where the sides have not equally many values.
pub fn paired_difference(base: &[f64], new: &[f64]) -> Option<Effect> {
    let differences = differences(base, new)?;
    let summary = Summary::of(&differences).filter(|summary| summary.count > 1)?;
    let standard_error = summary.stddev / (summary.count as f64).sqrt();
    Some(Effect::student(summary.mean, standard_error, summary.count as f64 - 1.0))
}

/// The same of the logarithms, whose difference is that of a ratio; `None` where a value is not positive.
pub fn paired_log_ratio(base: &[f64], new: &[f64]) -> Option<Effect> {
    let logarithms = |values: &[f64]| -> Option<Vec<f64>> {
        values.iter().map(|value| (*value > 0.0).then(|| value.ln())).collect()
    };
    paired_difference(&logarithms(base)?, &logarithms(new)?)
}

/// Two-sided p-value of the signed ranks of the pairs' differences (F. Wilcoxon, "Individual comparisons by
/// ranking methods", Biometrics Bulletin 1, 1945), exact, ties included: the share of all ways to sign the
/// ranks in which the smaller rank sum is no larger. Also the smallest that so many pairs can give. Pairs without
/// a difference are left out; `None` without a pair.
pub fn signed_ranks(base: &[f64], new: &[f64]) -> Option<(f64, f64)> {
    let mut differences = differences(base, new).filter(|differences| !differences.is_empty())?;
    differences.retain(|difference| *difference != 0.0);
    let sizes: Vec<f64> = differences.iter().map(|difference| difference.abs()).collect();
    // Ranks of ties are halves: twice the ranks are whole.
    let doubled: Vec<usize> =
        ranks(&sizes).iter().map(|rank| (2.0 * rank).round() as usize).collect();
    let all: usize = doubled.iter().sum();
    let positive: usize =
        doubled.iter().zip(&differences).filter(|(_, d)| **d > 0.0).map(|(rank, _)| rank).sum();
    let shares = sum_distribution(&doubled);
    let tail: f64 = shares.iter().take(positive.min(all - positive) + 1).sum();
    let least = 2.0 * 0.5_f64.powi(i32::try_from(doubled.len()).unwrap_or(i32::MAX));
    Some(((2.0 * tail).min(1.0), least.min(1.0)))
}

fn differences(base: &[f64], new: &[f64]) -> Option<Vec<f64>> {
    (base.len() == new.len()).then(|| base.iter().zip(new).map(|(base, new)| new - base).collect())
}

/// The share of all choices of ranks whose sum is 0, 1, 2, ….
fn sum_distribution(ranks: &[usize]) -> Vec<f64> {
    let mut shares = vec![0.0; ranks.iter().sum::<usize>() + 1];
    shares[0] = 1.0;
    let mut most = 0;
    for &rank in ranks {
        most += rank;
        for sum in (0..=most).rev() {
            let with = if sum >= rank { shares[sum - rank] } else { 0.0 };
            shares[sum] = (shares[sum] + with) / 2.0;
        }
    }
    shares
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Hours of additional sleep of ten patients by two drugs: Student's own example, t = 4.0621 with nine
    /// degrees, p = 0.002833.
    #[test]
    fn student_s_own_example() {
        let base = [0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0];
        let new = [1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4];
        let effect = paired_difference(&base, &new).unwrap();
        assert!((effect.estimate - 1.58).abs() < 1e-9);
        assert!((effect.estimate / effect.standard_error() - 4.0621).abs() < 1e-4);
        assert!((effect.p_value() - 0.002_833).abs() < 1e-6, "{}", effect.p_value());
        // Nine differences that are not none, all of one sign.
        let (p, least) = signed_ranks(&base, &new).unwrap();
        assert_eq!((p, least), (2.0 / 512.0, 2.0 / 512.0));
    }

    /// Darwin's maize: fifteen pairs, rank sums 24 and 96 (the tables' limit at 5 % is 25), exact p 0.04126.
    #[test]
    fn darwin_s_maize() {
        let differences = [
            49.0, -67.0, 8.0, 16.0, 6.0, 23.0, 28.0, 41.0, 14.0, 29.0, 56.0, 24.0, 75.0, 60.0,
            -48.0,
        ];
        let (p, _) = signed_ranks(&[0.0; 15], &differences).unwrap();
        assert!((p - 0.041_26).abs() < 1e-4, "{p}");
    }

    #[test]
    fn the_distribution_is_that_of_the_tables_and_ties_have_their_own() {
        // Of 32 ways to sign five ranks, those with sums 0 to 4: 1, 1, 1, 2, 2.
        let five = sum_distribution(&[1, 2, 3, 4, 5]);
        assert_eq!(five[..5], [1.0, 1.0, 1.0, 2.0, 2.0].map(|count| count / 32.0));
        assert_eq!(signed_ranks(&[0.0; 4], &[1.0, 1.0, -1.0, 1.0]).unwrap().0, 10.0 / 16.0);
        assert_eq!(signed_ranks(&[1.0, 2.0], &[1.0, 2.0]), Some((1.0, 1.0)));
        assert_eq!(signed_ranks(&[], &[]), None);
        assert_eq!(signed_ranks(&[1.0], &[1.0, 2.0]), None);
    }

    #[test]
    fn one_pair_has_no_spread_and_what_is_not_positive_no_ratio() {
        assert_eq!(paired_difference(&[1.0], &[2.0]), None);
        assert_eq!(paired_difference(&[1.0, 2.0], &[2.0]), None);
        assert_eq!(paired_log_ratio(&[1.0, 0.0], &[2.0, 1.0]), None);
        let ratio = paired_log_ratio(&[1.0, 10.0], &[2.0, 20.0]).unwrap();
        assert!((ratio.estimate - std::f64::consts::LN_2).abs() < 1e-12 && ratio.freedom == 1.0);
    }
}
