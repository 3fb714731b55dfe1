//! An estimated difference with its uncertainty: intervals at any confidence, and what could be detected.

use statrs::distribution::{ContinuousCDF as _, Normal, StudentsT};

/// Probability with which an effect of the detectable size is found.
const POWER: f64 = 0.8;

/// A difference between two sides, 0 for none, on the scale of its maker (logarithm of a ratio, or the
/// metric's own).
#[derive(Clone, Debug, PartialEq)]
pub struct Effect {
    /// The difference, new less base.
    pub estimate: f64,
    /// Degrees of freedom.
    pub freedom: f64,
    shape: Shape,
}

#[derive(Clone, Debug, PartialEq)]
enum Shape {
    /// Student's t around the estimate.
    Student { standard_error: f64 },
    /// What resampling made of the estimate, less the estimate, in ascending order.
    Resampled { deviations: Vec<f64> },
}

impl Effect {
    /// From a mean and its standard error.
    pub fn student(estimate: f64, standard_error: f64, freedom: f64) -> Effect {
        Effect { estimate, freedom, shape: Shape::Student { standard_error } }
    }

    /// From replicates of a bootstrap; `centre` is what they replicate.
    pub(super) fn resampled(centre: f64, replicates: &[f64], freedom: f64) -> Effect {
        let mut deviations: Vec<f64> = replicates.iter().map(|value| value - centre).collect();
        deviations.sort_by(f64::total_cmp);
        Effect { estimate: centre, freedom, shape: Shape::Resampled { deviations } }
    }

    /// The same uncertainty around another estimate of the same difference.
    #[must_use]
    pub fn around(self, estimate: f64) -> Effect {
        Effect { estimate, ..self }
    }

    /// The interval that holds the truth with this confidence (0.95).
    ///
    /// A bootstrap's is the expanded percentile interval of T. Hesterberg, "What teachers should know about
    /// the bootstrap" (The American Statistician 69, 2015): its percentiles are further out, as Student's
    /// t are, because few values show too little of their spread. Where these percentiles lie beyond all
    /// replicates, it is Student's interval, if that is wider.
    pub fn interval(&self, confidence: f64) -> (f64, f64) {
        let tail = (1.0 - confidence) / 2.0;
        let reach = -student(self.freedom).inverse_cdf(tail);
        match &self.shape {
            Shape::Student { standard_error } => {
                (self.estimate - reach * standard_error, self.estimate + reach * standard_error)
            }
            Shape::Resampled { deviations } => {
                let tail = normal().cdf(-reach * self.expansion());
                let low = self.estimate + quantile(deviations, tail);
                let high = self.estimate + quantile(deviations, 1.0 - tail);
                if tail * deviations.len() as f64 >= 1.0 {
                    return (low, high);
                }
                // So far out there are no replicates: the last of them bound nothing.
                let reach = reach * self.standard_error();
                (low.min(self.estimate - reach), high.max(self.estimate + reach))
            }
        }
    }

    /// Two-sided probability of a difference at least so far from none when there is none: the
    /// confidence at which the interval ends at 0.
    pub fn p_value(&self) -> f64 {
        let t = match &self.shape {
            Shape::Student { standard_error } if *standard_error > 0.0 => {
                self.estimate.abs() / standard_error
            }
            Shape::Student { .. } => return if self.estimate == 0.0 { 1.0 } else { 0.0 },
            Shape::Resampled { deviations } => {
                let count = deviations.len() as f64;
                let below = deviations.partition_point(|d| self.estimate + d < 0.0) as f64;
                let above = count - deviations.partition_point(|d| self.estimate + d <= 0.0) as f64;
                // Replicates on the line count for both sides; no number of them proves certainty.
                let share = (1.0 + (count - below).min(count - above)) / (count + 1.0);
                if share >= 0.5 {
                    return 1.0;
                }
                -normal().inverse_cdf(share) / self.expansion()
            }
        };
        (2.0 * student(self.freedom).sf(t)).min(1.0)
    }

