//! Helpers shared by the end-to-end cases and the stressors.

pub mod stress;
