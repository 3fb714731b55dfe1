//! The clocks of the traced tasks, as the programs move them. The arithmetic is `TaskClock`'s.

use aya_ebpf::helpers::bpf_probe_read_user;
use tracer_ebpf::{Gate, LockClass, Side, State, TaskAccount};

use crate::{config, stack};

/// The spins of a task that has a CPU have changed.
#[inline(always)]
pub(crate) fn spin(gate: &Gate, account: &mut TaskAccount, now_ns: u64) {
    if config::keep_clocks() {
        let state = on_cpu_state(gate, account);
        account.clock.spin(gate, account.since_ns, now_ns, state);
    }
}

/// An interrupt has spun while the task was current.
#[inline(always)]
pub(crate) fn interrupt(gate: &Gate, account: &mut TaskAccount, now_ns: u64, spun_ns: u64) {
    if config::keep_clocks() {
        account.clock.interrupt(gate, account.since_ns, now_ns, spun_ns);
    }
}

/// What a task does that has a CPU: it spins if its innermost open wait is a spin.
#[inline(always)]
pub(crate) fn on_cpu_state(gate: &Gate, account: &mut TaskAccount) -> State {
    match open_class(gate, account) {
        Some(class) if class < LockClass::Mutex as u8 => State::lock(class),
        _ => State::CPU,
    }
}

/// What the current task does that leaves its CPU to sleep.
#[inline(always)]
pub(crate) fn asleep_state(
    gate: &Gate,
    account: &mut TaskAccount,
    in_iowait: impl FnOnce() -> bool,
) -> State {
    match open_class(gate, account) {
        Some(class) if class >= LockClass::Mutex as u8 => State::lock(class),
        _ if in_iowait() => State::IO,
        _ => wait_state(account),
    }
}

/// The class of the innermost wait that is open and was begun in this opening of the gate.
#[inline(always)]
fn open_class(gate: &Gate, account: &mut TaskAccount) -> Option<u8> {
    let frame = stack::top(&mut account.open)?;
    (frame.generation == gate.generation as u32).then_some(frame.class)
}

/// Postgres's word for what the current task waits for, read in its own memory.
#[inline(always)]
fn wait_state(account: &TaskAccount) -> State {
    if account.side != Side::Server as u8 {
        return State::WAIT_NONE;
    }
    match wait_event_word(account.wait_event_address) {
        Some(word) => State::wait(word),
        None => State::WAIT_UNKNOWN,
    }
}

#[inline(always)]
fn wait_event_word(address: u64) -> Option<u32> {
    if address == 0 {
        return None;
    }
    // SAFETY: the helper checks the address and fails instead of faulting.
    let word = unsafe { bpf_probe_read_user(address as *const u64) }.ok()?;
    // SAFETY: as above.
    unsafe { bpf_probe_read_user(word as *const u32) }.ok()
}
