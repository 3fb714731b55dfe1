//! Which waits are counted at all, and which by lock.

use crate::config;
use crate::context::Event;

/// Whether the waits of tasks without an account are left alone.
#[inline(always)]
pub(crate) fn is_foreign(has_account: bool) -> bool {
    !has_account && config::only_tasks() != 0
}

/// Whether the lock table and the samples take a wait of `class` that ends here and now.
#[inline(always)]
pub(crate) fn keeps(event: &Event, class: u8, wait_ns: u64) -> bool {
    wait_ns >= config::min_wait_ns()
        && (config::class_mask() >> (class & 31)) & 1 != 0
        && event.cpu().left_out == 0
}
