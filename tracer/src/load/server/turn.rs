//! Runs of lockscope that make tables in one database take turns.

use super::control::{Control, ControlError};

/// The advisory lock that whoever makes tables holds: `lockscop` in ASCII.
const LOCK: i64 = i64::from_be_bytes(*b"lockscop");
const WHAT: &str = "waiting for another lockscope that makes tables in this database";

/// Does `work` while no other lockscope makes tables in this database. Where the work fails, the
/// session ends soon, and the turn with it.
pub fn in_turn<T, E: From<ControlError>>(
    control: &Control,
    work: impl FnOnce() -> Result<T, E>,
) -> Result<T, E> {
    let rows = control.query(WHAT, "select pg_try_advisory_lock($1)", &[&LOCK])?;
    if !rows.first().is_some_and(|row| row.get(0)) {
        log::warn!("{WHAT}");
        control.query(WHAT, "select pg_advisory_lock($1)", &[&LOCK])?;
    }
    let done = work()?;
    control.query(WHAT, "select pg_advisory_unlock($1)", &[&LOCK])?;
    Ok(done)
}
