//! What was lost or set aside.

/// What was lost or set aside; index into the per-CPU `LOSSES` array.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Loss {
    /// The ring buffer had no room for a sample.
    RingFull = 0,
    /// A task could not be added to `TASKS`.
    TasksFull = 1,
    /// A lock could not be added to `LOCKS`.
    LocksFull = 2,
    /// The stack walk failed.
    StackError = 3,
    /// An end with no open wait that matches.
    UnmatchedEnd = 4,
    /// Open waits dropped because an outer one ended: their own end was never seen.
    InferredEnd = 5,
    /// A begin with the stack of nested waits full.
    NestedTooDeep = 6,
    /// An event raised by lockscope's own map operations, left out on purpose.
    SelfInflicted = 7,
    /// A wait cut by the gate: it began or ended in a slice with the programs off.
    CutByGate = 8,
    /// A sleeping wait of a task outside the task map that could not be remembered.
    OtherFull = 9,
    /// A new task with the tid of one whose account had not been read yet.
    TidReused = 10,
    /// The bytes of a reply could not be read.
    ReplyUnreadable = 11,
    /// A holder could not be added to `HOLDERS`.
    HoldersFull = 12,
}

/// How many kinds of loss there are.
pub const LOSS_COUNT: usize = 13;

impl Loss {
    /// Every kind, in index order.
    pub const ALL: [Loss; LOSS_COUNT] = [
        Loss::RingFull,
        Loss::TasksFull,
        Loss::LocksFull,
        Loss::StackError,
        Loss::UnmatchedEnd,
        Loss::InferredEnd,
        Loss::NestedTooDeep,
        Loss::SelfInflicted,
        Loss::CutByGate,
        Loss::OtherFull,
        Loss::TidReused,
        Loss::ReplyUnreadable,
        Loss::HoldersFull,
    ];

    /// The key in the JSON's `losses`.
    pub fn name(self) -> &'static str {
        match self {
            Loss::RingFull => "ring_full",
            Loss::TasksFull => "tasks_full",
            Loss::LocksFull => "locks_full",
            Loss::StackError => "stack_error",
            Loss::UnmatchedEnd => "unmatched_end",
            Loss::InferredEnd => "inferred_end",
            Loss::NestedTooDeep => "nested_too_deep",
            Loss::SelfInflicted => "self_inflicted",
            Loss::CutByGate => "cut_by_gate",
            Loss::OtherFull => "other_full",
            Loss::TidReused => "tid_reused",
            Loss::ReplyUnreadable => "reply_unreadable",
            Loss::HoldersFull => "holders_full",
        }
    }
}
