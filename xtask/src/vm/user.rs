//! `lockscope vm` as users run it, on this machine: `tests/cases/bisect.rs`, `stripe.rs` and `vm.rs`.

use std::process::Command;

use anyhow::{Context as _, Result};

use super::kernels::{self, Series};
use super::lockscope_binary;
use crate::cargo_test;
use crate::shell::{cargo, run};
use crate::tally::Tally;

const CASES: [&str; 3] = ["bisect", "stripe", "vm"];
/// The kernels on both sides of the bisected change, by the variables that tell the tests of them.
const SIDES: [(&str, &str); 2] = [("GOOD", "6.1"), ("BAD", "6.12")];

/// What came after them; only where it is among the kernels to be tested.
const AFTER: (&str, &str) = ("AFTER", "7.x");

/// Builds the tests: nothing may be built any more while guests read the programs.
pub(super) fn build_cases() -> Result<()> {
    run(tests().arg("--no-run"))
}

fn tests() -> Command {
    let mut command = cargo();
    command.args(["test", "--package", "lockscope-tests"]);
    command.args(CASES.iter().flat_map(|case| ["--test", case]));
    command
}

/// Fetches the kernels and runs the tests.
pub(super) fn run_cases(kernels: &[String]) -> Result<Tally> {
    let chosen = super::series_names(kernels)?;
    let mut command = tests();
    command.args(["--no-fail-fast", "--", "--test-threads=1"]);
    command.env("LOCKSCOPE_BIN", lockscope_binary());
    let after = Some(AFTER).filter(|(_, name)| chosen.contains(name));
    for (side, name) in SIDES.into_iter().chain(after) {
        let series = Series::find(name).with_context(|| format!("no kernel {name}"))?;
        let kernel = kernels::fetch(series, false)?.boot;
        let modules = kernel.modules.with_context(|| format!("{name} has no modules"))?;
        command.env(format!("BISECT_{side}_KERNEL"), kernel.image);
        command.env(format!("BISECT_{side}_MODULES"), modules);
    }
    cargo_test::run("vm", &mut command)
}
