//! `lockscope vm` as users run it, on this machine: `tests/cases/bisect.rs` and `vm.rs`.

use anyhow::{Context as _, Result};

use super::kernels::{self, Series};
use super::lockscope_binary;
use crate::cargo_test;
use crate::shell::cargo;
use crate::tally::Tally;

/// The kernels on both sides of the bisected change, by the variables that tell the tests of them.
const SIDES: [(&str, &str); 2] = [("GOOD", "6.1"), ("BAD", "6.12")];

/// Fetches the kernels and runs the tests. The programs have been built by the cases before.
pub(crate) fn run_user_cases() -> Result<Tally> {
    let words = ["test", "--package", "lockscope-tests", "--no-fail-fast"];
    let cases = ["--test", "bisect", "--test", "vm", "--", "--test-threads=1"];
    let mut command = cargo();
    command.args(words).args(cases);
    command.env("LOCKSCOPE_BIN", lockscope_binary());
    for (side, name) in SIDES {
        let series = Series::find(name).with_context(|| format!("no kernel {name}"))?;
        let kernel = kernels::fetch(series, false)?.boot;
        let modules = kernel.modules.with_context(|| format!("{name} has no modules"))?;
        command.env(format!("BISECT_{side}_KERNEL"), kernel.image);
        command.env(format!("BISECT_{side}_MODULES"), modules);
    }
    cargo_test::run("vm", &mut command)
}
