//! A backend's status entry in shared memory, as it shows itself in `pg_stat_activity`.
//!
//! `MyBEEntry` points to the backend's `PgBackendStatus`. Its members' places are those of
//! Postgres 14 to 17 (`backend_status.h`); whether they hold is checked with a connected, idle
//! backend, which knows its own pid and what it does.

use std::io;

use crate::kernel::task::read_memory;

/// The variable that points to a backend's status entry.
pub(super) const STATUS_ENTRY: &str = "MyBEEntry";

const PROCPID: usize = 4;
const SSL: usize = 200;
const GSS: usize = 216;
const STATE: usize = 232;
const ENTRY_LEN: usize = STATE + 4;

/// `BackendState` of Postgres 14 to 17: idle, idle in a transaction, the same when it has failed.
pub const IDLE_STATES: [u32; 3] = [STATE_IDLE, 3, 5];
const STATE_IDLE: u32 = 1;

/// How a backend's replies can be recognised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replies {
    /// By their bytes.
    Plain,
    /// By the state at this address in the backend's memory, for they are encrypted.
    Encrypted {
        /// Of `st_state`.
        state_address: u64,
    },
    /// Not: this Postgres keeps its status elsewhere.
    Unknown,
}

/// Looks into the memory of a connected, idle backend. `own_pid` is the pid that it calls its own;
/// `entry_variable` the address of `MyBEEntry`.
///
/// # Errors
/// Its memory cannot be read.
pub fn replies(pid: u32, own_pid: u32, entry_variable: u64) -> io::Result<Replies> {
    let mut pointer = [0; 8];
    read_memory(pid, entry_variable, &mut pointer)?;
    let entry_address = u64::from_ne_bytes(pointer);
    let mut entry = [0; ENTRY_LEN];
    read_memory(pid, entry_address, &mut entry)?;
    Ok(read_entry(&entry, own_pid, entry_address))
}

/// Where a connected backend's state tells of its replies, if these are encrypted. Of one that
/// cannot be understood no transaction is seen.
pub fn encrypted_status(pid: u32, own_pid: u32, entry_variable: Option<u64>) -> Option<u64> {
    match replies(pid, own_pid, entry_variable?) {
        Ok(Replies::Encrypted { state_address }) => Some(state_address),
        Ok(Replies::Plain | Replies::Unknown) | Err(_) => None,
    }
}

fn read_entry(entry: &[u8; ENTRY_LEN], own_pid: u32, address: u64) -> Replies {
    let word = |at: usize| {
        let bytes: [u8; 4] = entry[at..at + 4].try_into().unwrap_or_default();
        u32::from_ne_bytes(bytes)
    };
    if word(PROCPID) != own_pid || word(STATE) != STATE_IDLE {
        return Replies::Unknown;
    }
    match (entry[SSL], entry[GSS]) {
        (0, 0) => Replies::Plain,
        (0 | 1, 0 | 1) => Replies::Encrypted { state_address: address + STATE as u64 },
        _ => Replies::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_entry_that_fits_is_believed() {
        let mut entry = [0; ENTRY_LEN];
        entry[PROCPID..PROCPID + 4].copy_from_slice(&77_u32.to_ne_bytes());
        entry[STATE..].copy_from_slice(&STATE_IDLE.to_ne_bytes());
        assert_eq!(read_entry(&entry, 77, 0x1000), Replies::Plain);
        assert_eq!(read_entry(&entry, 78, 0x1000), Replies::Unknown);
        entry[SSL] = 1;
        let encrypted = Replies::Encrypted { state_address: 0x1000 + 232 };
        assert_eq!(read_entry(&entry, 77, 0x1000), encrypted);
        entry[SSL] = 9;
        assert_eq!(read_entry(&entry, 77, 0x1000), Replies::Unknown);
    }
}
