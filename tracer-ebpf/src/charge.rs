//! What an ended wait adds to: its task's class, its lock, a sample.

use aya_ebpf::EbpfContext;
use tracer_ebpf::{Frame, HISTOGRAM_BUCKETS, LockKey, Loss, WaitStats, floor_log2};

use crate::context::Event;
use crate::maps::LOCKS;
use crate::waiter::Waiter;
use crate::{clock, filter, identity, sample};

static NO_WAITS: WaitStats = WaitStats::ZERO;

/// Adds an ended wait (or phase) to its class and to its lock, less what nested waits took.
#[inline(always)]
pub(crate) fn charge<C: EbpfContext>(
    ctx: &C,
    event: &Event,
    waiter: &Waiter,
    frame: &Frame,
    ended_ns: u64,
) {
    if frame.generation != event.generation {
        event.lose(Loss::CutByGate);
        return;
    }
    let elapsed_ns = ended_ns.wrapping_sub(frame.begin_ns);
    let wait_ns = elapsed_ns.saturating_sub(frame.nested_ns);
    match waiter.stats(event, frame.class) {
        Some(stats) => add(stats, wait_ns),
        None => charge_irq(event, waiter, ended_ns, wait_ns),
    }
    if !filter::keeps(event, frame.class, wait_ns) {
        return;
    }
    charge_lock(event, waiter, frame, wait_ns);
    if !waiter.irq {
        sample::maybe(ctx, event, waiter.side(), frame, ended_ns, wait_ns);
    }
}

#[inline(always)]
fn charge_irq(event: &Event, waiter: &Waiter, ended_ns: u64, wait_ns: u64) {
    event.cpu().irq_end_count += 1;
    match waiter.task {
        Some(account) => {
            // SAFETY: a map value, valid while the program runs.
            let account = unsafe { &mut *account };
            account.irq_count += 1;
            account.irq_ns += wait_ns;
            clock::interrupt(&event.gate, account, ended_ns, wait_ns);
        }
        None => {
            event.cpu().other_irq_count += 1;
            event.cpu().other_irq_ns += wait_ns;
        }
    }
}

#[inline(always)]
fn charge_lock(event: &Event, waiter: &Waiter, frame: &Frame, wait_ns: u64) {
    let key = LockKey { lock: frame.lock, class: frame.class, side: waiter.side(), pad: [0; 6] };
    let stats = match LOCKS.get_ptr_mut(key) {
        Some(stats) => stats,
        None => {
            identity::describe(frame.lock, u64::from(!waiter.irq));
            let _ = LOCKS.insert(key, &NO_WAITS, 0);
            let Some(stats) = LOCKS.get_ptr_mut(key) else {
                event.lose(Loss::LocksFull);
                return;
            };
            stats
        }
    };
    // SAFETY: this CPU's copy of a map value; `busy` makes this event its only user.
    let stats = unsafe { &mut *stats };
    stats.begin_count += 1;
    add(stats, wait_ns);
}

#[inline(always)]
fn add(stats: &mut WaitStats, wait_ns: u64) {
    stats.end_count += 1;
    stats.total_ns += wait_ns;
    if wait_ns > stats.max_ns {
        stats.max_ns = wait_ns;
    }
    let log = floor_log2(wait_ns);
    let last = HISTOGRAM_BUCKETS as u32 - 1;
    let bucket = core::hint::black_box(if log < last { log } else { last }) & last;
    // SAFETY: masked to the array's length.
    unsafe { *stats.histogram.get_unchecked_mut(bucket as usize) += 1 };
}
