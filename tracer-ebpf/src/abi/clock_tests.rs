extern crate std;

use proptest::prelude::*;
use std::vec::Vec;

use super::*;

const GATE: Gate = Gate { generation: 1, opened_ns: 1_000 };
const MUTEX: State = State::lock(7);
const OSQ: State = State::lock(0);

fn ns(clock: &TaskClock, state: State) -> u64 {
    clock.states_ns[usize::from(state.0)]
}

#[test]
fn a_sleeper_that_is_woken_on_an_idle_cpu() {
    let mut clock = TaskClock::new(State::WAIT_NONE);
    clock.sleep(&GATE, 0, 1_100, MUTEX);
    clock.wake(&GATE, 0, 1_400, || true);
    assert_eq!(clock.run(&GATE, 0, 1_450, true, State::CPU), 50);
    clock.end(&GATE, 0, 1_500);
    assert_eq!(ns(&clock, State::CPU), 100 + 50, "it had a CPU when the gate opened");
    assert_eq!(ns(&clock, MUTEX), 300);
    assert_eq!(ns(&clock, State::WAKEUP), 50);
}

#[test]
fn the_first_event_tells_what_came_before_it() {
    let mut woken = TaskClock::new(State::IDLE);
    woken.wake(&GATE, 0, 1_300, || true);
    assert_eq!(ns(&woken, State::IDLE), 300);
    let mut picked = TaskClock::new(State::IDLE);
    picked.run(&GATE, 0, 1_300, false, State::CPU);
    assert_eq!(ns(&picked, State::QUEUED), 300);
    let mut awake = TaskClock::new(State::IDLE);
    awake.wake(&GATE, 0, 1_200, || false);
    awake.preempt(&GATE, 0, 1_300, false);
    assert_eq!(ns(&awake, State::CPU), 300, "it was woken before it slept");
    let mut young = TaskClock::new(State::IDLE);
    young.preempt(&GATE, 1_250, 1_300, true);
    assert_eq!(ns(&young, State::CPU), 50);
    assert_eq!(young.state, State::THROTTLED);
}

#[test]
fn what_an_opening_has_not_told_is_nobody_s() {
    let mut clock = TaskClock::new(State::WAIT_NONE);
    clock.sleep(&GATE, 0, 1_100, State::IO);
    let next = Gate { generation: 2, opened_ns: 5_000 };
    assert_eq!(clock.open_ns(&GATE, 1_250), Some(150));
    assert_eq!(clock.open_ns(&next, 6_000), None);
    clock.wake(&next, 0, 5_040, || true);
    assert_eq!(ns(&clock, State::IO), 40, "asleep at both ends: in the same sleep");
}

#[test]
fn a_waking_on_the_way_to_sleep() {
    // Off the run queue, the switch still to come.
    let mut clock = TaskClock::new(State::WAIT_NONE);
    clock.spin(&GATE, 0, 1_100, State::CPU);
    clock.wake(&GATE, 0, 1_200, || true);
    clock.sleep(&GATE, 0, 1_210, MUTEX);
    clock.run(&GATE, 0, 1_300, false, State::CPU);
    assert_eq!((ns(&clock, MUTEX), ns(&clock, State::QUEUED)), (0, 90));
    // Still on it: it never sleeps, and a later sleep is a sleep.
    clock.wake(&GATE, 0, 1_310, || false);
    clock.sleep(&GATE, 0, 1_400, MUTEX);
    clock.wake(&GATE, 0, 1_500, || true);
    assert_eq!(ns(&clock, MUTEX), 100);
}

#[test]
fn an_interrupt_s_spin_is_not_the_spinner_s() {
    let mut clock = TaskClock::new(State::WAIT_NONE);
    clock.spin(&GATE, 0, 1_100, OSQ);
    clock.interrupt(&GATE, 0, 1_180, 30);
    clock.spin(&GATE, 0, 1_200, State::CPU);
    assert_eq!((ns(&clock, OSQ), ns(&clock, State::IRQ)), (70, 30));
    clock.interrupt(&GATE, 0, 1_210, 500);
    assert_eq!(ns(&clock, State::IRQ), 40, "never more than there was");
}

const CLIENT_READ: State = State::WAIT_CLIENT;

/// A backend that was idle when the gate opened, and has replied once since.
fn backend() -> TaskClock {
    let mut clock = TaskClock::new(State::IDLE);
    clock.wake(&GATE, 0, 1_100, || true);
    clock.run(&GATE, 0, 1_110, false, State::CPU);
    clock.transaction.sends(60);
    assert_eq!(clock.reply(&GATE, 0, 1_150, b'I', 0), None, "its begin is not known");
    clock.transaction.take(|_, _| ());
    idle(&mut clock, 1_160);
    clock
}

fn idle(clock: &mut TaskClock, now_ns: u64) {
    let state = clock.idle_state(&GATE).unwrap();
    clock.sleep(&GATE, 0, now_ns, state);
}

