//! Whether two series of measurements differ, and by how much: `docs/statistics.md` has the rules, the
//! sources, and the error rates measured on series whose truth is known.

mod autocorrelation;
mod bootstrap;
mod correction;
mod effect;
mod pairs;
mod ranks;
mod rounds;
mod series;
#[cfg(test)]
mod truth_tests;

pub use autocorrelation::Dependence;
pub use bootstrap::{Bootstrapped, bootstrap, resampled_means};
pub use correction::benjamini_hochberg;
pub use effect::Effect;
pub use pairs::{paired_difference, paired_log_ratio, signed_ranks};
pub use ranks::{independent_ranks, serial_ranks};
pub use rounds::{log_ratio, mean_difference};
pub use series::Series;
