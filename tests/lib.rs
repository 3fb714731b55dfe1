//! Helpers shared by the end-to-end cases and the stressors.

pub mod command;
pub mod conformance;
pub mod contained;
pub mod guests;
pub mod held;
pub mod known;
pub mod memory;
pub mod postgres;
pub mod stress;
pub mod traced;
pub mod traces;
pub mod userfault;