    /// Standard error.
    pub fn standard_error(&self) -> f64 {
        match &self.shape {
            Shape::Student { standard_error } => *standard_error,
            Shape::Resampled { deviations } => {
                let squares: f64 = deviations.iter().map(|deviation| deviation.powi(2)).sum();
                (squares / deviations.len().max(1) as f64).sqrt() * self.expansion()
            }
        }
    }

    /// The smallest true difference that would be found four times in five, at this confidence (J. Bloom,
    /// "Minimum detectable effects", Evaluation Review 19, 1995).
    pub fn detectable(&self, confidence: f64) -> f64 {
        let student = student(self.freedom);
        let tails = student.inverse_cdf(0.5 + confidence / 2.0) + student.inverse_cdf(POWER);
        tails * self.standard_error()
    }

    /// What a bootstrap's spread lacks: it divides by n where n - 1 would be right.
    fn expansion(&self) -> f64 {
        ((self.freedom + 1.0) / self.freedom).sqrt()
    }
}

fn quantile(sorted: &[f64], share: f64) -> f64 {
    let last = sorted.len().saturating_sub(1);
    let position = share * last as f64;
    let (below, above) = (position.floor() as usize, position.ceil() as usize);
    match (sorted.get(below), sorted.get(above)) {
        (Some(low), Some(high)) => low + (high - low) * position.fract(),
        _ => 0.0,
    }
}

/// At least one degree of freedom: what has less was refused before.
#[expect(clippy::expect_used, reason = "the arguments are valid by construction")]
fn student(freedom: f64) -> StudentsT {
    StudentsT::new(0.0, 1.0, freedom.max(1.0)).expect("a positive number of degrees")
}

fn normal() -> Normal {
    Normal::standard()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_student_interval_is_that_of_the_tables() {
        // t(0.975, 4) = 2.776445 and t(0.8, 4) = 0.940965.
        let effect = Effect::student(10.0, 2.0, 4.0);
        let (low, high) = effect.interval(0.95);
        assert!((low - (10.0 - 5.552_89)).abs() < 1e-4 && (high - 15.552_89).abs() < 1e-4);
        assert!((effect.detectable(0.95) - 2.0 * (2.776_445 + 0.940_965)).abs() < 1e-4);
        // The interval just touches 0 at 1 - p.
        let (touching, _) = effect.interval(1.0 - effect.p_value());
        assert!(touching.abs() < 1e-6, "{touching}");
    }

    #[test]
    fn a_resampled_interval_is_expanded_and_agrees_with_its_p_value() {
        let replicates: Vec<f64> =
            (0..=2000).map(|i| 5.0 + (f64::from(i) - 1000.0) / 100.0).collect();
        let effect = Effect::resampled(5.0, &replicates, 30.0);
        let (low, high) = effect.interval(0.9);
        // Wider than the plain 5 % and 95 % percentiles, -4 and 14.
        assert!((-4.6..-4.0).contains(&low) && (14.0..14.6).contains(&high), "{low} {high}");
        let (touching, _) = effect.interval(1.0 - effect.p_value());
        assert!(touching.abs() < 0.1, "{touching}");
        assert_eq!(Effect::resampled(0.0, &[-1.0, 0.0, 1.0], 9.0).p_value(), 1.0);
    }

    #[test]
    fn beyond_the_replicates_an_interval_grows_on() {
        let replicates: Vec<f64> = (0..=2000).map(|i| (f64::from(i) - 1000.0) / 1000.0).collect();
        let few = Effect::resampled(0.0, &replicates, 1.5);
        let widths = [0.8, 0.95, 0.99, 0.999].map(|confidence| few.interval(confidence).1);
        assert!(widths.is_sorted_by(|left, right| left < right), "{widths:?}");
        assert!(widths[3] > 10.0, "not the outermost replicate, 1: {widths:?}");
        let many = Effect::resampled(0.0, &replicates, 200.0);
        let (low, high) = many.interval(0.95);
        assert!(low > -1.0 && high < 1.0, "percentiles, as before: {low} {high}");
    }

    #[test]
    fn without_any_spread_only_equality_is_no_difference() {
        assert_eq!(Effect::student(0.0, 0.0, 4.0).p_value(), 1.0);
        assert_eq!(Effect::student(1.0, 0.0, 4.0).p_value(), 0.0);
    }
}
