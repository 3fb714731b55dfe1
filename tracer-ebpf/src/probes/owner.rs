//! A holder's own moments: it releases a lock for which others wait, or is switched out with it.

use aya_ebpf::helpers::bpf_get_current_pid_tgid;
use aya_ebpf::macros::{btf_tracepoint, fentry, kprobe, raw_tracepoint, tracepoint};
use aya_ebpf::programs::{
    BtfTracePointContext, FEntryContext, ProbeContext, RawTracePointContext, TracePointContext,
};

use crate::owner;

/// Offset of the lock in the classic tracepoint's record.
const RECORD_LOCK: usize = 8;

#[btf_tracepoint(function = "contended_release")]
fn contended_release_btf(ctx: BtfTracePointContext) -> i32 {
    owner::released(&ctx, ctx.arg(0));
    0
}

#[raw_tracepoint(tracepoint = "contended_release")]
fn contended_release_raw(ctx: RawTracePointContext) -> i32 {
    owner::released(&ctx, ctx.arg(0));
    0
}

#[tracepoint]
fn contended_release_tp(ctx: TracePointContext) -> u32 {
    // SAFETY: the record of lock:contended_release has the lock at this offset.
    if let Ok(lock) = unsafe { ctx.read_at(RECORD_LOCK) } {
        owner::released(&ctx, lock);
    }
    0
}

/// The slow path of an unlock, whose first argument is the lock.
macro_rules! unlock_function {
    ($fentry:ident, $kprobe:ident) => {
        #[fentry]
        fn $fentry(ctx: FEntryContext) -> i32 {
            owner::released(&ctx, ctx.arg(0));
            0
        }

        #[kprobe]
        fn $kprobe(ctx: ProbeContext) -> u32 {
            if let Some(lock) = ctx.arg::<u64>(0) {
                owner::released(&ctx, lock);
            }
            0
        }
    };
}

unlock_function!(unlock_slowpath_fentry, unlock_slowpath_kprobe);
unlock_function!(unlock_slowpath2_fentry, unlock_slowpath2_kprobe);

/// The task that is switched out is still the current one.
#[inline(always)]
fn current_tid() -> u32 {
    bpf_get_current_pid_tgid() as u32
}

#[btf_tracepoint(function = "sched_switch")]
fn holder_switch_btf(ctx: BtfTracePointContext) -> i32 {
    owner::on_switch(&ctx, current_tid());
    0
}

#[raw_tracepoint(tracepoint = "sched_switch")]
fn holder_switch_raw(ctx: RawTracePointContext) -> i32 {
    owner::on_switch(&ctx, current_tid());
    0
}

#[tracepoint]
fn holder_switch_tp(ctx: TracePointContext) -> u32 {
    owner::on_switch(&ctx, current_tid());
    0
}
