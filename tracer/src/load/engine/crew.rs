//! The clients of one worker: when each begins a transaction, what it does with a reply, and when
//! it is done. It knows clocks and bytes, and no sockets: those are the driver's.

use std::collections::VecDeque;
use std::sync::Arc;

use super::abort::AbortReason;
use super::client::{Client, End, Progress};
use super::commands::CommandSums;
use super::driver::Action;
use super::pace::{Pace, Timers};
use super::record::{Outcome, RecordWriter, TransactionRecord};
use super::shared::Shared;
use super::watch::Watch;
use crate::clock::monotonic_ns;
use crate::load::connect::CancelKey;
use crate::load::script::Random;

/// How often flags are looked at and old records handed over.
const TICK_NS: u64 = 50_000_000;

/// When transactions begin and how many there are.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rules {
    /// Transactions a client runs (`-t`).
    pub(crate) transaction_limit: Option<u64>,
    /// Mean time between two transactions of one worker (`-R`).
    pub(crate) pace_ns: Option<f64>,
    /// Under `pace_ns`, transactions that are later than this are skipped (`-L`).
    pub(crate) skip_after_ns: Option<u64>,
    /// A transaction that failed is not tried again when this has passed since it was due (`-L`).
    pub(crate) retry_within_ns: Option<u64>,
    /// Pause of a client between two transactions.
    pub(crate) think_ns: u64,
    /// Time over which the clients begin, one after another.
    pub(crate) ramp_ns: u64,
    /// Clients of all workers.
    pub(crate) clients: u32,
    /// A connection a transaction (`-C`).
    pub(crate) reconnect: bool,
    /// Commands are measured (`-r`).
    pub(crate) measure_commands: bool,
    /// Errors of statements are told as they come (`--verbose-errors`).
    pub(crate) tell_errors: bool,
}

/// What is left of a crew.
#[derive(Debug, Default)]
pub(crate) struct Leftover {
    /// Clients that gave up.
    pub(crate) aborted: Vec<AbortedClient>,
    /// What commands took, where that was measured.
    pub(crate) commands: Option<CommandSums>,
}

/// A client that gave up.
#[derive(Debug)]
pub struct AbortedClient {
    /// Its number, from 0.
    pub client: u32,
    /// Its backend, in the server's pid namespace.
    pub backend_pid: u32,
    /// Why.
    pub reason: AbortReason,
}

/// Something whose time has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Due {
    /// The slot's next transaction.
    Begin(usize),
    /// The end of a sleep in the middle of a script.
    Wake(usize),
}

/// One client.
pub(super) struct Member {
    client: Client,
    number: u32,
    backend_pid: u32,
    /// The script of its transaction, or of the next.
    script: u32,
    sequence: u64,
    scheduled_ns: u64,
    begun_ns: u64,
    command_begun_ns: u64,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Between two transactions.
    Resting,
    /// In a transaction.
    Busy,
    /// In a transaction, in a sleep of the script.
    Asleep,
    /// Done, or given up.
    Gone,
}

pub(super) struct Crew {
    members: Vec<Member>,
    rules: Rules,
    pace: Option<Pace>,
    timers: Timers,
    /// Clients whose next transaction is due now.
    ready: VecDeque<usize>,
    active: usize,
    records: RecordWriter,
    shared: Arc<Shared>,
    leftover: Leftover,
    next_tick_ns: u64,
}

impl Member {
    pub(super) fn new(client: Client, number: u32) -> Self {
        Self {
            client,
            number,
            backend_pid: 0,
            script: 0,
            sequence: 0,
            scheduled_ns: 0,
            begun_ns: 0,
            command_begun_ns: 0,
            state: State::Resting,
        }
    }
}

impl Crew {
    pub(super) fn new(
        members: Vec<Member>,
        rules: Rules,
        commands: CommandSums,
        records: RecordWriter,
        shared: Arc<Shared>,
    ) -> Self {
        let commands = rules.measure_commands.then_some(commands);
        Self {
            active: members.len(),
            members,
            rules,
            pace: None,
            timers: Timers::default(),
            ready: VecDeque::new(),
            records,
            shared,
            leftover: Leftover { aborted: Vec::new(), commands },
            next_tick_ns: 0,
        }
    }

    /// Begins the run: the clients' first transactions are due, or scheduled.
    pub(super) fn start(&mut self, schedule: Random) {
        let now_ns = monotonic_ns();
        self.next_tick_ns = now_ns + TICK_NS;
        self.pace = self.rules.pace_ns.map(|mean_ns| Pace::new(mean_ns, now_ns, schedule));
        let step_ns = self.rules.ramp_ns / u64::from(self.rules.clients.max(1));
        for slot in 0..self.members.len() {
            self.choose(slot);
            match step_ns * u64::from(self.members[slot].number) {
                0 => self.schedule(slot, now_ns),
                delay_ns => self.rest(slot, now_ns + delay_ns),
            }
        }
    }

