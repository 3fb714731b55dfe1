//! The states that a task's time is split into. They do not overlap.

use super::{CLASS_COUNT, LockClass};

/// What a task does at an instant: an index into every per-state array.
///
/// A number rather than an enum, for a lock's class and Postgres's wait class are part of it.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct State(pub u8);

const FIRST_LOCK: u8 = 9;
const FIRST_WAIT: u8 = FIRST_LOCK + CLASS_COUNT as u8;

/// How many states there are.
pub const STATE_COUNT: usize = FIRST_WAIT as usize + WAIT_NAMES.len();

/// Names of the wait states, in index order: first those that are not Postgres's classes.
const WAIT_NAMES: [&str; 12] = [
    "none",
    "unknown",
    "LWLock",
    "Lock",
    "BufferPin",
    "Activity",
    "Client",
    "Extension",
    "IPC",
    "Timeout",
    "IO",
    "InjectionPoint",
];

/// The class of Postgres's wait event `ClientRead`, as in the high byte of its wait event word.
const PG_ACTIVITY: u8 = 5;
const PG_CLIENT: u8 = 6;

impl State {
    /// On a CPU, not spinning on a kernel lock.
    pub const CPU: State = State(0);
    /// The same after a reply that ended a transaction, before sleeping or the next request.
    pub const BETWEEN_CPU: State = State(1);
    /// A backend asleep between requests, outside a transaction.
    pub const IDLE: State = State(2);
    /// The same inside a transaction.
    pub const IDLE_IN_TRANSACTION: State = State(3);
    /// Runnable, while another task has the CPU.
    pub const QUEUED: State = State(4);
    /// From being woken to running on a CPU that was idle.
    pub const WAKEUP: State = State(5);
    /// Runnable, while its group has used up its CPU bandwidth.
    pub const THROTTLED: State = State(6);
    /// Asleep with `in_iowait`.
    pub const IO: State = State(7);
    /// Spun in interrupt context while this task was current.
    pub const IRQ: State = State(8);
    /// Asleep otherwise, in a task without wait events, or with none set.
    pub const WAIT_NONE: State = State(FIRST_WAIT);
    /// Asleep otherwise, the wait event could not be read.
    pub const WAIT_UNKNOWN: State = State(FIRST_WAIT + 1);
    /// Asleep in a process of Postgres's that waits for work.
    pub const WAIT_ACTIVITY: State = State::wait_of_class(PG_ACTIVITY);
    /// Asleep for the client.
    pub const WAIT_CLIENT: State = State::wait_of_class(PG_CLIENT);

    /// On a CPU spinning, or off it asleep, in a lock's slow path.
    #[inline(always)]
    pub const fn lock(class: u8) -> State {
        State(FIRST_LOCK + class)
    }

    /// Off a CPU with this wait event word (`wait_event_info`: the class is its high byte).
    #[inline(always)]
    pub const fn wait(word: u32) -> State {
        if word == 0 { State::WAIT_NONE } else { State::wait_of_class((word >> 24) as u8) }
    }

    /// Postgres's classes are 1 and 3 to 11.
    #[inline(always)]
    const fn wait_of_class(class: u8) -> State {
        match class {
            1 => State(FIRST_WAIT + 2),
            3..=11 => State(FIRST_WAIT + class),
            _ => State::WAIT_UNKNOWN,
        }
    }

    /// The lock's class, if it is a lock's state.
    pub fn lock_class(self) -> Option<LockClass> {
        LockClass::from_index(self.0.checked_sub(FIRST_LOCK)?)
    }

    /// The lock's class, if it spins on one.
    #[inline(always)]
    pub const fn spin_class(self) -> Option<u8> {
        let spins = self.0 >= FIRST_LOCK && self.0 < FIRST_LOCK + LockClass::Mutex as u8;
        if spins { Some(self.0 - FIRST_LOCK) } else { None }
    }

