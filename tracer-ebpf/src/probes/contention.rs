//! Lock waits through `lock:contention_begin` and `lock:contention_end` (5.19+).

use aya_ebpf::EbpfContext;
use aya_ebpf::macros::{btf_tracepoint, raw_tracepoint, tracepoint};
use aya_ebpf::programs::{BtfTracePointContext, RawTracePointContext, TracePointContext};
use tracer_ebpf::LockClass;

use crate::account::{self, Hook};

// The flags of contention_begin (include/trace/events/lock.h).
const SPIN: u32 = 1 << 0;
const READ: u32 = 1 << 1;
const WRITE: u32 = 1 << 2;
const RT: u32 = 1 << 3;
const PERCPU: u32 = 1 << 4;
const MUTEX: u32 = 1 << 5;

// Offsets in the classic tracepoints' records, behind the common header of 8 bytes.
const RECORD_LOCK: usize = 8;
const RECORD_FLAGS: usize = 16;

/// Combinations of the flags above; those that the kernel adds one day are cut off.
const FLAGS: usize = 1 << 6;

/// A table, because the verifier follows every branch to the program's end: by branches it walked each
/// of the paths behind once a class.
static CLASSES: [LockClass; FLAGS] = {
    let mut classes = [LockClass::Semaphore; FLAGS];
    let mut flags = 0;
    while flags < FLAGS {
        classes[flags] = class_by_flags(flags as u32);
        flags += 1;
    }
    classes
};

#[inline(always)]
fn class_of(flags: u32) -> LockClass {
    // One 64-bit register of the index: see `waiter::of_class`.
    let index = core::hint::black_box(u64::from(flags) & (FLAGS as u64 - 1));
    // SAFETY: the mask is the table's last index.
    unsafe { *CLASSES.get_unchecked(index as usize) }
}

const fn class_by_flags(flags: u32) -> LockClass {
    if flags & MUTEX != 0 {
        return if flags & SPIN != 0 { LockClass::MutexSpin } else { LockClass::Mutex };
    }
    if flags & RT != 0 {
        return LockClass::RtMutex;
    }
    if flags & PERCPU != 0 {
        return LockClass::PercpuRwsem;
    }
    let read_write = flags & (READ | WRITE) != 0;
    match (flags & SPIN != 0, read_write) {
        (true, true) => LockClass::Rwlock,
        (true, false) => LockClass::Qspinlock,
        (false, true) => LockClass::Rwsem,
        (false, false) => LockClass::Semaphore,
    }
}

#[inline(always)]
fn begin<C: EbpfContext>(ctx: &C, lock: u64, flags: u32) {
    account::begin(ctx, Hook::Contention, class_of(flags), lock);
}

#[inline(always)]
fn end<C: EbpfContext>(ctx: &C, lock: u64) {
    account::end(ctx, Hook::Contention, lock);
}

#[btf_tracepoint(function = "contention_begin")]
fn contention_begin_btf(ctx: BtfTracePointContext) -> i32 {
    begin(&ctx, ctx.arg(0), ctx.arg(1));
    0
}

#[raw_tracepoint(tracepoint = "contention_begin")]
fn contention_begin_raw(ctx: RawTracePointContext) -> i32 {
    begin(&ctx, ctx.arg(0), ctx.arg(1));
    0
}

#[tracepoint]
fn contention_begin_tp(ctx: TracePointContext) -> u32 {
    // SAFETY: the record of lock:contention_begin has these fields at these offsets.
    let (lock, flags) = unsafe { (ctx.read_at(RECORD_LOCK), ctx.read_at(RECORD_FLAGS)) };
    if let (Ok(lock), Ok(flags)) = (lock, flags) {
        begin(&ctx, lock, flags);
    }
    0
}

#[btf_tracepoint(function = "contention_end")]
fn contention_end_btf(ctx: BtfTracePointContext) -> i32 {
    end(&ctx, ctx.arg(0));
    0
}

#[raw_tracepoint(tracepoint = "contention_end")]
fn contention_end_raw(ctx: RawTracePointContext) -> i32 {
    end(&ctx, ctx.arg(0));
    0
}

#[tracepoint]
fn contention_end_tp(ctx: TracePointContext) -> u32 {
    // SAFETY: the record of lock:contention_end has the lock at this offset.
    if let Ok(lock) = unsafe { ctx.read_at(RECORD_LOCK) } {
        end(&ctx, lock);
    }
    0
}
