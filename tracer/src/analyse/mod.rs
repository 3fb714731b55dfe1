//! From numbers to statements: statistics, the words of the findings, the warnings.

pub mod correlation;
pub mod holds;
pub mod locks;
pub mod profile;
pub mod profile_table;
pub mod stats;
pub mod units;
pub mod warnings;
pub mod words;
