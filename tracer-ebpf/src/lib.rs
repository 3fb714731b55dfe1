//! The types that the eBPF programs and the user side share.
//!
//! Everything here is `no_std` and `repr(C)`, with explicit padding, and has a layout test.
#![no_std]

mod abi;

pub use abi::*;
