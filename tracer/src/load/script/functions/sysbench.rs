//! sysbench's distributions, with its default parameters; pgbench has nothing like them.
//!
//! The values are distributed as sysbench's; the streams are not the same.

use super::{Arity, Function};
use crate::load::script::random::Random;
use crate::load::script::value::{EvaluationError, Value};

/// Uniform values whose mean is the bell of "special" (`--rand-spec-iter`).
const BELL_DRAWS: u32 = 12;
/// Share of the values that "special" takes from the middle (`--rand-spec-res`).
const MIDDLE_SHARE: f64 = 0.75;
/// Part of the range that counts as the middle (`--rand-spec-pct`).
const MIDDLE_PART: f64 = 0.01;

pub(super) const FUNCTIONS: &[Function] = &[
    Function::new("sysbench_special", Arity::Exactly(2), |scope, arguments| {
        let (low, high) = range(arguments)?;
        Ok(Value::Int(special(scope.random, low, high)))
    }),
    Function::new("sysbench_zipfian", Arity::Exactly(3), |scope, arguments| {
        let (low, high) = range(arguments)?;
        let exponent = arguments[2].to_double()?;
        if !(exponent > 0.0 && exponent.is_finite()) {
            let rule = "sysbench_zipfian's exponent must be more than 0";
            return Err(EvaluationError::new(format!("{rule} (not {exponent})")));
        }
        Ok(Value::Int(low + zipfian(scope.random, high - low + 1, exponent) - 1))
    }),
];

/// Lowest and highest value; as in sysbench they have 32 bits.
fn range(arguments: &[Value]) -> Result<(i64, i64), EvaluationError> {
    let (low, high) = (arguments[0].to_int()?, arguments[1].to_int()?);
    if low > high {
        return Err(EvaluationError::new("empty range given to a sysbench distribution"));
    }
    if low < 0 || high > i64::from(u32::MAX) {
        return Err(EvaluationError::new(
            "sysbench's distributions take values of 0 to 4294967295",
        ));
    }
    Ok((low, high))
}

/// Three values of four lie evenly in the middle hundredth of the range, the others form a bell over
/// all of it.
pub(crate) fn special(random: &mut Random, low: i64, high: i64) -> i64 {
    let width = (high - low) as f64;
    let offset = if random.unit() < MIDDLE_SHARE {
        let middle = (width * MIDDLE_PART).max(1.0);
        (width - width * MIDDLE_PART) / 2.0 + random.unit() * middle
    } else {
        let sum: f64 = (0..BELL_DRAWS).map(|_| random.unit()).sum();
        width * sum / f64::from(BELL_DRAWS)
    };
    (low + offset as i64).min(high)
}

/// From 1 to `count` with probabilities in proportion to k^-exponent, by rejection-inversion:
/// Hörmann and Derflinger, ACM TOMACS 6 (3), 1996. Unlike pgbench's method it takes exponents
/// below 1.
pub(crate) fn zipfian(random: &mut Random, count: i64, exponent: f64) -> i64 {
    let count = count as f64;
    // The density, its integral and the integral's inverse; near an exponent of 1 the integral is
    // a logarithm, which the two quotients approach.
    let density = |x: f64| (-exponent * x.ln()).exp();
    let integral = |x: f64| quotient((1.0 - exponent) * x.ln(), f64::exp_m1) * x.ln();
    let inverse = |y: f64| {
        let t = (y * (1.0 - exponent)).max(-1.0);
        (quotient(t, f64::ln_1p) * y).exp()
    };
    let (from, to) = (integral(1.5) - 1.0, integral(count + 0.5));
    let sure = 2.0 - inverse(integral(2.5) - density(2.0));
    loop {
        let u = to + random.unit() * (from - to);
        let x = inverse(u);
        let k = x.round().clamp(1.0, count);
        if k - x <= sure || u >= integral(k + 0.5) - density(k) {
            return k as i64;
        }
    }
}

/// `f(x) / x`, for functions that are as x near 0.
fn quotient(x: f64, f: impl Fn(f64) -> f64) -> f64 {
    if x.abs() > 1e-8 { f(x) / x } else { 1.0 }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const DRAWS: usize = 200_000;

    fn shares(mut draw: impl FnMut(&mut Random) -> i64, size: usize) -> Vec<f64> {
        let mut random = Random::new(1);
        let mut counts = vec![0_u32; size + 1];
        for _ in 0..DRAWS {
            counts[usize::try_from(draw(&mut random)).unwrap()] += 1;
        }
        counts.iter().map(|count| f64::from(*count) / DRAWS as f64).collect()
    }

    #[test]
    fn zipfian_values_follow_the_power_law() {
        for exponent in [0.5, 0.8, 1.0, 1.2] {
            let shares = shares(|random| zipfian(random, 100, exponent), 100);
            let total: f64 = (1..=100).map(|k| f64::from(k).powf(-exponent)).sum();
            for k in [1, 2, 3, 10, 50, 100] {
                let expected = (k as f64).powf(-exponent) / total;
                let tolerance = 5.0 * (expected / DRAWS as f64).sqrt();
                assert!((shares[k] - expected).abs() < tolerance, "{exponent} {k}: {}", shares[k]);
            }
        }
    }

    #[test]
    fn most_special_values_lie_in_the_middle() {
        let shares = shares(|random| special(random, 1, 10_000), 10_000);
        let part = |from: usize, to: usize| shares[from..=to].iter().sum::<f64>();
        // The bell has about 5 % of its values there.
        let middle = part(4_950, 5_050);
        assert!((0.75..0.78).contains(&middle), "{middle}");
        let below: f64 = part(1, 4_949);
        assert!((0.10..0.13).contains(&below), "{below}");
        assert!(part(1, 1_000) < 0.001);
    }

    proptest! {
        #[test]
        fn values_stay_in_the_range(low in 0_i64..1000, width in 0_i64..1_000_000, seed: u64, exponent in 0.01_f64..20.0) {
            let mut random = Random::new(seed);
            let value = special(&mut random, low, low + width);
            prop_assert!((low..=low + width).contains(&value), "{}", value);
            let value = zipfian(&mut random, width + 1, exponent);
            prop_assert!((1..=width + 1).contains(&value), "{}", value);
        }
    }
}
