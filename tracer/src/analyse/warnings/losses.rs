//! What each kind of loss means for the numbers, and what to do about it.

use lockscope_ebpf::Loss;

use crate::analyse::units::{count, percent, plural};

/// What a loss means for the numbers.
pub(super) fn text(kind: Loss, lost: u64, of_waits: Option<u64>) -> String {
    let beside = of_waits.map_or(String::new(), |waits| {
        if waits == 0 {
            return String::new();
        }
        format!(" beside {} counted ({})", count(waits), percent(lost as f64 / waits as f64))
    });
    let of = |noun: &str| plural(lost, noun);
    match kind {
        Loss::RingFull => format!(
            "{} found the ring buffer full: stacks, callers and tids rest on the others; counts and \
             times are exact",
            of("sample")
        ),
        Loss::TasksFull => {
            format!("{} found the task table full: such waits are under `other`", of("task"))
        }
        Loss::LocksFull => format!(
            "{}{beside} found the lock table full: class totals are exact, the list of locks is not complete",
            of("wait")
        ),
        Loss::StackError => format!(
            "{} could not be walked: no caller is named there; counts and times are exact",
            of("stack")
        ),
        Loss::UnmatchedEnd => format!(
            "{} without a begin{beside}: begun before tracing was, and not counted",
            of("end")
        ),
        Loss::InferredEnd => format!(
            "{}{beside} whose end was never seen: dropped, so lock times are that much too low",
            of("wait")
        ),
        Loss::NestedTooDeep => format!(
            "{}{beside} nested deeper than lockscope follows: charged to the wait around",
            of("wait")
        ),
        Loss::SelfInflicted => {
            format!("{} came from lockscope's own work: left out on purpose", of("event"))
        }
        Loss::CutByGate => format!(
            "{}{beside} crossed a border between slices with and without tracing: left out on purpose",
            of("wait")
        ),
        Loss::OtherFull => format!(
            "{} of tasks outside the benchmark could not be remembered: `other` is too low",
            of("wait")
        ),
        Loss::TidReused => format!(
            "{} got the tid of one whose account was not read yet: that account is lost",
            of("new task")
        ),
        Loss::ReplyUnreadable => format!(
            "{} could not be read: transactions by backend are too low; tps is the client's and exact",
            of("reply")
        ),
        Loss::HoldersFull => format!(
            "{} found the table of holders full: holders and hold times are not complete; waits are exact",
            of("hold")
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_told_in_the_singular() {
        for kind in Loss::ALL {
            let (one, two) = (text(kind, 1, Some(7)), text(kind, 2, Some(7)));
            let noun = one.strip_prefix("1 ").expect("a number first");
            let word = |text: &str| text.split([' ', ':']).next().unwrap_or_default().to_owned();
            // `new task` is two words.
            let (noun, many) = (noun.trim_start_matches("new "), &two[2..]);
            let many = many.trim_start_matches("new ");
            assert!(!word(noun).ends_with('s'), "{one}");
            assert!(word(many).ends_with('s'), "{two}");
        }
    }
}
