//! From numbers to statements: statistics, the words of the findings, the warnings.

pub mod client;
pub mod correlation;
pub mod holds;
pub mod locks;
pub mod stats;
pub mod units;
pub mod view;
pub mod warnings;
pub mod words;
