//! The running kernel: what it is and what it offers.

pub mod environment;
