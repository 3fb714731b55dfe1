//! Who held a lock while others waited.

use super::locks::frames;
use super::table::time;
use crate::analyse::units::{count, percent, plural};
use crate::model::{Holder, Holds};

/// Holders named with a lock.
const HOLDERS: usize = 3;
/// Frames of a holder's stack.
const FRAMES: usize = 6;

/// `held …`, and where.
pub(super) fn lines(holds: &Holds) -> Vec<String> {
    let mut lines = vec![held(holds)];
    lines.extend(holds.holders.iter().find_map(place));
    lines
}

fn held(holds: &Holds) -> String {
    let named: Vec<String> =
        holds.holders.iter().take(HOLDERS).map(|holder| share(holder, holds)).collect();
    let mut text = format!("held by {}", named.join(", "));
    let more = holds.holders_count.saturating_sub(named.len() as u64);
    if more > 0 {
        text += &format!(" + {} more", count(more));
    }
    text += &format!(
        ": {}, {} in all, mean {}, max {}",
        plural(holds.count, "hold"),
        time(holds.total_ns as f64),
        time(holds.mean_ns as f64),
        time(holds.max_ns as f64)
    );
    if holds.released_count < holds.count {
        let estimated = holds.count - holds.released_count;
        text += &format!(" ({} up to the next waiter's wake-up)", count(estimated));
    }
    text
}

/// `client backend 71020 (postgres) 40 %`.
fn share(holder: &Holder, holds: &Holds) -> String {
    let share = percent(holder.total_ns as f64 / holds.total_ns.max(1) as f64);
    let Some(tid) = holder.tid else { return format!("readers {share}") };
    match &holder.role {
        Some(role) => format!("{role} {tid} ({}) {share}", holder.comm),
        None => format!("{} {tid} {share}", holder.comm),
    }
}

/// `released in …`, of the first holder whose stack is known.
fn place(holder: &Holder) -> Option<String> {
    let what = match holder.stack_at.as_deref()? {
        "release" => "released in",
        _ => "held across a switch in",
    };
    // The lock's own code, or the scheduler's, says nothing of who holds it.
    let frames = frames(&holder.stack);
    let caller = holder.caller.as_deref();
    let first = frames.iter().position(|frame| Some(*frame) == caller).unwrap_or(0);
    let shown: Vec<&str> = frames.into_iter().skip(first).take(FRAMES).collect();
    Some(format!("{what} {}", shown.join(" <- ")))
}