    /// Whether the task has a CPU.
    #[inline(always)]
    pub const fn is_on_cpu(self) -> bool {
        self.0 <= State::BETWEEN_CPU.0 || self.spin_class().is_some()
    }

    /// Whether it waits for one.
    #[inline(always)]
    pub const fn is_runnable(self) -> bool {
        self.0 >= State::QUEUED.0 && self.0 <= State::THROTTLED.0
    }

    /// Whether it sleeps.
    #[inline(always)]
    pub const fn is_asleep(self) -> bool {
        !self.is_on_cpu() && !self.is_runnable() && self.0 != State::IRQ.0
    }

    /// Whether a transaction's time can be in it: not between transactions.
    pub const fn is_part_of_transaction(self) -> bool {
        self.0 != State::BETWEEN_CPU.0 && self.0 != State::IDLE.0
    }

    /// Every state, in index order.
    pub fn all() -> impl Iterator<Item = State> {
        (0..STATE_COUNT as u8).map(State)
    }

    /// The ledger's row: state, and class or kind where the state has several.
    pub fn name(self) -> (&'static str, Option<&'static str>) {
        match self {
            State::CPU => ("cpu", None),
            State::BETWEEN_CPU => ("between_cpu", None),
            State::IDLE => ("idle", None),
            State::IDLE_IN_TRANSACTION => ("idle_in_transaction", None),
            State::QUEUED => ("runq", Some("queued")),
            State::WAKEUP => ("runq", Some("wakeup")),
            State::THROTTLED => ("runq", Some("throttled")),
            State::IO => ("io", None),
            State::IRQ => ("irq", None),
            _ => match self.lock_class() {
                Some(class) if class.is_spin() => ("spin", Some(class.name())),
                Some(class) => ("lock_sleep", Some(class.name())),
                None => {
                    let index = usize::from(self.0.saturating_sub(FIRST_WAIT));
                    ("wait", Some(WAIT_NAMES.get(index).copied().unwrap_or("unknown")))
                }
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_state_is_on_a_cpu_runnable_asleep_or_an_interrupt_s() {
        for state in State::all() {
            let kinds =
                [state.is_on_cpu(), state.is_runnable(), state.is_asleep(), state == State::IRQ];
            assert_eq!(kinds.iter().filter(|is| **is).count(), 1, "{state:?}");
        }
    }

    #[test]
    fn names_are_distinct_and_locks_keep_their_class() {
        for (index, left) in State::all().enumerate() {
            assert!(State::all().skip(index + 1).all(|right| right.name() != left.name()));
        }
        for class in LockClass::ALL {
            let state = State::lock(class as u8);
            assert_eq!(state.lock_class(), Some(class));
            assert_eq!(state.is_on_cpu(), class.is_spin());
            let expected = if class.is_spin() { "spin" } else { "lock_sleep" };
            assert_eq!(state.name(), (expected, Some(class.name())));
        }
        assert_eq!(State::WAIT_NONE.lock_class(), None);
    }

    /// Words as `pg_stat_activity` shows them (`wait_event_types.h`).
    #[test]
    fn wait_event_words_have_their_class_in_the_high_byte() {
        for (word, name) in [
            (0, "none"),
            (0x0100_0006, "LWLock"),
            (0x0300_0004, "Lock"),
            (0x0400_0000, "BufferPin"),
            (0x0500_0001, "Activity"),
            (0x0600_0000, "Client"),
            (0x0700_0000, "Extension"),
            (0x0800_0010, "IPC"),
            (0x0900_0001, "Timeout"),
            (0x0a00_0015, "IO"),
            (0x0b00_0000, "InjectionPoint"),
            (0x0200_0000, "unknown"),
            (0xff00_0000, "unknown"),
        ] {
            assert_eq!(State::wait(word).name(), ("wait", Some(name)), "{word:#x}");
        }
        assert_eq!(State::wait(0x0600_0000), State::WAIT_CLIENT);
    }
}
