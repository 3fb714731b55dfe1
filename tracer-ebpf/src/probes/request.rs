//! The end of a request: the backend has sent ReadyForQuery.
//!
//! Postgres sends its replies with `send`, the sendto system call: the buffer is the user's second
//! argument, the bytes sent the return value. A reply ends with the message `Z 00 00 00 05 status`;
//! the last bytes of earlier sends are kept, for the message may be spread over two of them.

use aya_ebpf::bindings::pt_regs;
use aya_ebpf::helpers::generated::{bpf_get_current_task_btf, bpf_task_pt_regs};
use aya_ebpf::helpers::{bpf_get_current_pid_tgid, bpf_probe_read_kernel, bpf_probe_read_user};
use aya_ebpf::macros::{btf_tracepoint, fexit, kprobe, kretprobe, raw_tracepoint, tracepoint};
use aya_ebpf::programs::{
    BtfTracePointContext, FExitContext, ProbeContext, RawTracePointContext, RetProbeContext,
    TracePointContext,
};
use tracer_ebpf::{Gate, Loss, Side, TaskAccount};

use crate::context::{lose, open_gate};
use crate::maps::{SESSIONS_LEFT_OUT, TASKS};
use crate::{clock, config};

/// `Z`, the length 5 and the status, as the six low bytes of the tail.
const READY_FOR_QUERY: u64 = 0x5a_00_00_00_05_00;
const READY_FOR_QUERY_MASK: u64 = 0xff_ff_ff_ff_ff_00;

/// What TLS 1.3 puts around one record: header, content type, tag.
const TLS_RECORD: u64 = 5 + 1 + 16;

#[cfg(bpf_target_arch = "aarch64")]
const SYS_SENDTO: u64 = 206;
#[cfg(not(bpf_target_arch = "aarch64"))]
const SYS_SENDTO: u64 = 44;

/// What the system call was asked to send.
struct Sendto {
    buffer: u64,
    len: u64,
}

/// Only what is needed is read: rdx, rsi, rdi and orig_rax stand together.
#[cfg(not(bpf_target_arch = "aarch64"))]
#[inline(always)]
fn sendto_arguments(regs: *const pt_regs) -> Option<(u64, Sendto)> {
    let rdx = regs as u64 + core::mem::offset_of!(pt_regs, rdx) as u64;
    // SAFETY: the helper checks the address and fails instead of faulting.
    let [rdx, rsi, _rdi, orig_rax] =
        unsafe { bpf_probe_read_kernel(rdx as *const [u64; 4]) }.ok()?;
    Some((orig_rax, Sendto { buffer: rsi, len: rdx }))
}

/// The same of the current system call: `bpf_task_pt_regs` gives a pointer whose type the verifier
/// knows, and plain loads cost a fraction of a copy by a helper.
#[cfg(not(bpf_target_arch = "aarch64"))]
#[inline(always)]
fn current_arguments() -> Option<(u64, Sendto)> {
    // SAFETY: both helpers only look at the current task; the registers live as long as it does.
    let regs = unsafe { &*(bpf_task_pt_regs(bpf_get_current_task_btf()) as *const pt_regs) };
    Some((regs.orig_rax, Sendto { buffer: regs.rsi, len: regs.rdx }))
}

#[cfg(bpf_target_arch = "aarch64")]
#[inline(always)]
fn current_arguments() -> Option<(u64, Sendto)> {
    // SAFETY: both helpers only look at the current task.
    let regs = unsafe { bpf_task_pt_regs(bpf_get_current_task_btf()) };
    sendto_arguments(regs as *const pt_regs)
}

#[cfg(bpf_target_arch = "aarch64")]
#[inline(always)]
fn sendto_arguments(regs: *const pt_regs) -> Option<(u64, Sendto)> {
    // SAFETY: the helper checks the address and fails instead of faulting.
    let regs = unsafe { bpf_probe_read_kernel(regs.cast::<[u64; 10]>()) }.ok()?;
    Some((regs[8], Sendto { buffer: regs[1], len: regs[2] }))
}

/// Runs `then` if the current task is the server's. Everybody's sends come here, the load's own
/// above all: they leave before any map is looked at.
///
/// Nothing but the task's own account is written, which no other program writes in these fields:
/// the CPU need not be claimed.
#[inline(always)]
fn as_server(then: impl FnOnce(&Gate, &mut TaskAccount)) {
    let pid_tgid = bpf_get_current_pid_tgid();
    if (pid_tgid >> 32) as u32 == config::own_tgid() {
        return;
    }
    let Some(gate) = open_gate() else { return };
    let Some(account) = TASKS.get_ptr_mut(pid_tgid as u32) else { return };
    // SAFETY: a map value, valid while the program runs; only its own task writes it.
    let account = unsafe { &mut *account };
    if account.side == Side::Server as u8 {
        then(&gate, account);
    }
}

/// The current task has sent `sent` bytes of `call`.
#[inline(always)]
fn sent(gate: &Gate, account: &mut TaskAccount, call: &Sendto, sent: i64) {
    if sent <= 0 {
        return;
    }
    let sent = sent as u64;
    account.clock.transaction.sends(sent);
    if account.status_address != 0 {
        return sent_encrypted(gate, account);
    }
    let Some(tail) = tail_of(account.sent_tail, call.buffer + sent, sent) else {
        lose(Loss::ReplyUnreadable);
        return;
    };
    account.sent_tail = tail;
    if sent == call.len && tail & READY_FOR_QUERY_MASK == READY_FOR_QUERY {
        ready_for_query(gate, account, tail as u8, 0);
    }
}