fn wake_and_run(clock: &mut TaskClock, woken_ns: u64, runs_ns: u64) {
    clock.wake(&GATE, 0, woken_ns, || true);
    let state = clock.cpu_state(&GATE);
    clock.run(&GATE, 0, runs_ns, false, state);
}

fn taken(clock: &mut TaskClock) -> Vec<(State, u64)> {
    let mut states = Vec::new();
    clock.transaction.take(|index, ns| states.push((State(index as u8), ns)));
    states
}

#[test]
fn a_transaction_lasts_from_the_waking_to_the_reply() {
    let mut clock = backend();
    assert_eq!(clock.state, State::IDLE);
    wake_and_run(&mut clock, 2_000, 2_030);
    clock.sleep(&GATE, 0, 2_050, State::IO);
    wake_and_run(&mut clock, 2_150, 2_160);
    clock.transaction.sends(60);
    assert_eq!(clock.reply(&GATE, 0, 2_200, b'I', 0), Some(200));
    let expected = [(State::CPU, 60), (State::QUEUED, 40), (State::IO, 100)];
    assert_eq!(taken(&mut clock), expected);
    idle(&mut clock, 2_207);
    assert_eq!(ns(&clock, State::BETWEEN_CPU), 10 + 7);
    wake_and_run(&mut clock, 2_300, 2_300);
    assert_eq!(ns(&clock, State::IDLE), 100 + 840 + 93, "the first while was idle too");
}

#[test]
fn the_requests_of_a_transaction_are_one_and_what_lies_between_is_part_of_it() {
    let mut clock = backend();
    wake_and_run(&mut clock, 2_000, 2_000);
    clock.transaction.sends(20);
    assert_eq!(clock.reply(&GATE, 0, 2_010, b'T', 0), None);
    clock.sleep(&GATE, 0, 2_015, clock.idle_state(&GATE).unwrap());
    assert_eq!(clock.state, State::IDLE_IN_TRANSACTION);
    wake_and_run(&mut clock, 2_100, 2_100);
    // A signal woke it: it goes back to sleep without having sent a byte.
    clock.sleep(&GATE, 0, 2_105, CLIENT_READ);
    wake_and_run(&mut clock, 2_200, 2_200);
    clock.transaction.sends(20);
    assert_eq!(clock.reply(&GATE, 0, 2_230, b'I', 0), Some(230));
    let expected = [(State::CPU, 50), (State::IDLE_IN_TRANSACTION, 180)];
    assert_eq!(taken(&mut clock), expected);
}

#[test]
fn a_waking_that_brings_nothing_is_no_request() {
    let mut clock = backend();
    wake_and_run(&mut clock, 2_000, 2_010);
    clock.sleep(&GATE, 0, 2_030, CLIENT_READ);
    assert_eq!(clock.state, State::IDLE);
    wake_and_run(&mut clock, 2_100, 2_105);
    clock.transaction.sends(30);
    assert_eq!(clock.reply(&GATE, 0, 2_150, b'I', 0), Some(50));
    assert_eq!(taken(&mut clock), [(State::CPU, 45), (State::QUEUED, 5)]);
}

#[test]
fn waiting_for_the_client_after_sending_is_part_of_the_request() {
    // COPY FROM STDIN: the server has answered and waits for the rows.
    let mut clock = backend();
    wake_and_run(&mut clock, 2_000, 2_000);
    clock.transaction.sends(12);
    clock.sleep(&GATE, 0, 2_010, CLIENT_READ);
    wake_and_run(&mut clock, 2_110, 2_110);
    clock.transaction.sends(20);
    assert_eq!(clock.reply(&GATE, 0, 2_120, b'I', 0), Some(120));
    assert_eq!(taken(&mut clock), [(State::CPU, 20), (CLIENT_READ, 100)]);
}

#[test]
fn without_a_sleep_the_request_begins_with_the_reply_before() {
    let mut clock = backend();
    wake_and_run(&mut clock, 2_000, 2_000);
    clock.transaction.sends(60);
    assert_eq!(clock.reply(&GATE, 0, 2_100, b'I', 0), Some(100));
    taken(&mut clock);
    let between = ns(&clock, State::BETWEEN_CPU);
    clock.preempt(&GATE, 0, 2_120, false);
    let state = clock.cpu_state(&GATE);
    assert_eq!(state, State::BETWEEN_CPU);
    clock.run(&GATE, 0, 2_130, false, state);
    clock.transaction.sends(60);
    assert_eq!(clock.reply(&GATE, 0, 2_160, b'I', 0), Some(60));
    assert_eq!(taken(&mut clock), [(State::CPU, 50), (State::QUEUED, 10)]);
    assert_eq!(ns(&clock, State::BETWEEN_CPU), between);
}

