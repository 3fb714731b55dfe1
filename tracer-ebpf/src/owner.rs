//! Who holds a contended mutex or rw_semaphore, and for how long others wait for it.
//!
//! The lock itself tells its owner. A waiter looks at it when its wait begins, and becomes the owner
//! when its wait ends: the waits alone tell every holder that anybody waited for. A hold counts from
//! the moment at which it is known that somebody waits.

use aya_ebpf::EbpfContext;
use aya_ebpf::helpers::generated::bpf_get_stack;
use tracer_ebpf::{
    Held, HoldStats, HolderAt, HolderKey, HolderName, HolderStackKey, LockClass, Loss, MARK_SLOTS,
    Mark, OWNED_BY_READERS, STACK_DEPTH,
};

use crate::config;
use crate::context::{Event, now_ns};
use crate::identity::{current_task, read};
use crate::maps::{HELD, HOLDER_NAMES, HOLDER_STACK, HOLDER_STACKS, HOLDERS, LAYOUT, MARKS};

/// The low bits of a mutex's owner that are flags; of an rwsem's likewise.
const FLAGS: u64 = 7;
const MUTEX_WAITERS: u64 = 1;
const RWSEM_READER_OWNED: u64 = 1;
/// In an rwsem's count.
const RWSEM_WAITERS: u64 = 2;

static NO_HOLDS: HoldStats = HoldStats { count: 0, total_ns: 0, max_ns: 0, released_count: 0 };

/// What a lock says of itself.
struct Ownership {
    /// As in `Held::owner`.
    owner: u64,
    waiters: bool,
}

/// One read: both kinds of lock have their owner in their first two words.
#[inline(always)]
fn ownership(class: u8, lock: u64) -> Option<Ownership> {
    let is_mutex = class == LockClass::Mutex as u8 || class == LockClass::MutexSpin as u8;
    if !is_mutex && class != LockClass::Rwsem as u8 {
        return None;
    }
    let offset = if is_mutex { config::mutex_owner_offset() } else { config::rwsem_owner_offset() };
    if offset > 8 {
        return None;
    }
    let words: [u64; 2] = read(lock, 0)?;
    let word = if offset == 8 { words[1] } else { words[0] };
    Some(match is_mutex {
        true => Ownership { owner: word & !FLAGS, waiters: word & MUTEX_WAITERS != 0 },
        false => Ownership {
            owner: match word & RWSEM_READER_OWNED != 0 {
                true => OWNED_BY_READERS,
                false => word & !FLAGS,
            },
            waiters: words[0] & RWSEM_WAITERS != 0,
        },
    })
}

/// A wait for a lock begins: whoever has it now holds somebody up.
#[inline(always)]
pub(crate) fn wait_begins(event: &Event, class: u8, lock: u64) {
    let Some(found) = ownership(class, lock) else { return };
    if found.owner == 0 {
        return;
    }
    let Some(held) = held(lock) else {
        event.lose(Loss::HoldersFull);
        return;
    };
    let is_known = held.owner == found.owner && held.generation == event.generation;
    if is_known && held.contended_since_ns != 0 {
        return;
    }
    let now = now_ns();
    if !is_known {
        // Whoever held it before has released it unseen, and nobody waited by then.
        held.owner = found.owner;
        held.since_ns = now;
        held.tid = tid_of(found.owner);
        held.generation = event.generation;
    }
    held.contended_since_ns = now;
    mark(held.tid, lock);
}

/// A wait for a lock ends: the holder's time is over, and the waiter holds the lock now, unless it
/// gave up.
#[inline(always)]
pub(crate) fn wait_ends(event: &Event, class: u8, lock: u64, begin_ns: u64, ended_ns: u64) {
    let Some(found) = ownership(class, lock) else { return };
    let Some(held) = held(lock) else {
        event.lose(Loss::HoldersFull);
        return;
    };
    if held.generation != event.generation {
        held.owner = 0;
    }
    if held.owner == found.owner && held.owner != current_task() {
        return;
    }
    if held.owner != 0 && held.owner != current_task() {
        let since_ns = match held.contended_since_ns {
            // Nobody but this waiter: it waited all the time, or from its own begin on.
            0 if held.since_ns > begin_ns => held.since_ns,
            0 => begin_ns,
            since_ns => since_ns,
        };
        hold_ends(event, held, lock, since_ns, ended_ns, 0);
    }
    held.owner = found.owner;
    held.since_ns = ended_ns;
    held.contended_since_ns = if found.waiters { ended_ns } else { 0 };
    held.tid = if found.owner == OWNED_BY_READERS { 0 } else { event.tid };
    held.generation = event.generation;
    if found.owner != current_task() && found.owner != OWNED_BY_READERS {
        // The waiter gave up, or has released the lock already: who has it now is for others to see.
        held.owner = 0;
    } else if found.waiters {
        mark(held.tid, lock);
    }
}

/// The current task releases a lock for which somebody waits.
#[inline(always)]
pub(crate) fn released<C: EbpfContext>(ctx: &C, lock: u64) {
    let now = now_ns();
    let Some(event) = Event::enter() else { return };
    released_in(&event, ctx, lock, now);
    event.leave();
}

#[inline(always)]
fn released_in<C: EbpfContext>(event: &Event, ctx: &C, lock: u64, now: u64) {
    let Some(held) = HELD.get_ptr_mut(lock) else { return };
    // SAFETY: a map value, valid while the program runs.
    let held = unsafe { &mut *held };
    let is_mine = held.owner == current_task() || held.owner == OWNED_BY_READERS;
    if !is_mine || held.generation != event.generation {
        return;
    }
    let since_ns = held.contended_since_ns;
    if since_ns != 0 {
        hold_ends(event, held, lock, since_ns, now, 1);
        if held.tid != 0 {
            keep_stack(ctx, lock, held.tid, HolderAt::Release, now.saturating_sub(since_ns));
        }
    }
    held.owner = 0;
}

