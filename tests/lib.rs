//! Helpers shared by the end-to-end cases and the stressors.

pub mod command;
pub mod conformance;
pub mod postgres;
pub mod stress;
pub mod traced;
pub mod traces;