#[test]
fn a_reply_without_a_command_is_no_transaction() {
    let mut clock = backend();
    wake_and_run(&mut clock, 2_000, 2_000);
    clock.transaction.sends(5 + 6); // ParseComplete, ReadyForQuery
    assert_eq!(clock.reply(&GATE, 0, 2_050, b'I', 0), None);
    taken(&mut clock);
    idle(&mut clock, 2_060);
    // Under TLS the same with its record around it.
    wake_and_run(&mut clock, 2_100, 2_100);
    clock.transaction.sends(5 + 6 + 22);
    assert_eq!(clock.reply(&GATE, 0, 2_150, b'I', 22), None);
}

#[derive(Clone, Debug)]
enum Event {
    Wake(bool),
    Preempt(bool),
    Sleep(u8),
    Run(bool),
    Spin(u8),
    Interrupt(u64),
    Send(u64),
    Reply(u8),
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        any::<bool>().prop_map(Event::Wake),
        any::<bool>().prop_map(Event::Preempt),
        (0..STATE_COUNT as u8).prop_map(Event::Sleep),
        any::<bool>().prop_map(Event::Run),
        (0..STATE_COUNT as u8).prop_map(Event::Spin),
        (0..200_u64).prop_map(Event::Interrupt),
        (0..40_u64).prop_map(Event::Send),
        prop::sample::select(std::vec![b'I', b'T', b'E']).prop_map(Event::Reply),
    ]
}

/// Lets it happen; a transaction that it ends is returned with its time by state.
fn happen(clock: &mut TaskClock, gate: &Gate, now_ns: u64, event: &Event) -> Option<(u64, u64)> {
    let sleep_state = |clock: &TaskClock, state| clock.idle_state(gate).unwrap_or(State(state));
    match *event {
        Event::Wake(left) => clock.wake(gate, 0, now_ns, || left),
        Event::Preempt(throttled) => clock.preempt(gate, 0, now_ns, throttled),
        Event::Sleep(state) => {
            let state = sleep_state(clock, state);
            clock.sleep(gate, 0, now_ns, state);
        }
        Event::Run(idle) => {
            clock.run(gate, 0, now_ns, idle, State::CPU);
        }
        Event::Spin(state) => clock.spin(gate, 0, now_ns, State(state)),
        Event::Interrupt(spun_ns) => clock.interrupt(gate, 0, now_ns, spun_ns),
        Event::Send(bytes) => clock.transaction.sends(bytes),
        Event::Reply(status) => {
            let latency_ns = clock.reply(gate, 0, now_ns, status, 0);
            if status == b'I' {
                let mut states_ns = 0;
                clock.transaction.take(|_, ns| states_ns += ns);
                return latency_ns.map(|latency_ns| (latency_ns, states_ns));
            }
        }
    }
    None
}

proptest! {
    /// Whatever happens in whatever order, every nanosecond of an opening is in one state.
    #[test]
    fn states_sum_to_the_time_that_the_gate_was_open(
        openings in prop::collection::vec(prop::collection::vec((1..500_u64, event()), 1..40), 1..4)
    ) {
        let mut clock = TaskClock::new(State::WAIT_NONE);
        let (mut now_ns, mut wall_ns, mut told_ns) = (10, 0, 0);
        for (index, events) in openings.iter().enumerate() {
            let gate = Gate { generation: index as u64 + 1, opened_ns: now_ns };
            for (after_ns, event) in events {
                now_ns += after_ns;
                if let Some((latency_ns, states_ns)) = happen(&mut clock, &gate, now_ns, event) {
                    prop_assert_eq!(latency_ns, states_ns, "a transaction's states are its latency");
                }
            }
            now_ns += 7;
            wall_ns += now_ns - gate.opened_ns;
            // The user side adds what is open when the gate is shut.
            told_ns += clock.open_ns(&gate, now_ns).unwrap_or(now_ns - gate.opened_ns);
            now_ns += 1_000;
        }
        let states: Vec<u64> = clock.states_ns.to_vec();
        prop_assert_eq!(states.iter().sum::<u64>() + told_ns, wall_ns);
    }
}

#[test]
fn an_event_of_an_opening_that_is_over_changes_nothing() {
    let (shut, second) = (Gate::default(), Gate { generation: 2, opened_ns: 5_000 });
    for (now, late) in [(GATE, shut), (second, GATE), (second, shut)] {
        let mut clock = TaskClock::new(State::WAIT_NONE);
        clock.run(&now, 0, now.opened_ns + 100, false, State::CPU);
        let before = clock;
        let late_ns = now.opened_ns + 900;
        clock.sleep(&late, 0, late_ns, MUTEX);
        clock.wake(&late, 0, late_ns, || true);
        assert_eq!(clock.run(&late, 0, late_ns, false, State::CPU), 0);
        clock.spin(&late, 0, late_ns, OSQ);
        clock.interrupt(&late, 0, late_ns, 10);
        clock.preempt(&late, 0, late_ns, false);
        assert_eq!(clock.reply(&late, 0, late_ns, b'I', 0), None);
        clock.end(&late, 0, late_ns);
        assert_eq!(clock, before);
    }
}
