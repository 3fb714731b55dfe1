//! Block plugs: how many requests leave together, who flushes, how long it takes.

use aya_ebpf::helpers::{bpf_get_current_comm, bpf_probe_read_kernel};
use aya_ebpf::macros::{
    btf_tracepoint, fentry, fexit, kprobe, kretprobe, raw_tracepoint, tracepoint,
};
use aya_ebpf::programs::{
    BtfTracePointContext, FEntryContext, FExitContext, ProbeContext, RawTracePointContext,
    RetProbeContext, TracePointContext,
};
use tracer_ebpf::{Loss, OpenFlush, PLUG_OWNER_KWORKER, PlugStats, Side};

use crate::config;
use crate::context::{Event, now_ns};
use crate::maps::OTHER_FLUSH;

// Offsets in the classic record of block:block_unplug, behind the common header of 8 bytes. The
// record does not say whether the unplug was explicit.
const RECORD_NR_RQ: usize = 8;

const NO_FLUSH: OpenFlush = OpenFlush { begin_ns: 0, depth: 0, generation: 0 };

/// The counters of whoever is running: a side, or the kworkers.
#[inline(always)]
#[expect(clippy::mut_from_ref, reason = "`busy` makes this event the only user of the value")]
fn owner(event: &Event) -> &mut PlugStats {
    let index = match event.task() {
        // SAFETY: a map value, valid while the program runs.
        Some(account) => unsafe { (*account).side as usize },
        None if is_kworker() => PLUG_OWNER_KWORKER,
        None => Side::Other as usize,
    };
    // SAFETY: masked to the array's length of four.
    unsafe { event.cpu().plug.get_unchecked_mut(core::hint::black_box(index) & 3) }
}

#[inline(always)]
fn is_kworker() -> bool {
    match bpf_get_current_comm() {
        Ok(comm) => comm[..7] == *b"kworker",
        Err(_) => false,
    }
}

#[inline(always)]
fn count(add: impl FnOnce(&mut PlugStats)) {
    let Some(event) = Event::enter() else { return };
    add(owner(&event));
    event.leave();
}

#[inline(always)]
fn unplugged(requests: u32, explicit: bool) {
    count(|stats| {
        stats.unplug_count += 1;
        stats.unplugged_requests_count += u64::from(requests);
        stats.implicit_unplug_count += u64::from(!explicit);
    });
}

#[btf_tracepoint(function = "block_plug")]
fn block_plug_btf(_ctx: BtfTracePointContext) -> i32 {
    count(|stats| stats.plug_count += 1);
    0
}

#[raw_tracepoint(tracepoint = "block_plug")]
fn block_plug_raw(_ctx: RawTracePointContext) -> i32 {
    count(|stats| stats.plug_count += 1);
    0
}

#[tracepoint]
fn block_plug_tp(_ctx: TracePointContext) -> u32 {
    count(|stats| stats.plug_count += 1);
    0
}

#[btf_tracepoint(function = "block_unplug")]
fn block_unplug_btf(ctx: BtfTracePointContext) -> i32 {
    unplugged(ctx.arg(1), ctx.arg::<u64>(2) & 0xff != 0);
    0
}

#[raw_tracepoint(tracepoint = "block_unplug")]
fn block_unplug_raw(ctx: RawTracePointContext) -> i32 {
    unplugged(ctx.arg(1), ctx.arg::<u64>(2) & 0xff != 0);
    0
}

#[tracepoint]
fn block_unplug_tp(ctx: TracePointContext) -> u32 {
    // SAFETY: the record of block:block_unplug has nr_rq at this offset.
    if let Ok(requests) = unsafe { ctx.read_at::<i32>(RECORD_NR_RQ) } {
        unplugged(requests as u32, true);
    }
    0
}

#[fentry]
fn blk_start_plug_fentry(_ctx: FEntryContext) -> i32 {
    count(|stats| stats.start_count += 1);
    0
}

#[kprobe]
fn blk_start_plug_kprobe(_ctx: ProbeContext) -> u32 {
    count(|stats| stats.start_count += 1);
    0
}

