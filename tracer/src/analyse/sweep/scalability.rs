//! The Universal Scalability Law, fitted to throughput at several client counts.
//!
//! X(N) = λN / (1 + σ(N - 1) + κN(N - 1)): λ is what one client alone achieves, σ the part of the work
//! that only one at a time can do (contention), κ what each pair of clients costs the other (coherency).
//! N. Gunther, "Guerrilla Capacity Planning", 2007, chapters 4 and 5.
//!
//! N / X is linear in 1/λ, σ/λ and κ/λ: weighted least squares, with σ and κ not below 0. The weights
//! make every point's *relative* error count the same.

use crate::model::{Estimate, Scalability};

/// Fewer different client counts than this leave nothing over to judge the fit by.
const LEAST_POINTS: usize = 4;
/// Confidence of the intervals.
const CONFIDENCE: f64 = 0.95;

/// Throughput at a client count: the mean, and resampled means of the same.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Point {
    pub(super) clients: f64,
    pub(super) tps: f64,
    pub(super) resampled: Vec<f64>,
}

/// Fits the law; `None` with fewer than four different client counts, or without throughput.
///
/// The intervals come from fitting resampled means: they hold the noise of each point, not what the
/// law itself misses, of which `worst_residual` tells.
pub(super) fn fit(points: &[Point]) -> Option<Scalability> {
    let mut counts: Vec<f64> = points.iter().map(|point| point.clients).collect();
    counts.sort_by(f64::total_cmp);
    counts.dedup();
    if counts.len() < LEAST_POINTS {
        return None;
    }
    let measured: Vec<(f64, f64)> = points.iter().map(|p| (p.clients, p.tps)).collect();
    let law = Law::through(&measured)?;
    let replicates = points.iter().map(|point| point.resampled.len()).min().unwrap_or(0);
    let laws: Vec<Law> = (0..replicates)
        .filter_map(|index| {
            let drawn: Vec<(f64, f64)> =
                points.iter().map(|p| (p.clients, p.resampled[index])).collect();
            Law::through(&drawn)
        })
        .collect();
    let estimate = |of: fn(&Law) -> f64| interval(of(&law), laws.iter().map(of).collect());
    let (first, last) = (counts[0], counts[counts.len() - 1]);
    let residual = |&(clients, tps): &(f64, f64)| (tps / law.at(clients) - 1.0).abs();
    let worst = measured.iter().map(residual).fold(0.0, f64::max);
    Some(Scalability {
        lambda_tps: estimate(|law| law.lambda),
        contention: estimate(|law| law.sigma),
        coherency: estimate(|law| law.kappa),
        peak_clients: law.peak(),
        peak_tps: law.peak().map(|clients| law.at(clients)),
        is_peak_measured: law.peak().is_some_and(|peak| (first..=last).contains(&peak)),
        worst_residual: worst,
    })
}

/// One set of coefficients.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Law {
    lambda: f64,
    sigma: f64,
    kappa: f64,
}

impl Law {
    /// The best law whose σ and κ are not negative: the free fit, or the best one with either or both
    /// left out.
    fn through(points: &[(f64, f64)]) -> Option<Law> {
        if points.iter().any(|(_, tps)| *tps <= 0.0 || !tps.is_finite()) {
            return None;
        }
        let fits = [[true, true], [true, false], [false, true], [false, false]]
            .into_iter()
            .filter_map(|free| Law::with(points, free))
            .filter(|law| law.lambda > 0.0 && law.sigma >= 0.0 && law.kappa >= 0.0);
        let error = |law: &Law| -> f64 {
            points.iter().map(|(clients, tps)| (tps / law.at(*clients) - 1.0).powi(2)).sum()
        };
        fits.min_by(|left, right| error(left).total_cmp(&error(right)))
    }

    /// Least squares with σ and κ where `free` says so, else 0.
    fn with(points: &[(f64, f64)], free: [bool; 2]) -> Option<Law> {
        let mut normal = [[0.0; 4]; 3];
        for &(clients, tps) in points {
            let (target, weight) = (clients / tps, (tps / clients).powi(2));
            let keep = |is_free, value| if is_free { value } else { 0.0 };
            let terms = [
                1.0,
                keep(free[0], clients - 1.0),
                keep(free[1], clients * (clients - 1.0)),
                target,
            ];
            for (row, line) in normal.iter_mut().enumerate() {
                for (column, cell) in line.iter_mut().enumerate() {
                    *cell += weight * terms[row] * terms[column];
                }
            }
        }
        for (index, is_free) in free.into_iter().enumerate() {
            if !is_free {
                normal[index + 1][index + 1] = 1.0;
            }
        }
        let [reciprocal, sigma, kappa] = solve(normal)?;
        let lambda = 1.0 / reciprocal;
        Some(Law { lambda, sigma: sigma * lambda, kappa: kappa * lambda })
    }

