//! What each command of the scripts took (`-r`).

use super::client::CommandIndex;

/// One command of a script in all transactions of all clients.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CommandSum {
    /// Executions that ended well.
    pub count: u64,
    /// Their time.
    pub total_ns: u64,
    /// Failures after which the transaction was not tried again.
    pub failed_count: u64,
    /// Failures after which it was.
    pub retries_count: u64,
}

/// All commands, by script and command.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CommandSums(pub Vec<Vec<CommandSum>>);

impl CommandSums {
    /// Of scripts with so many commands each.
    pub(crate) fn new(commands: impl IntoIterator<Item = usize>) -> Self {
        Self(commands.into_iter().map(|count| vec![CommandSum::default(); count]).collect())
    }

    /// The same commands, all zero.
    pub(crate) fn emptied(&self) -> Self {
        Self::new(self.0.iter().map(Vec::len))
    }

    #[inline]
    pub(super) fn at(&mut self, at: CommandIndex) -> Option<&mut CommandSum> {
        self.0.get_mut(at.script)?.get_mut(at.command)
    }

    /// Adds what another worker measured.
    pub(crate) fn add(&mut self, other: &Self) {
        for (sum, other) in self.0.iter_mut().flatten().zip(other.0.iter().flatten()) {
            sum.count += other.count;
            sum.total_ns += other.total_ns;
            sum.failed_count += other.failed_count;
            sum.retries_count += other.retries_count;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workers_add_up_by_command() {
        let mut sums = CommandSums::new([2, 1]);
        let at = CommandIndex { script: 0, command: 1 };
        if let Some(sum) = sums.at(at) {
            *sum = CommandSum { count: 1, total_ns: 10, failed_count: 2, retries_count: 3 };
        }
        assert!(sums.at(CommandIndex { script: 2, command: 0 }).is_none());
        let other = sums.clone();
        sums.add(&other);
        let twice = CommandSum { count: 2, total_ns: 20, failed_count: 4, retries_count: 6 };
        assert_eq!(sums.0, [vec![CommandSum::default(), twice], vec![CommandSum::default()]]);
    }
}