    /// Clients that are not done.
    pub(super) fn active(&self) -> usize {
        self.active
    }

    /// All clients.
    pub(super) fn count(&self) -> usize {
        self.members.len()
    }

    /// Until when there is nothing to do unless bytes come; 0 when there is something.
    #[inline]
    pub(super) fn next_due_ns(&self) -> u64 {
        if !self.ready.is_empty() {
            return 0;
        }
        self.timers.next_ns().map_or(self.next_tick_ns, |due_ns| due_ns.min(self.next_tick_ns))
    }

    /// Something whose time has come.
    #[inline]
    pub(super) fn take_due(&mut self) -> Option<Due> {
        if let Some(slot) = self.ready.pop_front() {
            return Some(Due::Begin(slot));
        }
        self.timers.next_ns()?;
        let slot = self.timers.pop_due(monotonic_ns())?;
        match self.members[slot].state {
            State::Resting => Some(Due::Begin(slot)),
            State::Asleep => Some(Due::Wake(slot)),
            State::Busy | State::Gone => self.take_due(),
        }
    }

    /// Looks after old records and the end of the run.
    pub(super) fn look_at_the_clock(&mut self) {
        let now_ns = monotonic_ns();
        if now_ns < self.next_tick_ns {
            return;
        }
        self.next_tick_ns = now_ns + TICK_NS;
        self.records.hand_over();
        if self.shared.is_stopped() {
            for slot in 0..self.members.len() {
                if self.members[slot].state == State::Resting {
                    self.leave(slot);
                }
            }
        }
        if self.shared.is_cut() {
            // Why is told in `abort`.
            self.abort_all(|| AbortReason::Closed);
        }
    }

    /// Whether a new connection is wanted before the next transaction.
    pub(super) fn reconnects(&self) -> bool {
        self.rules.reconnect
    }

    /// The slot has this connection from now on.
    pub(super) fn connected(&mut self, slot: usize, key: CancelKey) {
        let member = &mut self.members[slot];
        member.backend_pid = key.backend_pid;
        member.client.reconnected();
        self.shared.connected(member.number, key);
    }

    /// Begins the slot's next transaction.
    pub(super) fn begin(&mut self, slot: usize) -> Action {
        if self.members[slot].state == State::Gone {
            return Action::Wait;
        }
        if self.shared.is_stopped() {
            return self.leave(slot);
        }
        self.begin_at(slot, monotonic_ns())
    }

    /// Ends a sleep of the slot's script.
    pub(super) fn wake(&mut self, slot: usize) -> Action {
        self.members[slot].state = State::Busy;
        let progress = self.with_client(slot, |client, host| client.wake(host));
        self.follow(slot, progress)
    }

    /// The bytes that the slot wants to send.
    #[inline]
    pub(super) fn request(&self, slot: usize) -> &[u8] {
        self.members[slot].client.request()
    }

    /// The server sent something.
    #[inline]
    pub(super) fn received(&mut self, slot: usize, bytes: &[u8]) -> Action {
        if self.members[slot].state == State::Gone {
            return Action::Wait;
        }
        let progress = self.with_client(slot, |client, host| client.receive(bytes, host));
        self.follow(slot, progress)
    }

    /// The connection failed.
    pub(super) fn lost(&mut self, slot: usize, reason: AbortReason) {
        self.abort(slot, reason);
    }

    pub(super) fn abort_all(&mut self, reason: impl Fn() -> AbortReason) {
        for slot in 0..self.members.len() {
            self.abort(slot, reason());
        }
    }

    /// Hands the last records over.
    pub(super) fn finish(self) -> Leftover {
        self.leftover
    }

    #[inline]
    fn follow(&mut self, slot: usize, progress: Result<Progress, AbortReason>) -> Action {
        match progress {
            Ok(Progress::Waiting) => Action::Wait,
            Ok(Progress::Send) => Action::Send,
            Ok(Progress::Sleep(time)) => {
                let time_ns = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
                self.members[slot].state = State::Asleep;
                self.timers.set(monotonic_ns().saturating_add(time_ns), slot);
                Action::Wait
            }
            Ok(Progress::Over(end)) => self.over(slot, end),
            Err(reason) => self.abort(slot, reason),
        }
    }

