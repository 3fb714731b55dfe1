//! Which tasks are traced: children of traced tasks join at fork, tasks leave at exit; one that calls
//! exec may go on under another tid.

use aya_ebpf::EbpfContext;
use aya_ebpf::helpers::{bpf_get_current_pid_tgid, bpf_probe_read_kernel};
use aya_ebpf::macros::{btf_tracepoint, raw_tracepoint, tracepoint};
use aya_ebpf::programs::{BtfTracePointContext, RawTracePointContext, TracePointContext};
use aya_log_ebpf::{info, warn};
use tracer_ebpf::{Loss, TaskAccount};

use crate::config;
use crate::context::{lose, now_ns, open_gate};
use crate::maps::{NEW_TASK, TASKS};

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
    // SAFETY: as above.
    let (address, counted) = unsafe { ((*parent).wait_event_address, (*parent).counted) };
    let as_child = |account: &mut TaskAccount| {
        account.tgid = child_tgid;
        account.side = side;
        account.wait_event_address = address;
        account.counted = counted;
        account.flags = flags;
        account.clock.born(&open_gate().unwrap_or_default(), account.since_ns);
    };
    if !join(ctx, child_tid, as_child) {
        lose(Loss::TidReused);
    }
}

/// Opens an account for a task that is none of the user side's finding. False where one with its tid has
/// exited and was not read yet: the task goes on in that.
#[inline(always)]
fn join<C: EbpfContext>(ctx: &C, tid: u32, fill: impl FnOnce(&mut TaskAccount)) -> bool {
    let Some(account) = NEW_TASK.get_ptr_mut(0) else { return true };
    // SAFETY: this CPU's scratch value; fork and exec do not nest. It stays zero but for what is filled
    // in, the same fields each time.
    let account = unsafe { &mut *account };
    account.since_ns = now_ns();
    fill(account);
    if TASKS.insert(tid, &*account, EXISTS).is_ok() {
        info!(ctx, "task {} of {} joined", tid, account.tgid);
        return true;
    }
    let Some(old) = TASKS.get_ptr_mut(tid) else {
        warn!(ctx, "no room for task {}", tid);
        lose(Loss::TasksFull);
        return true;
    };
    // SAFETY: a map value, valid while the program runs.
    reopen(unsafe { &mut *old }, account);
    false
}

/// The current task has called exec and had another tid before: that of its process's first thread, whose
/// tid it gets, is not its own. The account goes on under the new one.
#[inline(always)]
fn execed<C: EbpfContext>(ctx: &C, old_tid: u32) {
    let pid_tgid = bpf_get_current_pid_tgid();
    let tid = pid_tgid as u32;
    if tid == old_tid {
        return;
    }
    let Some(old) = TASKS.get_ptr_mut(old_tid) else { return };
    // SAFETY: a map value, valid while the program runs.
    let old = unsafe { &mut *old };
    if old.exited != 0 {
        return;
    }
    leave(old);
    let (side, flags) = (old.side, old.flags);
    // Its process's first thread has exited a moment ago: no tid is used again here, the task gets it. No
    // backend calls exec: there is no wait event to be found in the new program.
    let _ = join(ctx, tid, |account| {
        account.tgid = (pid_tgid >> 32) as u32;
        account.side = side;
        account.wait_event_address = 0;
        account.counted = 0;
        account.flags = flags;
        account.clock.goes_on(&open_gate().unwrap_or_default(), account.since_ns);
    });
}

/// What lies between the two is nobody's.
#[inline(always)]
fn reopen(account: &mut TaskAccount, new: &TaskAccount) {
    account.clock.born(&open_gate().unwrap_or_default(), new.since_ns);
    account.clock.state = new.clock.state;
    account.clock.woken = new.clock.woken;
    account.exited = 0;
    account.exited_ns = 0;
    account.open.depth = 0;
}

#[inline(always)]
fn current_tid() -> u32 {
    bpf_get_current_pid_tgid() as u32
}

#[inline(always)]
fn exited<C: EbpfContext>(ctx: &C) {
    let Some(account) = TASKS.get_ptr_mut(current_tid()) else { return };
    // SAFETY: a map value, valid while the program runs.
    leave(unsafe { &mut *account });
    info!(ctx, "task {} exited", current_tid());
}

/// Nothing comes after this under its tid.
#[inline(always)]
fn leave(account: &mut TaskAccount) {
    account.exited_ns = now_ns();
    if let Some(gate) = open_gate() {
        account.clock.end(&gate, account.since_ns, account.exited_ns);
    }
    account.exited = 1;
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

/// Offset of `old_pid` in the classic tracepoint's record, behind the filename's place and `pid`.
const RECORD_OLD_PID: usize = 16;

/// `(struct task_struct *p, pid_t old_pid, struct linux_binprm *bprm)`
#[btf_tracepoint(function = "sched_process_exec")]
fn sched_process_exec_btf(ctx: BtfTracePointContext) -> i32 {
    execed(&ctx, ctx.arg(1));
    0
}

#[raw_tracepoint(tracepoint = "sched_process_exec")]
fn sched_process_exec_raw(ctx: RawTracePointContext) -> i32 {
    execed(&ctx, ctx.arg(1));
    0
}

#[tracepoint]
fn sched_process_exec_tp(ctx: TracePointContext) -> u32 {
    // SAFETY: the record of sched:sched_process_exec has the tid at this offset.
    if let Ok(old_tid) = unsafe { ctx.read_at(RECORD_OLD_PID) } {
        execed(&ctx, old_tid);
    }
    0
}
