//! Which tasks are traced: children of traced tasks join at fork, tasks leave at exit.

use aya_ebpf::EbpfContext;
use aya_ebpf::helpers::{bpf_get_current_pid_tgid, bpf_probe_read_kernel};
use aya_ebpf::macros::{btf_tracepoint, raw_tracepoint, tracepoint};
use aya_ebpf::programs::{BtfTracePointContext, RawTracePointContext, TracePointContext};
use aya_log_ebpf::{info, warn};
use tracer_ebpf::{Gate, Loss, TaskAccount};

use crate::config;
use crate::context::{lose, now_ns, open_gate};
use crate::maps::{GATE, NEW_TASK, TASKS};

const EXISTS: u64 = 1; // BPF_NOEXIST

// These programs run rarely, so they may log (`--bpf-log`); without it the level is off, which the
// verifier knows and cuts the lines out. No hot path logs.

/// Accounts are opened whether the gate is open or not: the child may live through many slices.
#[inline(always)]
fn forked<C: EbpfContext>(ctx: &C, child_tid: u32, child_tgid: u32) {
    // The event fires in the parent.
    let Some(parent) = TASKS.get_ptr_mut(current_tid()) else { return };
    // SAFETY: a map value, valid while the program runs.
    let (side, flags) = unsafe { ((*parent).side, (*parent).flags) };
    if flags & TaskAccount::FOLLOWED == 0 {
        return;
    }
    let Some(account) = NEW_TASK.get_ptr_mut(0) else { return };
    // SAFETY: this CPU's scratch value; fork does not nest. It stays zero but for these fields.
    let account = unsafe { &mut *account };
    account.tgid = child_tgid;
    account.side = side;
    let now_ns = now_ns();
    account.since_ns = now_ns;
    // SAFETY: a map value, valid while the program runs.
    account.wait_event_address = unsafe { (*parent).wait_event_address };
    // SAFETY: as above.
    account.counted = unsafe { (*parent).counted };
    account.flags = flags;
    account.clock.born(&gate(), now_ns);
    if TASKS.insert(child_tid, &*account, EXISTS).is_ok() {
        info!(ctx, "task {} of {} joined", child_tid, child_tgid);
        return;
    }
    match TASKS.get_ptr_mut(child_tid) {
        Some(old) => reopen(old),
        None => {
            warn!(ctx, "no room for task {}", child_tid);
            lose(Loss::TasksFull);
        }
    }
}

/// The tid of a task that has exited is used again before its account was read: goes on in it.
#[inline(always)]
fn reopen(account: *mut TaskAccount) {
    // SAFETY: a map value, valid while the program runs.
    let account = unsafe { &mut *account };
    // What lies between the two is nobody's.
    account.clock.born(&gate(), now_ns());
    account.exited = 0;
    account.exited_ns = 0;
    account.open.depth = 0;
    lose(Loss::TidReused);
}

/// The gate, shut if it cannot be read.
#[inline(always)]
fn gate() -> Gate {
    GATE.get(0).copied().unwrap_or_default()
}

#[inline(always)]
fn current_tid() -> u32 {
    bpf_get_current_pid_tgid() as u32
}

#[inline(always)]
fn exited<C: EbpfContext>(ctx: &C) {
    let Some(account) = TASKS.get_ptr_mut(current_tid()) else { return };
    // SAFETY: a map value, valid while the program runs.
    let account = unsafe { &mut *account };
    account.exited_ns = now_ns();
    if let Some(gate) = open_gate() {
        account.clock.end(gate, account.since_ns, account.exited_ns);
    }
    account.exited = 1;
    info!(ctx, "task {} exited", current_tid());
}

#[inline(always)]
fn field(task: u64, offset: u32) -> Option<u32> {
    if offset == config::ABSENT {
        return None;
    }
    // SAFETY: the helper checks the address and fails instead of faulting.
    unsafe { bpf_probe_read_kernel((task + u64::from(offset)) as *const u32) }.ok()
}

#[inline(always)]
fn forked_task<C: EbpfContext>(ctx: &C, child: u64) {
    let tid = field(child, config::task_pid_offset());
    let tgid = field(child, config::task_tgid_offset());
    if let (Some(tid), Some(tgid)) = (tid, tgid) {
        forked(ctx, tid, tgid);
    }
}

#[btf_tracepoint(function = "sched_process_fork")]
fn sched_process_fork_btf(ctx: BtfTracePointContext) -> i32 {
    forked_task(&ctx, ctx.arg(1));
    0
}

#[raw_tracepoint(tracepoint = "sched_process_fork")]
fn sched_process_fork_raw(ctx: RawTracePointContext) -> i32 {
    forked_task(&ctx, ctx.arg(1));
    0
}

/// The record does not tell the child's process: a server's children are processes.
#[tracepoint]
fn sched_process_fork_tp(ctx: TracePointContext) -> u32 {
    let offset = config::fork_child_pid_offset();
    if offset == config::ABSENT {
        return 0;
    }
    // SAFETY: the loader has read the offset from the tracepoint's format.
    if let Ok(child) = unsafe { ctx.read_at(offset as usize) } {
        forked(&ctx, child, child);
    }
    0
}

#[btf_tracepoint(function = "sched_process_exit")]
fn sched_process_exit_btf(ctx: BtfTracePointContext) -> i32 {
    exited(&ctx);
    0
}

#[raw_tracepoint(tracepoint = "sched_process_exit")]
fn sched_process_exit_raw(ctx: RawTracePointContext) -> i32 {
    exited(&ctx);
    0
}

#[tracepoint]
fn sched_process_exit_tp(ctx: TracePointContext) -> u32 {
    exited(&ctx);
    0
}
