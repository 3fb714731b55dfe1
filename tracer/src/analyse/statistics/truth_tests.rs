//! Error rates on series whose truth is known; `docs/statistics.md` quotes them.

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng as _, SeedableRng as _};

use super::*;

/// A first-order autoregression with unit variance.
pub(super) fn autoregression(coefficient: f64, count: usize, seed: u64) -> Vec<f64> {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut uniform = move || ((random.next_u64() >> 11) as f64 + 0.5) / (1_u64 << 53) as f64;
    let mut normal = move || {
        let (radius, angle) = (uniform(), uniform());
        (-2.0 * radius.ln()).sqrt() * (std::f64::consts::TAU * angle).cos()
    };
    let scale = (1.0 - coefficient * coefficient).sqrt();
    let mut value = normal();
    (0..count)
        .map(|_| {
            value = coefficient * value + scale * normal();
            value
        })
        .collect()
}

fn series(coefficient: f64, count: usize, mean: f64, seed: u64) -> Series {
    let noise = autoregression(coefficient, count, seed);
    Series::new(noise.into_iter().map(|value| (mean * (1.0 + 0.05 * value), 1.0)))
}

/// Shares of trials in which the bootstrap, the ranks, and both together say that there is a difference.
fn found(coefficient: f64, count: usize, ratio: f64, trials: u64) -> [f64; 3] {
    let mut hits = [0.0; 3];
    for trial in 0..trials {
        let base = series(coefficient, count, 1000.0, 2 * trial);
        let new = series(coefficient, count, 1000.0 * ratio, 2 * trial + 1);
        let mean = bootstrap(&base, &new, trial).unwrap().log_ratio.unwrap().p_value() < 0.05;
        let ranks = serial_ranks(base.values(), new.values()).unwrap() < 0.05;
        for (hit, said) in hits.iter_mut().zip([mean, ranks, mean && ranks]) {
            *hit += f64::from(u8::from(said)) / trials as f64;
        }
    }
    hits
}

/// Both tests together say so at most about as often as 5 % of the time where there is no difference, however
/// dependent the values are. (Of 120 trials, 12 or more by chance less than once in a hundred.)
#[test]
fn false_positives_are_as_rare_as_said() {
    for coefficient in [0.0, 0.6, 0.9] {
        let [_, _, both] = found(coefficient, 60, 1.0, 120);
        assert!(both < 0.1, "{coefficient}: {both}");
    }
}

/// A change of 5 % among values that vary by 5 %: found almost always where they are independent, about
/// two times in three where they are dependent.
#[test]
fn a_difference_is_found_as_often_as_said() {
    let [_, _, independent] = found(0.0, 60, 1.05, 40);
    let [_, _, dependent] = found(0.6, 60, 1.05, 60);
    assert!(independent > 0.9, "{independent}");
    assert!((0.4..0.9).contains(&dependent), "{dependent}");
}

/// What correcting for dependence is for: taken as independent, such series differ far too often.
#[test]
fn without_the_correction_dependent_series_would_deceive() {
    let trials = 60;
    let deceived = (0..trials).filter(|trial| {
        let (base, new) = (series(0.9, 60, 1.0, 2 * trial), series(0.9, 60, 1.0, 2 * trial + 1));
        independent_ranks(base.values(), new.values()).unwrap().0 < 0.05
    });
    assert!(deceived.count() > 20);
}

/// The detectable difference is found about four times in five.
#[test]
fn what_is_said_to_be_detectable_is_detected() {
    let detectable = |trial: u64| {
        let (base, new) =
            (series(0.3, 120, 1000.0, 2 * trial), series(0.3, 120, 1000.0, 2 * trial + 1));
        bootstrap(&base, &new, trial).unwrap().log_ratio.unwrap().detectable(0.95)
    };
    let mean = (0..20).map(detectable).sum::<f64>() / 20.0;
    let [bootstrap, _, _] = found(0.3, 120, mean.exp(), 80);
    assert!((0.65..0.97).contains(&bootstrap), "{bootstrap} at {mean}");
}

/// Whole runs as the unit: Student's t of few rounds keeps its level too.
#[test]
fn few_rounds_keep_the_level() {
    let mut false_positives = 0;
    for trial in 0..1000 {
        let rounds = autoregression(0.0, 10, trial);
        let values: Vec<f64> = rounds.iter().map(|noise| 100.0 * (1.0 + 0.02 * noise)).collect();
        let effect = log_ratio(&values[..5], &values[5..]).unwrap();
        false_positives += u32::from(effect.p_value() < 0.05);
    }
    assert!((20..=75).contains(&false_positives), "{false_positives} of 1000");
}

/// Rounds that share a drift, each side with noise of its own; the new side's mean is `ratio` times the base's.
fn rounds(drift: f64, noise: f64, count: usize, ratio: f64, seed: u64) -> [Vec<f64>; 2] {
    let of = |number: u64| autoregression(0.0, count, 3 * seed + number);
    let shared = autoregression(0.7, count, 3 * seed);
    let side = |own: Vec<f64>, mean: f64| -> Vec<f64> {
        let both = own.iter().zip(&shared);
        both.map(|(own, shared)| mean * (1.0 + drift * shared + noise * own)).collect()
    };
    [side(of(1), 1000.0), side(of(2), 1000.0 * ratio)]
}

/// Shares of trials in which there is said to be a difference: by pairs, and by runs as if they were none.
fn found_by_rounds(drift: f64, noise: f64, count: usize, ratio: f64) -> [f64; 2] {
    let trials = 1000;
    let (mut by_pairs, mut by_runs) = (0, 0);
    let differ = |effect: Effect, (p, least): (f64, f64)| {
        // What the verdict takes: where ranks cannot reach the level, all of one sign is enough.
        let p_ranks = if p <= least && least > 0.05 { 0.0 } else { p };
        u32::from(effect.p_value().max(p_ranks) <= 0.05)
    };
    for trial in 0..trials {
        let [base, new] = rounds(drift, noise, count, ratio, trial);
        by_pairs +=
            differ(paired_log_ratio(&base, &new).unwrap(), signed_ranks(&base, &new).unwrap());
        by_runs += differ(log_ratio(&base, &new).unwrap(), independent_ranks(&base, &new).unwrap());
    }
    [by_pairs, by_runs].map(|hits| f64::from(hits) / trials as f64)
}

/// Of 1000 trials, 72 or more by chance less than once in a thousand.
#[test]
fn pairs_keep_the_level_with_and_without_a_drift() {
    for drift in [0.0, 0.05] {
        for count in [3, 5, 10] {
            let [by_pairs, _] = found_by_rounds(drift, 0.01, count, 1.0);
            assert!(by_pairs < 0.072, "{drift} {count}: {by_pairs}");
        }
    }
}

/// A change of 3 % between runs that differ by 1 %, while the machine drifts by 5 %: pairs show it, runs that
/// are taken for themselves do not.
#[test]
fn pairs_find_what_a_drift_hides() {
    let [by_pairs, by_runs] = found_by_rounds(0.05, 0.01, 5, 1.03);
    assert!(by_pairs > 0.75 && by_runs < 0.25, "{by_pairs} {by_runs}");
}

/// What pairs cost where nothing drifts: half of the degrees of freedom.
#[test]
fn without_a_drift_pairs_find_a_little_less() {
    let [by_pairs, by_runs] = found_by_rounds(0.0, 0.01, 5, 1.02);
    assert!(by_pairs < by_runs && by_pairs > by_runs - 0.3, "{by_pairs} {by_runs}");
}
