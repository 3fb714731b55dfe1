//! Means over rounds: whole runs as the unit, few of them, independent of each other.

use super::Effect;
use crate::analyse::stats::Summary;

/// The difference of two sides' means (B. Welch, "The generalization of Student's problem", Biometrika 34,
/// 1947). A side of a single round is taken to vary as the other does (the pooled test); `None` where
/// nothing tells how rounds vary.
pub fn mean_difference(base: &[f64], new: &[f64]) -> Option<Effect> {
    let (base, new) = (Summary::of(base)?, Summary::of(new)?);
    let share = |side: Summary| side.stddev.powi(2) / side.count as f64;
    let (left, right) = (share(base), share(new));
    let (variance, freedom) = match (base.count, new.count) {
        (1, 1) => return None,
        (1, _) | (_, 1) => {
            let spread = base.stddev.max(new.stddev).powi(2);
            let share = 1.0 / base.count as f64 + 1.0 / new.count as f64;
            (spread * share, (base.count + new.count - 2) as f64)
        }
        _ if left + right == 0.0 => (0.0, (base.count + new.count - 2) as f64),
        _ => {
            let denominator =
                left.powi(2) / (base.count - 1) as f64 + right.powi(2) / (new.count - 1) as f64;
            (left + right, (left + right).powi(2) / denominator)
        }
    };
    Some(Effect::student(new.mean - base.mean, variance.sqrt(), freedom))
}

/// The same of the logarithms, whose difference is that of a ratio; `None` where a value is not positive.
pub fn log_ratio(base: &[f64], new: &[f64]) -> Option<Effect> {
    let logarithms = |values: &[f64]| -> Option<Vec<f64>> {
        values.iter().map(|value| (*value > 0.0).then(|| value.ln())).collect()
    };
    mean_difference(&logarithms(base)?, &logarithms(new)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Worked out apart: means 20.2 and 23.4, variances 0.285 and 1.3, t = 5.68 with 5.69 degrees.
    #[test]
    fn welch_s_test_of_a_known_sample() {
        let base = [19.5, 20.0, 20.1, 20.4, 21.0];
        let new = [22.1, 22.6, 23.2, 24.0, 25.1];
        let effect = mean_difference(&base, &new).unwrap();
        assert!((effect.estimate - 3.2).abs() < 1e-9);
        let variance = (0.305 + 1.405) / 5.0;
        assert!((effect.standard_error() - f64::sqrt(variance)).abs() < 1e-9);
        let freedom = f64::powi(0.305 + 1.405, 2) / ((0.305_f64.powi(2) + 1.405_f64.powi(2)) / 4.0);
        assert!((effect.freedom - freedom).abs() < 1e-9);
    }

    #[test]
    fn one_round_borrows_the_other_side_s_spread_and_two_have_none() {
        let effect = mean_difference(&[10.0, 11.0, 12.0], &[15.0]).unwrap();
        assert_eq!((effect.estimate, effect.freedom), (4.0, 2.0));
        assert!((effect.standard_error() - (4.0_f64 / 3.0).sqrt()).abs() < 1e-12);
        assert_eq!(mean_difference(&[10.0], &[15.0]), None);
        assert_eq!(mean_difference(&[], &[15.0]), None);
        assert_eq!(log_ratio(&[1.0, 0.0], &[1.0, 2.0]), None);
    }
}
