//! Kernels for `lockscope vm`, which `cargo xtask test` fetches and names in variables.

use std::env;
use std::path::PathBuf;
use std::process::Command;

use crate::command::{lockscope, skip};

/// A kernel and its modules.
#[derive(Debug)]
pub struct Kernel {
    /// Its bzImage.
    pub image: PathBuf,
    /// The directory with its modules.
    pub modules: PathBuf,
}

/// Debian's 6.1 and 6.12. `None`, and said so, where nobody names them.
#[must_use]
pub fn kernels(case: &str) -> Option<[Kernel; 2]> {
    let found = find("GOOD").zip(find("BAD"));
    if found.is_none() {
        skip(case, "no kernels: `cargo xtask test --only vm` fetches them");
    }
    found.map(|(good, bad)| [good, bad])
}

/// A kernel that came after these, where somebody names one.
#[must_use]
pub fn kernel_after() -> Option<Kernel> {
    find("AFTER")
}

fn find(side: &str) -> Option<Kernel> {
    let variable = |what: &str| env::var_os(format!("BISECT_{side}_{what}")).map(PathBuf::from);
    Some(Kernel { image: variable("KERNEL")?, modules: variable("MODULES")? })
}

impl Kernel {
    /// `lockscope vm` with this kernel, its modules, these options and, behind `--`, this command.
    #[must_use]
    pub fn run(&self, options: &[&str], command: &[&str]) -> Command {
        let mut vm = lockscope(&["vm", "--accel", "tcg", "--kernel"]);
        vm.arg(&self.image).arg("--modules").arg(&self.modules);
        vm.args(options).arg("--").args(command);
        vm
    }
}
