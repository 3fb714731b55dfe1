//! The clock of a task: one current state, and since when.
//!
//! Every event charges the time since the last one to the state that ends, so that the states of a
//! task add up to its wall time by construction. The arithmetic is here rather than among the
//! programs, so that it can be tested without a kernel.
//!
//! Time is charged only while the gate is open. What a task did from an opening to its first event
//! in it is told by that event: who leaves a CPU had one, who gets one was waiting for it, who is
//! woken was asleep. A task without any event in an opening is left to the user side.

use super::{Phase, STATE_COUNT, State, Transaction};

/// The gate as it stands: whether, and since when, the programs count.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Gate {
    /// Number of the opening, from 1; 0 while it is shut.
    pub generation: u64,
    /// When it was opened. Written while the gate is shut.
    pub opened_ns: u64,
}

/// A task's state, and the time it has spent in each.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TaskClock {
    /// When the current state began.
    pub since_ns: u64,
    /// The opening of the gate in which it was last told: in another one it is not known yet.
    pub generation: u64,
    /// The current state.
    pub state: State,
    /// 1 from a waking to the switch to the task.
    pub woken: u8,
    /// Explicit padding.
    pub pad: [u8; 6],
    /// Nanoseconds by state, while the gate was open.
    pub states_ns: [u64; STATE_COUNT],
    /// The transaction that the task is in, if it is a backend.
    pub transaction: Transaction,
}

impl TaskClock {
    /// A clock that has told nothing yet. `asleep_in`: what the task does if it turns out to have
    /// been asleep at the first event.
    pub const fn new(asleep_in: State) -> TaskClock {
        TaskClock {
            since_ns: 0,
            generation: 0,
            state: asleep_in,
            woken: 0,
            pad: [0; 6],
            states_ns: [0; STATE_COUNT],
            transaction: Transaction::UNKNOWN,
        }
    }

    /// A new task, runnable from now on.
    #[inline(always)]
    pub fn born(&mut self, gate: &Gate, now_ns: u64) {
        self.since_ns = now_ns;
        self.generation = gate.generation;
        self.state = State::QUEUED;
        self.woken = 1;
        self.transaction.cut();
    }

    /// A task that was another until now, and has a CPU.
    #[inline(always)]
    pub fn goes_on(&mut self, gate: &Gate, now_ns: u64) {
        self.born(gate, now_ns);
        self.state = State::CPU;
        self.woken = 0;
    }

    /// The task is being woken. `has_left` tells whether it has left its run queue, which a task
    /// that is woken on its way to sleep has not.
    #[inline(always)]
    pub fn wake(
        &mut self,
        gate: &Gate,
        born_ns: u64,
        now_ns: u64,
        has_left: impl FnOnce() -> bool,
    ) {
        if self.is_past(gate) {
            return;
        }
        if self.generation != gate.generation {
            if !has_left() {
                return self.open(gate, born_ns, State::CPU);
            }
            let asleep = if self.state.is_asleep() { self.state } else { State::WAIT_UNKNOWN };
            self.open(gate, born_ns, asleep);
        } else if self.state.is_on_cpu() {
            // Off its run queue, but the switch from it is still to come, on its own CPU.
            self.woken = has_left() as u8;
            return;
        }
        if self.state.is_asleep() {
            self.enter(now_ns, State::QUEUED);
            self.woken = 1;
            self.transaction.wakes(now_ns);
        }
    }

    /// The task loses its CPU and stays runnable.
    #[inline(always)]
    pub fn preempt(&mut self, gate: &Gate, born_ns: u64, now_ns: u64, throttled: bool) {
        if !self.joins(gate, born_ns, State::CPU) {
            return;
        }
        self.enter(now_ns, if throttled { State::THROTTLED } else { State::QUEUED });
        self.woken = 0;
    }

    /// The task leaves its CPU to sleep in `state`, unless it has been woken already.
    #[inline(always)]
    pub fn sleep(&mut self, gate: &Gate, born_ns: u64, now_ns: u64, state: State) {
        if !self.joins(gate, born_ns, State::CPU) {
            return;
        }
        self.enter(now_ns, state);
        self.state = self.transaction.sleeps(state);
        if self.woken != 0 {
            self.state = State::QUEUED;
            self.transaction.wakes(now_ns);
        }
    }

    /// The sleep that comes now, if it is for the next request: between two replies.
    #[inline(always)]
    pub fn idle_state(&self, gate: &Gate) -> Option<State> {
        if self.generation == gate.generation { self.transaction.idle_state() } else { None }
    }

    /// What the task does that has a CPU and does not spin.
    #[inline(always)]
    pub fn cpu_state(&self, gate: &Gate) -> State {
        if self.generation == gate.generation { self.transaction.cpu_state() } else { State::CPU }
    }

    /// The task has sent ReadyForQuery with this status. Returns the latency of the transaction that
    /// it ends, if that was seen from its begin; its time is then to be taken out of `transaction`,
    /// and to be dropped from there otherwise. `overhead`: bytes that a reply has around it.
    #[inline(always)]
    pub fn reply(
        &mut self,
        gate: &Gate,
        born_ns: u64,
        now_ns: u64,
        status: u8,
        overhead: u64,
    ) -> Option<u64> {
        if !self.joins(gate, born_ns, State::CPU) {
            return None;
        }
        self.enter(now_ns, self.state);
        if self.transaction.phase == Phase::BETWEEN {
            self.between_was_request();
        }
        let latency_ns = self.transaction.replies(self.since_ns, status, overhead);
        if self.state.spin_class().is_none() {
            self.state = self.transaction.cpu_state();
        }
        latency_ns
    }

