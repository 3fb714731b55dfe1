//! How often the current task has gone to sleep: whether it did so meanwhile.

use crate::config;
use crate::identity::{current_task, read};

/// Whether this kernel's BTF tells where a task counts them.
#[inline(always)]
pub(crate) fn are_known() -> bool {
    config::task_nvcsw_offset() != config::ABSENT
}

/// The low bits of the count; 0 where it is not known. In one wait nobody sleeps a multiple of 65,536
/// times.
#[inline(always)]
pub(crate) fn of_current_task() -> u16 {
    if !are_known() {
        return 0;
    }
    read::<u64>(current_task(), config::task_nvcsw_offset()).unwrap_or(0) as u16
}
