//! What each kind of loss means for the numbers, and what to do about it.

use lockscope_ebpf::Loss;

use crate::analyse::units::{count, percent};

/// What a loss means for the numbers.
pub(super) fn text(kind: Loss, lost: u64, of_waits: Option<u64>) -> String {
    let beside = of_waits.map_or(String::new(), |waits| {
        if waits == 0 {
            return String::new();
        }
        format!(" beside {} counted ({})", count(waits), percent(lost as f64 / waits as f64))
    });
    let lost = count(lost);
    match kind {
        Loss::RingFull => format!(
            "{lost} samples found the ring buffer full: stacks, callers and tids rest on the others; counts and \
             times are exact"
        ),
        Loss::TasksFull => {
            format!("{lost} tasks found the task table full: their waits are under `other`")
        }
        Loss::LocksFull => format!(
            "{lost} waits{beside} found the lock table full: class totals are exact, the list of locks lacks them"
        ),
        Loss::StackError => format!(
            "{lost} stacks could not be walked: those samples name no caller; counts and times are exact"
        ),
        Loss::UnmatchedEnd => format!(
            "{lost} ends without a begin{beside}: waits that began before tracing did, and not counted"
        ),
        Loss::InferredEnd => format!(
            "{lost} waits{beside} whose end was never seen: dropped, so lock times are that much too low"
        ),
        Loss::NestedTooDeep => format!(
            "{lost} waits{beside} nested deeper than lockscope follows: charged to the wait around them"
        ),
        Loss::SelfInflicted => {
            format!("{lost} events came from lockscope's own work: left out on purpose")
        }
        Loss::CutByGate => format!(
            "{lost} waits{beside} crossed a border between slices with and without tracing: left out on purpose"
        ),
        Loss::OtherFull => format!(
            "{lost} waits of tasks outside the benchmark could not be remembered: `other` is too low"
        ),
        Loss::TidReused => format!(
            "{lost} new tasks got the tid of one whose account was not read yet: that account is lost"
        ),
        Loss::ReplyUnreadable => format!(
            "{lost} replies could not be read: transactions by backend are too low; tps is the client's and exact"
        ),
        Loss::HoldersFull => format!(
            "{lost} holds found the table of holders full: holders and hold times lack them; waits are exact"
        ),
    }
}

/// What to do about a loss, where something can be done.
pub(super) fn remedy(kind: Loss) -> Option<&'static str> {
    match kind {
        Loss::RingFull => {
            Some("a larger --ring-bytes, or fewer samples with --sample-above and --sample-every")
        }
        Loss::TasksFull => Some("a larger --max-tasks"),
        Loss::LocksFull | Loss::HoldersFull => Some("a larger --max-locks"),
        Loss::InferredEnd | Loss::TidReused => Some("a shorter run loses fewer"),
        Loss::StackError
        | Loss::UnmatchedEnd
        | Loss::NestedTooDeep
        | Loss::SelfInflicted
        | Loss::CutByGate
        | Loss::OtherFull
        | Loss::ReplyUnreadable => None,
    }
}
