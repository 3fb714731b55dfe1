//! What a task does that has had no event since the gate was opened: seen from outside.

use lockscope_ebpf::{Side, State, TaskAccount};

use crate::kernel::task::{read_memory, thread_stat};

/// The state that a task has been in all the time: it had no event, so what it does now it did then.
pub(super) fn look(tid: u32, account: &TaskAccount) -> State {
    let known =
        if account.clock.state.is_asleep() { account.clock.state } else { State::WAIT_UNKNOWN };
    match thread_stat(tid, account.tgid).map(|stat| stat.state) {
        Some('R') => State::CPU,
        Some(_) if account.side != Side::Server as u8 => State::WAIT_NONE,
        // Asleep for I/O does not show here.
        Some(_) if account.clock.state == State::IO => State::IO,
        Some(_) => wait_event_word(account).map_or(known, State::wait),
        None => known,
    }
}

/// Postgres's word for what the process waits for.
fn wait_event_word(account: &TaskAccount) -> Option<u32> {
    let address = Some(account.wait_event_address).filter(|address| *address != 0)?;
    let mut pointer = [0; 8];
    read_memory(account.tgid, address, &mut pointer).ok()?;
    let mut word = [0; 4];
    read_memory(account.tgid, u64::from_ne_bytes(pointer), &mut word).ok()?;
    Some(u32::from_ne_bytes(word))
}
