//! Pure computation in threads that share nothing: no lock is contended.

use std::hint::black_box;

use anyhow::Result;
use clap::Parser as _;
use lockscope_tests::stress::{Options, run};

fn main() -> Result<()> {
    run("cpu", &Options::parse(), |index| {
        let mut state = index as u64;
        Ok(Box::new(move || {
            for _ in 0..1000 {
                state = black_box(state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
            }
            Ok(())
        }))
    })
}
