//! A metric over one run, one value an interval.

/// Values in the order of time, each with what it is a mean of (transactions, or time).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Series {
    values: Vec<f64>,
    weights: Vec<f64>,
}

impl Series {
    /// Of pairs of value and weight; what is not finite or has no weight is left out.
    pub fn new(pairs: impl IntoIterator<Item = (f64, f64)>) -> Series {
        let (values, weights) = pairs
            .into_iter()
            .filter(|(value, weight)| value.is_finite() && weight.is_finite() && *weight > 0.0)
            .unzip();
        Series { values, weights }
    }

    /// How many values.
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// The values.
    pub fn values(&self) -> &[f64] {
        &self.values
    }

    /// The weighted mean: the metric over all of the run.
    pub fn mean(&self) -> Option<f64> {
        let weight: f64 = self.weights.iter().sum();
        (weight > 0.0).then(|| self.weighted().sum::<f64>() / weight)
    }

    /// Sums of the first 0, 1, 2, … values of two laps, weighted, and of their weights: any block of a
    /// circle is a difference of two of them.
    pub(super) fn running_sums(&self) -> (Vec<f64>, Vec<f64>) {
        (running(self.weighted()), running(self.weights.iter().copied()))
    }

    fn weighted(&self) -> impl Iterator<Item = f64> + Clone {
        self.values.iter().zip(&self.weights).map(|(value, weight)| value * weight)
    }
}

fn running(values: impl Iterator<Item = f64> + Clone) -> Vec<f64> {
    let mut sum = 0.0;
    let sums = values.clone().chain(values).map(|value| {
        sum += value;
        sum
    });
    [0.0].into_iter().chain(sums).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mean_is_weighted_and_leaves_out_what_was_not_measured() {
        let series = Series::new([(10.0, 1.0), (20.0, 3.0), (f64::NAN, 1.0), (99.0, 0.0)]);
        assert_eq!(series.values(), [10.0, 20.0]);
        assert_eq!(series.mean(), Some(17.5));
        assert_eq!(Series::default().mean(), None);
    }

    #[test]
    fn running_sums_go_round_twice() {
        let (sums, weights) = Series::new([(1.0, 1.0), (2.0, 2.0)]).running_sums();
        assert_eq!(sums, [0.0, 1.0, 5.0, 6.0, 10.0]);
        assert_eq!(weights, [0.0, 1.0, 3.0, 4.0, 6.0]);
    }
}
