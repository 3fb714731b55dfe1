//! Counting what passed, failed and was skipped, and why.

use std::ops::AddAssign;

/// The sum over any number of tests.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) passed: usize,
    /// Names of what failed.
    pub(crate) failed: Vec<String>,
    /// Name and reason of what could not be judged here.
    pub(crate) skipped: Vec<(String, String)>,
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed.extend(other.failed);
        self.skipped.extend(other.skipped);
    }
}

impl Tally {
    /// The skipped and failed by name; the last line is the sum.
    pub(crate) fn print(&self) {
        for (name, reason) in &self.skipped {
            println!("skipped: {name}: {reason}");
        }
        for name in &self.failed {
            println!("failed: {name}");
        }
        if !self.skipped.is_empty() {
            println!("{} skipped", self.skipped.len());
        }
        println!("{} passed, {} failed", self.passed, self.failed.len());
    }
}