/// Under TLS the bytes tell nothing. But a backend sets its state to idle before it sends
/// ReadyForQuery, and to active when it has read the next request.
#[inline(always)]
fn sent_encrypted(gate: &Gate, account: &mut TaskAccount) {
    // SAFETY: the helper checks the address and fails instead of faulting.
    match unsafe { bpf_probe_read_user(account.status_address as *const u32) } {
        Ok(state) => {
            if let Some(status) = config::reply_status(state) {
                ready_for_query(gate, account, status, TLS_RECORD);
            }
        }
        Err(_) => lose(Loss::ReplyUnreadable),
    }
}

/// The last eight bytes sent, newest in the low byte, after `sent` more that end at `end`.
#[inline(always)]
fn tail_of(tail: u64, end: u64, sent: u64) -> Option<u64> {
    const TAIL_LEN: u64 = 8;
    if sent >= TAIL_LEN {
        // SAFETY: the helper checks the address and fails instead of faulting.
        let bytes = unsafe { bpf_probe_read_user((end - TAIL_LEN) as *const u64) }.ok()?;
        return Some(u64::from_be(bytes));
    }
    let mut tail = tail;
    for back in 0..TAIL_LEN {
        if back < sent {
            // SAFETY: as above.
            let byte = unsafe { bpf_probe_read_user((end - sent + back) as *const u8) }.ok()?;
            tail = tail << 8 | u64::from(byte);
        }
    }
    Some(tail)
}

#[inline(always)]
fn ready_for_query(gate: &Gate, account: &mut TaskAccount, status: u8, overhead: u64) {
    if account.flags & TaskAccount::MAY_BE_LEFT_OUT != 0 {
        first_reply(account);
    }
    account.requests_count += 1;
    match status {
        b'I' => account.transactions_count += 1,
        b'E' => account.failed_requests_count += 1,
        _ => {}
    }
    if config::keep_clocks() {
        clock::reply(gate, account, status, overhead);
    }
}

/// A session has begun. Those that a benchmark's client makes before its load are made one after the
/// other, so nobody else counts down at the same time.
#[inline(always)]
fn first_reply(account: &mut TaskAccount) {
    account.flags &= !TaskAccount::MAY_BE_LEFT_OUT;
    let Some(left) = SESSIONS_LEFT_OUT.get_ptr_mut(0) else { return };
    // SAFETY: a map value, valid while the program runs.
    let left = unsafe { &mut *left };
    if *left > 0 {
        *left -= 1;
        account.flags |= TaskAccount::LEFT_OUT;
        account.counted = 0;
    }
}

/// Where the arguments are still in the system call's registers (needs `bpf_task_pt_regs`, 5.15+).
#[inline(always)]
fn sent_by_current_call(sent_len: i64) {
    as_server(|gate, account| match current_arguments() {
        Some((SYS_SENDTO, call)) => sent(gate, account, &call, sent_len),
        // A server's other sends (replication, archiving) are not replies.
        Some(_) => {}
        None => lose(Loss::ReplyUnreadable),
    });
}

#[btf_tracepoint(function = "sock_send_length")]
fn sock_send_length_btf(ctx: BtfTracePointContext) -> i32 {
    sent_by_current_call(i64::from(ctx.arg::<i32>(1)));
    0
}

#[raw_tracepoint(tracepoint = "sock_send_length")]
fn sock_send_length_raw(ctx: RawTracePointContext) -> i32 {
    sent_by_current_call(i64::from(ctx.arg::<i32>(1)));
    0
}

/// `__x64_sys_sendto(const struct pt_regs *)`: argument 0, then the return value.
#[fexit]
fn sys_sendto_fexit(ctx: FExitContext) -> i32 {
    sent_by_current_call(ctx.arg::<i64>(1));
    0
}

/// Where the return is seen without the arguments: remembers them.
#[inline(always)]
fn sendto_begins(call: impl FnOnce() -> Option<Sendto>) {
    as_server(|_, account| {
        if let Some(call) = call() {
            account.send_buffer = call.buffer;
            account.send_len = call.len;
        }
    });
}

#[inline(always)]
fn sendto_ends(ret: i64) {
    as_server(|gate, account| {
        let call = Sendto { buffer: account.send_buffer, len: account.send_len };
        account.send_buffer = 0;
        if call.buffer != 0 {
            sent(gate, account, &call, ret);
        }
    });
}

#[kprobe]
fn sys_sendto_kprobe(ctx: ProbeContext) -> u32 {
    let regs = ctx.arg::<u64>(0).unwrap_or(0);
    sendto_begins(|| sendto_arguments(regs as *const pt_regs).map(|(_, call)| call));
    0
}

#[kretprobe]
fn sys_sendto_kretprobe(ctx: RetProbeContext) -> u32 {
    sendto_ends(ctx.ret::<i64>());
    0
}

// Offsets in the records of syscalls:sys_enter_sendto and sys_exit_sendto: 8 bytes of common
// header, 8 of the call's number, then the arguments (fd, buff, len, …) or the return value.
const RECORD_BUFFER: usize = 24;
const RECORD_LEN: usize = 32;
const RECORD_RETURN: usize = 16;

#[tracepoint]
fn sys_enter_sendto_tp(ctx: TracePointContext) -> u32 {
    // SAFETY: the record has these fields at these offsets.
    let (buffer, len) = unsafe { (ctx.read_at(RECORD_BUFFER), ctx.read_at(RECORD_LEN)) };
    if let (Ok(buffer), Ok(len)) = (buffer, len) {
        sendto_begins(|| Some(Sendto { buffer, len }));
    }
    0
}

#[tracepoint]
fn sys_exit_sendto_tp(ctx: TracePointContext) -> u32 {
    // SAFETY: the record has the return value at this offset.
    if let Ok(ret) = unsafe { ctx.read_at(RECORD_RETURN) } {
        sendto_ends(ret);
    }
    0
}
