//! What a client asks of its worker, and tells it.

use super::abort::ServerError;
use super::client::{CommandIndex, Host};
use super::commands::CommandSums;
use super::shared::Shared;
use crate::clock::monotonic_ns;
use crate::commands::say;

/// A client's ear and mouth during one call.
pub(super) struct Watch<'a> {
    pub(super) shared: &'a Shared,
    /// A transaction that fails later than this is not tried again (`-L`).
    pub(super) retry_until_ns: Option<u64>,
    /// Where commands are measured (`-r`).
    pub(super) commands: Option<&'a mut CommandSums>,
    /// When the client's command began, where commands are measured.
    pub(super) command_begun_ns: &'a mut u64,
    /// The client, where its errors are told (`--verbose-errors`).
    pub(super) tells: Option<u32>,
}

impl Host for Watch<'_> {
    fn may_retry(&mut self) -> bool {
        !self.shared.is_stopped()
            && self.retry_until_ns.is_none_or(|until_ns| monotonic_ns() <= until_ns)
    }

    #[inline]
    fn begun(&mut self, _at: CommandIndex) {
        if self.commands.is_some() {
            *self.command_begun_ns = monotonic_ns();
        }
    }

    #[inline]
    fn ended(&mut self, at: CommandIndex) {
        let Some(sum) = self.commands.as_mut().and_then(|commands| commands.at(at)) else { return };
        if self.shared.is_measured() {
            sum.count += 1;
            sum.total_ns += monotonic_ns().saturating_sub(*self.command_begun_ns);
        }
    }

    fn failed(&mut self, at: CommandIndex, retried: bool) {
        let Some(sum) = self.commands.as_mut().and_then(|commands| commands.at(at)) else { return };
        if self.shared.is_measured() {
            if retried {
                sum.retries_count += 1;
            } else {
                sum.failed_count += 1;
            }
        }
    }

    #[cold]
    fn error(&mut self, at: CommandIndex, error: &ServerError) {
        if let Some(client) = self.tells {
            let CommandIndex { script, command } = at;
            say(&format!(
                "lockscope: client {client} got an error in command {command} of script {script}: {error}"
            ));
        }
    }
}
