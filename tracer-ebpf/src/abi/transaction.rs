//! Requests and transactions of a backend, as its clock tells them.
//!
//! A request begins when the wake-up that ends the backend's idle sleep is issued; if it does not
//! sleep between two replies, when the first of them has been sent. It ends when ReadyForQuery has
//! been sent. A transaction is its requests up to one whose reply has status `I`.

use super::{STATE_COUNT, State};

/// The shortest reply that can hold a CommandComplete: `C`, its length, a tag of one letter, 0, and
/// the ReadyForQuery. Shorter ones answer a Parse, a Close or a Sync alone.
const LEAST_REPLY: u64 = 5 + 2 + 6;

/// Where a backend is between two replies.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Phase(u8);

impl Phase {
    /// No reply was sent in this opening of the gate.
    pub const UNKNOWN: Phase = Phase(0);
    /// Between transactions, not asleep since.
    pub const BETWEEN: Phase = Phase(1);
    /// Between transactions, asleep.
    pub const IDLE: Phase = Phase(2);
    /// In a request.
    pub const REQUEST: Phase = Phase(3);
    /// Between the requests of a transaction, not asleep since.
    pub const WITHIN: Phase = Phase(4);
    /// Between the requests of a transaction, asleep.
    pub const IDLE_WITHIN: Phase = Phase(5);
}

/// The transaction that a backend is in.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transaction {
    /// When it began.
    pub begin_ns: u64,
    /// Bytes that were sent since the request began.
    pub sent_bytes: u64,
    /// Bit n: state n took time.
    pub touched: u64,
    /// Where it is.
    pub phase: Phase,
    /// 1 while time is collected.
    pub collects: u8,
    /// 1 when the transaction has had a reply already.
    pub within: u8,
    /// 1 when its begin was seen.
    pub whole: u8,
    /// Explicit padding.
    pub pad: [u8; 4],
    /// Its time by state.
    pub states_ns: [u64; STATE_COUNT],
}

const _: () = assert!(STATE_COUNT <= 64, "`touched` has a bit for each");

impl Transaction {
    /// Nothing known.
    pub const UNKNOWN: Transaction = Transaction {
        begin_ns: 0,
        sent_bytes: 0,
        touched: 0,
        phase: Phase::UNKNOWN,
        collects: 0,
        within: 0,
        whole: 0,
        pad: [0; 4],
        states_ns: [0; STATE_COUNT],
    };

    /// The gate was shut meanwhile: whatever it was in is cut.
    #[inline(always)]
    pub(super) fn cut(&mut self) {
        self.phase = Phase::UNKNOWN;
        self.collects = 0;
        self.within = 0;
        self.whole = 0;
        self.forget();
    }

    /// What a backend does that has a CPU and does not spin.
    #[inline(always)]
    pub(super) fn cpu_state(&self) -> State {
        if self.phase == Phase::BETWEEN { State::BETWEEN_CPU } else { State::CPU }
    }

    /// The sleep that comes now, if it is for the next request.
    #[inline(always)]
    pub(super) fn idle_state(&self) -> Option<State> {
        match self.phase {
            Phase::BETWEEN => Some(State::IDLE),
            Phase::WITHIN => Some(State::IDLE_IN_TRANSACTION),
            _ => None,
        }
    }

    /// The backend goes to sleep in `state`: between requests, or after a waking that brought no
    /// request, for it sleeps for its client again and has sent nothing.
    #[inline(always)]
    pub(super) fn sleeps(&mut self, state: State) -> State {
        let back =
            self.phase == Phase::REQUEST && state == State::WAIT_CLIENT && self.sent_bytes == 0;
        if state == State::IDLE || (back && self.within == 0) {
            self.phase = Phase::IDLE;
            self.collects = 0;
            self.whole = 0;
            self.forget();
            return State::IDLE;
        }
        if state == State::IDLE_IN_TRANSACTION || back {
            self.phase = Phase::IDLE_WITHIN;
            return State::IDLE_IN_TRANSACTION;
        }
        state
    }

    /// The backend is woken: out of an idle sleep a request begins.
    #[inline(always)]
    pub(super) fn wakes(&mut self, now_ns: u64) {
        if self.phase == Phase::IDLE {
            self.begin_ns = now_ns;
            self.collects = 1;
            self.whole = 1;
        } else if self.phase != Phase::IDLE_WITHIN {
            return;
        }
        self.phase = Phase::REQUEST;
        self.sent_bytes = 0;
    }

    /// ReadyForQuery has been sent. Returns the latency of the transaction that it ends, if that was
    /// seen from its begin and is one; its time is then in `states_ns`, to be taken from there.
    #[inline(always)]
    pub(super) fn replies(&mut self, now_ns: u64, status: u8, overhead: u64) -> Option<u64> {
        let asks_nothing = self.within == 0 && self.sent_bytes < LEAST_REPLY + overhead;
        let begin_ns = self.begin_ns;
        let seen = self.whole != 0 && !asks_nothing;
        self.sent_bytes = 0;
        if status != b'I' {
            self.phase = Phase::WITHIN;
            self.within = 1;
            return None;
        }
        self.phase = Phase::BETWEEN;
        self.within = 0;
        self.begin_ns = now_ns;
        self.collects = 1;
        self.whole = 1;
        if seen { Some(now_ns - begin_ns) } else { None }
    }

    /// Between two replies there was no sleep: the time since the first is the request's. Returns how
    /// much was told as lying between.
    #[inline(always)]
    pub(super) fn between_was_request(&mut self) -> u64 {
        let ns = self.states_ns[State::BETWEEN_CPU.0 as usize];
        self.states_ns[State::BETWEEN_CPU.0 as usize] = 0;
        self.states_ns[State::CPU.0 as usize] += ns;
        self.touched = self.touched & !(1 << State::BETWEEN_CPU.0) | 1 << State::CPU.0;
        ns
    }

    /// Bytes have been sent.
    #[inline(always)]
    pub fn sends(&mut self, bytes: u64) {
        self.sent_bytes += bytes;
    }

    #[inline(always)]
    pub(super) fn collect(&mut self, index: usize, ns: u64) {
        if self.collects != 0 && index < STATE_COUNT {
            self.touched |= 1 << index;
            // SAFETY: just compared with the array's length.
            unsafe { *self.states_ns.get_unchecked_mut(index) += ns };
        }
    }

    /// Moves its time out, and begins anew. Most transactions are in few states, which have neighbouring
    /// numbers: eight at a time are passed over.
    #[inline(always)]
    pub fn take(&mut self, mut each: impl FnMut(usize, u64)) {
        const GROUP: usize = 8;
        let mut first = 0;
        while first < STATE_COUNT {
            if self.touched >> first & 0xff != 0 {
                let mut index = first;
                while index < first + GROUP && index < STATE_COUNT {
                    if self.touched & (1 << index) != 0 {
                        each(index, self.states_ns[index]);
                        self.states_ns[index] = 0;
                    }
                    index += 1;
                }
            }
            first += GROUP;
        }
        self.touched = 0;
    }

    /// Drops its time. Between transactions it is mostly one state's.
    #[inline(always)]
    fn forget(&mut self) {
        self.states_ns[State::BETWEEN_CPU.0 as usize] = 0;
        if self.touched & !(1 << State::BETWEEN_CPU.0) != 0 {
            self.states_ns = [0; STATE_COUNT];
        }
        self.touched = 0;
    }
}