    #[inline]
    fn with_client(
        &mut self,
        slot: usize,
        act: impl FnOnce(&mut Client, &mut Watch<'_>) -> Result<Progress, AbortReason>,
    ) -> Result<Progress, AbortReason> {
        let member = &mut self.members[slot];
        let limit_ns = self.rules.retry_within_ns;
        let mut watch = Watch {
            shared: &self.shared,
            retry_until_ns: limit_ns.map(|limit_ns| member.scheduled_ns + limit_ns),
            commands: self.leftover.commands.as_mut(),
            command_begun_ns: &mut member.command_begun_ns,
            tells: self.rules.tell_errors.then_some(member.number),
        };
        act(&mut member.client, &mut watch)
    }

    fn choose(&mut self, slot: usize) {
        let member = &mut self.members[slot];
        member.script = u32::try_from(member.client.choose()).unwrap_or(u32::MAX);
    }

    /// The end of a transaction is, where nothing else is wanted, the begin of the next.
    fn over(&mut self, slot: usize, end: End) -> Action {
        let now_ns = monotonic_ns();
        self.record(slot, end.outcome, end.tries_count - 1, now_ns);
        self.members[slot].state = State::Resting;
        if let Err(reason) = self.members[slot].client.check_finished() {
            return self.abort(slot, reason);
        }
        if self.is_finished(slot) {
            return self.leave(slot);
        }
        self.choose(slot);
        let goes_on = !self.rules.reconnect && self.pace.is_none() && self.rules.think_ns == 0;
        if goes_on && end.sent_anything {
            return self.begin_at(slot, now_ns);
        }
        if self.rules.think_ns > 0 {
            self.rest(slot, now_ns + self.rules.think_ns);
        } else {
            self.schedule(slot, now_ns);
        }
        if self.rules.reconnect { Action::Close } else { Action::Wait }
    }

    fn begin_at(&mut self, slot: usize, now_ns: u64) -> Action {
        let member = &mut self.members[slot];
        member.state = State::Busy;
        member.begun_ns = now_ns;
        if self.pace.is_none() {
            member.scheduled_ns = now_ns;
        }
        let progress = self.with_client(slot, |client, host| client.begin(host));
        self.follow(slot, progress)
    }

    /// Finds the time of the slot's next transaction.
    fn schedule(&mut self, slot: usize, now_ns: u64) {
        let Some(mut due_ns) = self.pace.as_mut().map(Pace::next) else {
            self.ready.push_back(slot);
            return;
        };
        if let Some(limit_ns) = self.rules.skip_after_ns {
            while due_ns < now_ns.saturating_sub(limit_ns) {
                self.members[slot].scheduled_ns = due_ns;
                self.record(slot, Outcome::Skipped, 0, now_ns);
                if self.is_finished(slot) {
                    self.leave(slot);
                    return;
                }
                due_ns = self.pace.as_mut().map_or(now_ns, Pace::next);
            }
        }
        self.members[slot].scheduled_ns = due_ns;
        if due_ns <= now_ns {
            self.ready.push_back(slot);
        } else {
            self.rest(slot, due_ns);
        }
    }

    fn rest(&mut self, slot: usize, until_ns: u64) {
        self.members[slot].state = State::Resting;
        self.timers.set(until_ns, slot);
    }

    #[inline]
    fn record(&mut self, slot: usize, outcome: Outcome, retries_count: u32, now_ns: u64) {
        let member = &mut self.members[slot];
        let began = outcome != Outcome::Skipped;
        self.records.push(TransactionRecord {
            client: member.number,
            backend_pid: member.backend_pid,
            script: member.script,
            outcome,
            retries_count,
            sequence: member.sequence,
            scheduled_ns: member.scheduled_ns,
            sent_ns: if began { member.begun_ns } else { now_ns },
            received_ns: now_ns,
        });
        member.sequence += 1;
    }

    fn is_finished(&self, slot: usize) -> bool {
        let limit = self.rules.transaction_limit;
        self.shared.is_stopped() || limit.is_some_and(|limit| self.members[slot].sequence >= limit)
    }

    /// Ends a client that is done. Its connection stays, so that whoever watches backends sees all
    /// of the run, unless each transaction has its own.
    fn leave(&mut self, slot: usize) -> Action {
        if self.members[slot].state != State::Gone {
            self.members[slot].state = State::Gone;
            self.active -= 1;
            self.shared.client_left(self.members[slot].number);
        }
        if self.rules.reconnect { Action::Close } else { Action::Wait }
    }

    /// Ends a client that cannot go on; the others do.
    pub(super) fn abort(&mut self, slot: usize, reason: AbortReason) -> Action {
        let member = &self.members[slot];
        if member.state != State::Gone {
            let (client, backend_pid) = (member.number, member.backend_pid);
            // Once statements are cancelled, every failure comes of that.
            let reason = self.shared.cancelled_after_s().map_or(reason, AbortReason::Stuck);
            self.leftover.aborted.push(AbortedClient { client, backend_pid, reason });
            self.shared.client_aborted();
            self.leave(slot);
        }
        Action::Close
    }
}