#[fentry]
fn blk_finish_plug_fentry(_ctx: FEntryContext) -> i32 {
    count(|stats| stats.finish_count += 1);
    0
}

#[kprobe]
fn blk_finish_plug_kprobe(_ctx: ProbeContext) -> u32 {
    count(|stats| stats.finish_count += 1);
    0
}

/// `__blk_flush_plug(plug, from_schedule)`, before 5.16 `blk_flush_plug_list`.
#[inline(always)]
fn flush_begins(plug: u64, from_schedule: bool) {
    let Some(event) = Event::enter() else { return };
    let stats = owner(&event);
    stats.flush_count += 1;
    stats.schedule_flush_count += u64::from(from_schedule);
    stats.empty_flush_count += u64::from(is_empty(plug));
    open_flush(&event);
    event.leave();
}

#[inline(always)]
fn is_empty(plug: u64) -> bool {
    let offset = config::plug_rq_count_offset();
    if offset == config::ABSENT {
        return false;
    }
    // SAFETY: the helper checks the address and fails instead of faulting.
    matches!(unsafe { bpf_probe_read_kernel((plug + u64::from(offset)) as *const u16) }, Ok(0))
}

#[inline(always)]
fn open_flush(event: &Event) {
    let flush = match event.task() {
        // SAFETY: a map value, valid while the program runs.
        Some(account) => unsafe { &raw mut (*account).flush },
        None => {
            if OTHER_FLUSH.get_ptr_mut(event.tid).is_none()
                && OTHER_FLUSH.insert(event.tid, NO_FLUSH, 0).is_err()
            {
                event.lose(Loss::OtherFull);
                return;
            }
            let Some(flush) = OTHER_FLUSH.get_ptr_mut(event.tid) else { return };
            flush
        }
    };
    // SAFETY: a map value that only its own task writes.
    let flush = unsafe { &mut *flush };
    if flush.generation != event.generation || flush.depth == 0 {
        *flush = OpenFlush { begin_ns: now_ns(), depth: 1, generation: event.generation };
    } else {
        flush.depth += 1;
    }
}

#[inline(always)]
fn flush_ends() {
    let Some(event) = Event::enter() else { return };
    let task = event.task();
    let flush = match task {
        // SAFETY: a map value, valid while the program runs.
        Some(account) => Some(unsafe { &raw mut (*account).flush }),
        None => OTHER_FLUSH.get_ptr_mut(event.tid),
    };
    if let Some(flush) = flush {
        // SAFETY: a map value that only its own task writes.
        let flush = unsafe { &mut *flush };
        close_flush(&event, flush);
        if flush.depth == 0 && task.is_none() {
            let _ = OTHER_FLUSH.remove(event.tid);
        }
    }
    event.leave();
}

#[inline(always)]
fn close_flush(event: &Event, flush: &mut OpenFlush) {
    if flush.depth == 0 {
        return;
    }
    if flush.generation != event.generation {
        flush.depth = 0;
        return;
    }
    flush.depth -= 1;
    if flush.depth == 0 {
        owner(event).flush_ns += now_ns().wrapping_sub(flush.begin_ns);
    }
}

#[fentry]
fn blk_flush_plug_fentry(ctx: FEntryContext) -> i32 {
    flush_begins(ctx.arg(0), ctx.arg::<u64>(1) & 0xff != 0);
    0
}

#[fexit]
fn blk_flush_plug_fexit(_ctx: FExitContext) -> i32 {
    flush_ends();
    0
}

#[kprobe]
fn blk_flush_plug_kprobe(ctx: ProbeContext) -> u32 {
    if let (Some(plug), Some(from_schedule)) = (ctx.arg::<u64>(0), ctx.arg::<u64>(1)) {
        flush_begins(plug, from_schedule & 0xff != 0);
    }
    0
}

#[kretprobe]
fn blk_flush_plug_kretprobe(_ctx: RetProbeContext) -> u32 {
    flush_ends();
    0
}
