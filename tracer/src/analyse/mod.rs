//! From numbers to statements: statistics, the words of the findings, the warnings.

pub mod client;
pub mod compare;
pub mod correlation;
pub mod counters;
pub mod explain;
pub mod holds;
pub mod locks;
pub mod off_cpu;
pub mod profile;
pub mod profile_table;
pub mod removal;
pub mod statistics;
pub mod stats;
pub mod sweep;
pub mod units;
pub mod verdict;
pub mod view;
pub mod warnings;
pub mod words;