/// The current task is switched out: if it holds a lock that somebody waits for, this is where.
///
/// Call it at every switch; but for the marked ones it costs one look into an array.
#[inline(always)]
pub(crate) fn on_switch<C: EbpfContext>(ctx: &C, prev_tid: u32) {
    let Some(slot) = MARKS.get_ptr_mut(prev_tid & (MARK_SLOTS as u32 - 1)) else { return };
    // SAFETY: a map value, valid while the program runs; a torn one is checked below.
    let mark = unsafe { *slot };
    if mark.tid != prev_tid || prev_tid == 0 {
        return;
    }
    // SAFETY: as above.
    unsafe { (*slot).tid = 0 };
    let now = now_ns();
    let Some(event) = Event::enter() else { return };
    if let Some(held) = HELD.get_ptr_mut(mark.lock) {
        // SAFETY: a map value, valid while the program runs.
        let held = unsafe { &*held };
        let since_ns = held.contended_since_ns;
        let is_mine = held.owner == current_task() && held.generation == event.generation;
        if is_mine && since_ns != 0 && still_owns(mark.lock, held.owner) {
            let hold_ns = now.saturating_sub(since_ns);
            keep_stack(ctx, mark.lock, prev_tid, HolderAt::Switch, hold_ns);
        }
    }
    event.leave();
}

/// Whether the lock names this owner, be it a mutex or an rwsem.
#[inline(always)]
fn still_owns(lock: u64, owner: u64) -> bool {
    let words: [u64; 2] = read(lock, 0).unwrap_or([0; 2]);
    words[0] & !FLAGS == owner || words[1] & !FLAGS == owner
}

#[inline(always)]
fn held(lock: u64) -> Option<&'static mut Held> {
    let held = match HELD.get_ptr_mut(lock) {
        Some(held) => held,
        None => {
            let _ = HELD.insert(lock, &Held::NOBODY, 0);
            HELD.get_ptr_mut(lock)?
        }
    };
    // SAFETY: a map value, valid while the program runs. CPUs may race for it: the worst is a hold
    // that is given to its neighbour in time.
    Some(unsafe { &mut *held })
}

#[inline(always)]
fn tid_of(owner: u64) -> u32 {
    let offset = config::task_pid_offset();
    if owner == OWNED_BY_READERS || offset == config::ABSENT {
        return 0;
    }
    read(owner, offset).unwrap_or(0)
}

#[inline(always)]
fn mark(tid: u32, lock: u64) {
    if tid == 0 {
        return;
    }
    if let Some(slot) = MARKS.get_ptr_mut(tid & (MARK_SLOTS as u32 - 1)) {
        // SAFETY: a map value, valid while the program runs.
        unsafe { *slot = Mark { lock, tid, pad: 0 } };
    }
}

#[inline(always)]
fn hold_ends(event: &Event, held: &Held, lock: u64, since_ns: u64, now: u64, released: u64) {
    if now < since_ns {
        return;
    }
    let key = HolderKey { lock, tid: held.tid, pad: 0 };
    let stats = match HOLDERS.get_ptr_mut(key) {
        Some(stats) => stats,
        None => {
            remember(held);
            let _ = HOLDERS.insert(key, &NO_HOLDS, 0);
            let Some(stats) = HOLDERS.get_ptr_mut(key) else {
                event.lose(Loss::HoldersFull);
                return;
            };
            stats
        }
    };
    // SAFETY: this CPU's copy of a map value; `busy` makes this event its only user.
    let stats = unsafe { &mut *stats };
    let hold_ns = now - since_ns;
    stats.count += 1;
    stats.total_ns += hold_ns;
    stats.released_count += released;
    if hold_ns > stats.max_ns {
        stats.max_ns = hold_ns;
    }
}

/// Writes down who a holder is, at the end of its first hold: it lives, or did a moment ago.
#[inline(never)]
fn remember(held: &Held) {
    let Some(layout) = LAYOUT.get(0) else { return };
    if held.tid == 0 || layout.task_comm == 0 {
        return;
    }
    let offset = config::task_tgid_offset();
    let tgid = if offset == config::ABSENT { 0 } else { read(held.owner, offset).unwrap_or(0) };
    let Some(comm) = read(held.owner, layout.task_comm) else { return };
    let _ = HOLDER_NAMES.insert(held.tid, &HolderName { tgid, comm }, 0);
}

/// Takes the current task's stack if this hold is the longest yet: rare after the first few.
#[inline(always)]
fn keep_stack<C: EbpfContext>(ctx: &C, lock: u64, tid: u32, at: HolderAt, hold_ns: u64) {
    let key = HolderStackKey { lock, tid, at: at as u8, pad: [0; 3] };
    // SAFETY: one word of the value is read; a torn value only costs a stack.
    if unsafe { HOLDER_STACKS.get(key) }.is_some_and(|kept| kept.hold_ns >= hold_ns) {
        return;
    }
    let Some(scratch) = HOLDER_STACK.get_ptr_mut(0) else { return };
    // SAFETY: this CPU's scratch value; `busy` keeps other programs of ours out.
    let scratch = unsafe { &mut *scratch };
    // SAFETY: the buffer is as large as said.
    let bytes = unsafe {
        bpf_get_stack(ctx.as_ptr(), (&raw mut scratch.stack).cast(), (STACK_DEPTH * 8) as u32, 0)
    };
    if bytes <= 0 {
        return;
    }
    scratch.hold_ns = hold_ns;
    scratch.stack_len = (bytes / 8) as u32;
    let _ = HOLDER_STACKS.insert(key, &*scratch, 0);
}
