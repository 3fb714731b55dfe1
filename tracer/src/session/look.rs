//! What a task does that has had no event since the gate was opened: seen from outside.

use std::fs::File;
use std::os::unix::fs::FileExt as _;

use lockscope_ebpf::{Side, State, TaskAccount};
use procfs::process::Process;

/// The state that a task has been in all the time: it had no event, so what it does now it did then.
pub(super) fn look(tid: u32, account: &TaskAccount) -> State {
    let known =
        if account.clock.state.is_asleep() { account.clock.state } else { State::WAIT_UNKNOWN };
    let process = Process::new(account.tgid.cast_signed());
    let task = process.and_then(|process| process.task_from_tid(tid.cast_signed()));
    match task.and_then(|task| task.stat()).map(|stat| stat.state) {
        Ok('R') => State::CPU,
        Ok(_) if account.side != Side::Server as u8 => State::WAIT_NONE,
        // Asleep for I/O does not show here.
        Ok(_) if account.clock.state == State::IO => State::IO,
        Ok(_) => wait_event_word(account).map_or(known, State::wait),
        Err(_) => known,
    }
}

/// Postgres's word for what the process waits for.
fn wait_event_word(account: &TaskAccount) -> Option<u32> {
    let address = Some(account.wait_event_address).filter(|address| *address != 0)?;
    let memory = File::open(format!("/proc/{}/mem", account.tgid)).ok()?;
    let mut pointer = [0; 8];
    memory.read_exact_at(&mut pointer, address).ok()?;
    let mut word = [0; 4];
    memory.read_exact_at(&mut word, u64::from_ne_bytes(pointer)).ok()?;
    Some(u32::from_ne_bytes(word))
}
