//! The clocks of the traced tasks, as the programs move them. The arithmetic is `TaskClock`'s.

use aya_ebpf::helpers::bpf_probe_read_user;
use tracer_ebpf::{Gate, LATENCY_BUCKETS, LockClass, Side, State, TaskAccount, latency_bucket};

use crate::context::now_ns;
use crate::maps::LATENCIES;
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
        _ => account.clock.cpu_state(gate),
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
        // Spinning for a mutex gives way to sleeping, unannounced where its slow path is probed as a whole.
        Some(class) if class == LockClass::MutexSpin as u8 => State::lock(LockClass::Mutex as u8),
        // Between two replies a backend sleeps for its client: nothing has to be read.
        _ => match account.clock.idle_state(gate) {
            Some(idle) => idle,
            None if in_iowait() => State::IO,
            None => wait_state(account),
        },
    }
}

/// A backend has sent ReadyForQuery with this status. A transaction that it ends, and that was seen
/// from its begin, goes with its time into the bucket of its latency.
#[inline(always)]
pub(crate) fn reply(gate: &Gate, account: &mut TaskAccount, status: u8, overhead: u64) {
    let latency_ns = account.clock.reply(gate, account.since_ns, now_ns(), status, overhead);
    if status != b'I' {
        return;
    }
    let bucket = match latency_ns {
        Some(ns) if account.counted != 0 => {
            let set = (u32::from(account.counted) - 1) * LATENCY_BUCKETS as u32;
            LATENCIES.get_ptr_mut(set + latency_bucket(ns))
        }
        _ => None,
    };
    let Some(bucket) = bucket else {
        return account.clock.transaction.take(|_, _| ());
    };
    // SAFETY: this CPU's copy of a map value, valid while the program runs; a backend's replies are
    // not sent in interrupts, and the program is not preempted by itself.
    let bucket = unsafe { &mut *bucket };
    bucket.count += 1;
    account.told_count += 1;
    bucket.latency_ns += latency_ns.unwrap_or(0);
    account.clock.transaction.take(|index, ns| {
        if let Some(sum) = bucket.states_ns.get_mut(index) {
            *sum += ns;
        }
    });
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
