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

#[derive(Clone, Debug)]
enum Event {
    Wake(bool),
    Preempt(bool),
    Sleep(u8),
    Run(bool),
    Spin(u8),
    Interrupt(u64),
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        any::<bool>().prop_map(Event::Wake),
        any::<bool>().prop_map(Event::Preempt),
        (0..STATE_COUNT as u8).prop_map(Event::Sleep),
        any::<bool>().prop_map(Event::Run),
        (0..STATE_COUNT as u8).prop_map(Event::Spin),
        (0..200_u64).prop_map(Event::Interrupt),
    ]
}

fn happen(clock: &mut TaskClock, gate: &Gate, now_ns: u64, event: &Event) {
    match *event {
        Event::Wake(left) => clock.wake(gate, 0, now_ns, || left),
        Event::Preempt(throttled) => clock.preempt(gate, 0, now_ns, throttled),
        Event::Sleep(state) => clock.sleep(gate, 0, now_ns, State(state)),
        Event::Run(idle) => {
            clock.run(gate, 0, now_ns, idle, State::CPU);
        }
        Event::Spin(state) => clock.spin(gate, 0, now_ns, State(state)),
        Event::Interrupt(spun_ns) => clock.interrupt(gate, 0, now_ns, spun_ns),
    }
}

proptest! {
    /// Whatever happens in whatever order, every nanosecond of an opening is in one state.
    #[test]
    fn states_sum_to_the_time_that_the_gate_was_open(
        openings in prop::collection::vec(prop::collection::vec((1..500_u64, event()), 1..20), 1..4)
    ) {
        let mut clock = TaskClock::new(State::WAIT_NONE);
        let (mut now_ns, mut wall_ns, mut told_ns) = (10, 0, 0);
        for (index, events) in openings.iter().enumerate() {
            let gate = Gate { generation: index as u64 + 1, opened_ns: now_ns };
            for (after_ns, event) in events {
                now_ns += after_ns;
                happen(&mut clock, &gate, now_ns, event);
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