    /// The backend has not slept since its last reply: the next request had begun then.
    #[inline(always)]
    fn between_was_request(&mut self) {
        let ns = self.transaction.between_was_request();
        self.states_ns[State::BETWEEN_CPU.0 as usize] -= ns;
        self.states_ns[State::CPU.0 as usize] += ns;
    }

    /// The task gets a CPU, which `was_idle`, and goes on in `state`. Returns how long it was
    /// runnable without one.
    #[inline(always)]
    pub fn run(
        &mut self,
        gate: &Gate,
        born_ns: u64,
        now_ns: u64,
        was_idle: bool,
        state: State,
    ) -> u64 {
        if !self.joins(gate, born_ns, State::QUEUED) {
            return 0;
        }
        let slept_on = self.state.is_asleep();
        if self.woken != 0 {
            if slept_on {
                // The waking came between leaving the run queue and the switch.
                self.transaction.wakes(self.since_ns);
                self.state = State::QUEUED;
            } else if was_idle && self.state == State::QUEUED {
                self.state = State::WAKEUP;
            }
        }
        let runnable_ns =
            if self.state.is_runnable() { now_ns.saturating_sub(self.since_ns) } else { 0 };
        self.enter(now_ns, state);
        if slept_on && self.woken == 0 {
            self.transaction.wakes(self.since_ns);
        }
        self.woken = 0;
        runnable_ns
    }

    /// The task, which has a CPU, begins or ends spinning on a lock.
    #[inline(always)]
    pub fn spin(&mut self, gate: &Gate, born_ns: u64, now_ns: u64, state: State) {
        if !self.joins(gate, born_ns, State::CPU) {
            return;
        }
        self.enter(now_ns, state);
    }

    /// An interrupt has spun for `spun_ns`, up to now, while the task was current.
    #[inline(always)]
    pub fn interrupt(&mut self, gate: &Gate, born_ns: u64, now_ns: u64, spun_ns: u64) {
        if !self.joins(gate, born_ns, State::CPU) {
            return;
        }
        let room_ns = now_ns.saturating_sub(self.since_ns);
        let spun_ns = if spun_ns < room_ns { spun_ns } else { room_ns };
        self.charge(State::IRQ, spun_ns);
        self.since_ns += spun_ns;
    }

    /// The task has ended. Nothing comes after it.
    #[inline(always)]
    pub fn end(&mut self, gate: &Gate, born_ns: u64, now_ns: u64) {
        if !self.joins(gate, born_ns, State::CPU) {
            return;
        }
        self.enter(now_ns, self.state);
    }

    /// How long the current state has lasted until `now_ns`; `None` when this opening of the gate
    /// has not told the state.
    pub fn open_ns(&self, gate: &Gate, now_ns: u64) -> Option<u64> {
        (self.generation == gate.generation).then(|| now_ns.saturating_sub(self.since_ns))
    }

    /// An event of an opening that is over, which a task's own CPU or another one has been kept from
    /// finishing: the clock has gone on to another. To open it anew would charge a whole opening twice.
    #[inline(always)]
    fn is_past(&self, gate: &Gate) -> bool {
        gate.generation < self.generation
    }

    /// Makes the event one of the clock's opening, which it is the first of where the clock has not seen
    /// it: the task has been in `state` since. False for an event of an opening that is over.
    #[inline(always)]
    fn joins(&mut self, gate: &Gate, born_ns: u64, state: State) -> bool {
        if self.is_past(gate) {
            return false;
        }
        if self.generation != gate.generation {
            self.open(gate, born_ns, state);
        }
        true
    }

    /// The first event in this opening of the gate: it tells the state since then.
    #[inline(always)]
    fn open(&mut self, gate: &Gate, born_ns: u64, state: State) {
        self.generation = gate.generation;
        self.since_ns = if gate.opened_ns > born_ns { gate.opened_ns } else { born_ns };
        self.state = state;
        self.woken = 0;
        self.transaction.cut();
    }

    /// Charges the state that ends. Clocks of two CPUs may differ by less than a switch takes: time
    /// never runs backwards here.
    #[inline(always)]
    fn enter(&mut self, now_ns: u64, state: State) {
        if now_ns > self.since_ns {
            self.charge(self.state, now_ns - self.since_ns);
            self.since_ns = now_ns;
        }
        self.state = state;
    }

    /// `black_box` makes one 64-bit register of the index, for the compiler likes to compare one copy
    /// and to use another, whose bound some verifiers then do not know.
    #[inline(always)]
    fn charge(&mut self, state: State, ns: u64) {
        let index = core::hint::black_box(state.0 as u64);
        if index < STATE_COUNT as u64 {
            // SAFETY: just compared with the array's length.
            unsafe { *self.states_ns.get_unchecked_mut(index as usize) += ns };
            self.transaction.collect(index as usize, ns);
        }
    }
}

#[cfg(test)]
#[path = "clock_tests.rs"]
mod tests;
