//! Random integers of a range, by several distributions.

use super::{Arity, Function};
use crate::load::script::random::Random;
use crate::load::script::value::{EvaluationError, Value};

/// Below it, too many draws would fall outside the range.
const GAUSSIAN_MIN: f64 = 2.0;
const ZIPFIAN_MIN: f64 = 1.001;
const ZIPFIAN_MAX: f64 = 1000.0;

const TWO: Arity = Arity::Exactly(2);
const THREE: Arity = Arity::Exactly(3);

pub(super) const FUNCTIONS: &[Function] = &[
    Function::new("random", TWO, |scope, arguments| {
        let range = Range::new(arguments)?;
        Ok(range.at(scope.random.up_to(range.count.cast_unsigned() - 1).cast_signed()))
    }),
    Function::new("random_exponential", THREE, |scope, arguments| {
        let range = Range::new(arguments)?;
        let parameter = arguments[2].to_double()?;
        if parameter <= 0.0 || parameter.is_nan() {
            let rule = "exponential parameter must be greater than zero";
            return Err(EvaluationError::new(format!("{rule} (not {parameter:.6})")));
        }
        Ok(range.part(exponential(scope.random, parameter)))
    }),
    Function::new("random_gaussian", THREE, |scope, arguments| {
        let range = Range::new(arguments)?;
        let parameter = arguments[2].to_double()?;
        if parameter < GAUSSIAN_MIN || parameter.is_nan() {
            let rule = format!("gaussian parameter must be at least {GAUSSIAN_MIN:.6}");
            return Err(EvaluationError::new(format!("{rule} (not {parameter:.6})")));
        }
        Ok(range.part(gaussian(scope.random, parameter)))
    }),
    Function::new("random_zipfian", THREE, |scope, arguments| {
        let range = Range::new(arguments)?;
        let parameter = arguments[2].to_double()?;
        if !(ZIPFIAN_MIN..=ZIPFIAN_MAX).contains(&parameter) {
            let rule =
                format!("zipfian parameter must be in range [{ZIPFIAN_MIN:.3}, {ZIPFIAN_MAX:.0}]");
            return Err(EvaluationError::new(format!("{rule} (not {parameter:.6})")));
        }
        Ok(range.at(zipfian(scope.random, range.count, parameter) - 1))
    }),
];

/// The integers from `low`, as many as `count`.
struct Range {
    low: i64,
    count: i64,
}

impl Range {
    /// From the first two arguments, lowest and highest.
    fn new(arguments: &[Value]) -> Result<Self, EvaluationError> {
        let (low, high) = (arguments[0].to_int()?, arguments[1].to_int()?);
        if low > high {
            return Err(EvaluationError::new("empty range given to random"));
        }
        let count = high.checked_sub(low).and_then(|distance| distance.checked_add(1));
        let too_large = || EvaluationError::new("random range is too large");
        Ok(Self { low, count: count.ok_or_else(too_large)? })
    }

    fn at(&self, index: i64) -> Value {
        Value::Int(self.low.wrapping_add(index))
    }

    /// The integer at `part` of the range, from 0 to less than 1.
    fn part(&self, part: f64) -> Value {
        self.at((self.count as f64 * part) as i64)
    }
}

/// From 0 to less than 1, dense near 0: the density falls to exp(-parameter) towards 1.
fn exponential(random: &mut Random, parameter: f64) -> f64 {
    let cut = (-parameter).exp();
    -(cut + (1.0 - cut) * random.positive_unit()).ln() / parameter
}

/// From 0 to less than 1, dense in the middle; `parameter` standard deviations on either side.
fn gaussian(random: &mut Random, parameter: f64) -> f64 {
    loop {
        let deviation = random.normal();
        if (-parameter..parameter).contains(&deviation) {
            return (deviation + parameter) / (parameter * 2.0);
        }
    }
}

/// From 1 to `count` with probabilities in proportion to k^-s, by rejection: Devroye, Non-Uniform
/// Random Variate Generation, 1986, page 550.
fn zipfian(random: &mut Random, count: i64, s: f64) -> i64 {
    if count <= 1 {
        return 1;
    }
    let b = 2.0_f64.powf(s - 1.0);
    loop {
        let (u, v) = (random.unit(), random.unit());
        let x = u.powf(-1.0 / (s - 1.0)).floor();
        let t = (1.0 + 1.0 / x).powf(s - 1.0);
        if v * x * (t - 1.0) / (b - 1.0) <= t / b && x <= count as f64 {
            return x as i64;
        }
    }
}
