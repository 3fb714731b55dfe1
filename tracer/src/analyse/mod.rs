//! From numbers to statements: statistics, the words of the findings, the warnings.

pub mod compare;
pub mod correlation;
pub mod holds;
pub mod locks;
pub mod statistics;
pub mod stats;
pub mod sweep;
pub mod units;
pub mod warnings;
pub mod words;