    fn at(&self, clients: f64) -> f64 {
        let others = clients - 1.0;
        self.lambda * clients / (1.0 + self.sigma * others + self.kappa * clients * others)
    }

    /// Where throughput is highest; `None` where it never falls.
    fn peak(&self) -> Option<f64> {
        (self.kappa > 0.0 && self.sigma < 1.0).then(|| ((1.0 - self.sigma) / self.kappa).sqrt())
    }
}

/// Gaussian elimination with pivots; `None` for a singular matrix.
fn solve(mut lines: [[f64; 4]; 3]) -> Option<[f64; 3]> {
    for column in 0..3 {
        let size = |row: &usize| lines[*row][column].abs();
        let pivot = (column..3).max_by(|a, b| size(a).total_cmp(&size(b)))?;
        lines.swap(column, pivot);
        let head = lines[column];
        if head[column].abs() < f64::EPSILON {
            return None;
        }
        for (row, line) in lines.iter_mut().enumerate() {
            if row != column {
                let factor = line[column] / head[column];
                for (cell, value) in line.iter_mut().zip(head) {
                    *cell -= factor * value;
                }
            }
        }
    }
    Some([0, 1, 2].map(|row| lines[row][3] / lines[row][row]))
}

fn interval(value: f64, mut resampled: Vec<f64>) -> Estimate {
    resampled.sort_by(f64::total_cmp);
    let at = |part: f64| {
        let index = (part * (resampled.len().saturating_sub(1)) as f64).round() as usize;
        resampled.get(index).copied()
    };
    let tail = (1.0 - CONFIDENCE) / 2.0;
    Estimate { value, low: at(tail), high: at(1.0 - tail) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn points(law: Law, noise: f64) -> Vec<Point> {
        let mut random = fastrand::Rng::with_seed(5);
        [1.0, 2.0, 4.0, 8.0, 16.0, 32.0]
            .into_iter()
            .map(|clients| {
                let tps = law.at(clients);
                let mut drawn = || tps * (1.0 + noise * (random.f64() - 0.5));
                Point { clients, tps, resampled: (0..200).map(|_| drawn()).collect() }
            })
            .collect()
    }

    proptest! {
        #[test]
        fn a_curve_that_follows_the_law_gives_its_coefficients(
            lambda in 10.0..1e6_f64, sigma in 0.0..0.5_f64, kappa in 0.0..0.01_f64,
        ) {
            let found = fit(&points(Law { lambda, sigma, kappa }, 0.0)).unwrap();
            prop_assert!((found.lambda_tps.value / lambda - 1.0).abs() < 1e-6);
            prop_assert!((found.contention.value - sigma).abs() < 1e-6);
            prop_assert!((found.coherency.value - kappa).abs() < 1e-6);
            prop_assert!(found.worst_residual < 1e-6);
        }
    }

    #[test]
    fn the_peak_is_where_the_curve_turns() {
        let law = Law { lambda: 1000.0, sigma: 0.02, kappa: 0.005 };
        let found = fit(&points(law, 0.0)).unwrap();
        let peak = found.peak_clients.unwrap();
        assert!((13.9..14.1).contains(&peak) && found.is_peak_measured, "{peak}");
        assert!(law.at(peak) > law.at(peak - 1.0) && law.at(peak) > law.at(peak + 1.0));
        assert_eq!(fit(&points(Law { kappa: 0.0, ..law }, 0.0)).unwrap().peak_clients, None);
    }

    #[test]
    fn noise_widens_the_intervals_around_the_truth() {
        let law = Law { lambda: 1000.0, sigma: 0.05, kappa: 0.002 };
        let (quiet, noisy) = (fit(&points(law, 0.01)).unwrap(), fit(&points(law, 0.1)).unwrap());
        let width = |estimate: &Estimate| estimate.high.unwrap() - estimate.low.unwrap();
        assert!(width(&noisy.contention) > 3.0 * width(&quiet.contention));
        for found in [quiet, noisy] {
            let Estimate { low, high, .. } = found.contention;
            assert!(low.unwrap() <= 0.05 && high.unwrap() >= 0.05, "{low:?} {high:?}");
        }
    }

    #[test]
    fn superlinear_or_short_curves_have_no_negative_coefficient_and_no_fit() {
        let faster: Vec<Point> = [1.0, 2.0, 4.0, 8.0]
            .into_iter()
            .map(|n: f64| Point { clients: n, tps: 100.0 * n.powf(1.2), resampled: Vec::new() })
            .collect();
        let found = fit(&faster).unwrap();
        assert_eq!((found.contention.value, found.coherency.value), (0.0, 0.0));
        assert!(found.worst_residual > 0.1);
        assert_eq!(found.contention.low, None);
        assert_eq!(fit(&faster[..3]), None);
        assert_eq!(fit(&[faster[0].clone(), faster[0].clone(), faster[1].clone()]), None);
    }
}
