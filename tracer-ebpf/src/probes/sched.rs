//! Who has a CPU, who waits for one, who sleeps: `sched_switch` and `sched_waking`.
//!
//! These run more often than any other hook, so they look at nothing but the gate, the tids and
//! the accounts. They need not claim the CPU (`busy`): interrupts are off in both, and they write
//! nothing but the clocks of tasks that another program on this CPU does not write: the task that
//! is woken is not the current one, but for its flag `woken`.

use aya_ebpf::EbpfContext;
use aya_ebpf::helpers::bpf_probe_read_kernel;
use aya_ebpf::helpers::generated::bpf_get_current_task;
use aya_ebpf::macros::{btf_tracepoint, raw_tracepoint, tracepoint};
use aya_ebpf::programs::{BtfTracePointContext, RawTracePointContext, TracePointContext};
use tracer_ebpf::{Gate, TaskAccount};

use crate::account::Hook;
use crate::context::{now_ns, open_gate};
use crate::maps::TASKS;
use crate::{clock, config, owner, stack};

/// A `task_struct`. `Typed` may be read directly, the verifier knows what it is.
#[derive(Clone, Copy)]
enum Task {
    Typed(u64),
    Untyped(u64),
    /// Only the tid is known.
    Tid(u32),
}

impl Task {
    /// A member of 32 bits.
    #[inline(always)]
    fn u32(self, offset: u32) -> Option<u32> {
        match self {
            _ if offset == config::ABSENT => None,
            Task::Typed(task) => {
                let member = (task + u64::from(offset)) as *const u32;
                // SAFETY: the verifier has checked that this offset of the struct may be read.
                Some(unsafe { core::ptr::read_volatile(member) })
            }
            Task::Untyped(task) => read(task, offset),
            Task::Tid(_) => None,
        }
    }

    /// The low byte of a member, whose width differs by kernel: `on_rq` is a byte since 7.x.
    #[inline(always)]
    fn low_byte(self, offset: u32) -> Option<u8> {
        match self {
            _ if offset == config::ABSENT => None,
            Task::Typed(task) => {
                let member = (task + u64::from(offset)) as *const u8;
                // SAFETY: the verifier has checked that this offset of the struct may be read.
                Some(unsafe { core::ptr::read_volatile(member) })
            }
            Task::Untyped(task) => read(task, offset),
            Task::Tid(_) => None,
        }
    }

    /// A byte, also of a bit field.
    #[inline(always)]
    fn byte(self, offset: u32) -> Option<u8> {
        read(self.address()?, offset)
    }

    #[inline(always)]
    fn tid(self) -> Option<u32> {
        match self {
            Task::Tid(tid) => Some(tid),
            _ => self.u32(config::task_pid_offset()),
        }
    }

    #[inline(always)]
    fn address(self) -> Option<u64> {
        match self {
            Task::Typed(task) | Task::Untyped(task) => Some(task),
            Task::Tid(_) => None,
        }
    }

    /// Whether it has left its run queue, or is on it only in name. Unknown counts as left.
    #[inline(always)]
    fn has_left_run_queue(self) -> bool {
        self.low_byte(config::task_on_rq_offset()).is_none_or(|on_rq| on_rq == 0)
            || self.byte(config::task_sched_delayed_offset()).is_some_and(|delayed| delayed != 0)
    }

    #[inline(always)]
    fn is_in_iowait(self) -> bool {
        self.byte(config::task_in_iowait_offset())
            .is_some_and(|byte| byte & config::task_in_iowait_mask() != 0)
    }

    /// Whether its group, or one above it, has used up its CPU bandwidth.
    #[inline(always)]
    fn is_throttled(self) -> bool {
        let count = || {
            let cfs_rq = read::<u64>(self.address()?, config::task_cfs_rq_offset())?;
            read::<u32>(cfs_rq, config::cfs_rq_throttle_count_offset())
        };
        count().is_some_and(|count| count != 0)
    }
}

#[inline(always)]
fn read<T>(base: u64, offset: u32) -> Option<T> {
    if offset == config::ABSENT {
        return None;
    }
    // SAFETY: the helper checks the address and fails instead of faulting.
    unsafe { bpf_probe_read_kernel((base + u64::from(offset)) as *const T) }.ok()
}

/// An account that still counts.
#[inline(always)]
fn account(tid: u32) -> Option<&'static mut TaskAccount> {
    // The idle tasks of all CPUs have tid 0.
    if tid == 0 {
        return None;
    }
    let account = TASKS.get_ptr_mut(tid)?;
    // SAFETY: a map value, valid while the program runs; see the module's comment on its writers.
    let account = unsafe { &mut *account };
    (account.exited == 0).then_some(account)
}

#[inline(always)]
fn switched<C: EbpfContext>(
    ctx: &C,
    prev: Task,
    next: Task,
    stays_runnable: impl FnOnce() -> bool,
) {
    let Some(gate) = open_gate() else { return };
    let now_ns = now_ns();
    let (Some(prev_tid), Some(next_tid)) = (prev.tid(), next.tid()) else { return };
    if let Some(account) = account(prev_tid) {
        leaves(&gate, account, now_ns, prev, stays_runnable());
    }
    if let Some(account) = account(next_tid) {
        arrives(&gate, account, now_ns, prev_tid == 0);
    }
    // Whatever else wants to know of a switch is called here, with both tasks.
    owner::on_switch(ctx, prev_tid);
}

#[inline(always)]
fn leaves(gate: &Gate, account: &mut TaskAccount, now_ns: u64, task: Task, stays_runnable: bool) {
    let born_ns = account.since_ns;
    if stays_runnable {
        account.clock.preempt(gate, born_ns, now_ns, task.is_throttled());
    } else {
        let state = clock::asleep_state(gate, account, || task.is_in_iowait());
        account.clock.sleep(gate, born_ns, now_ns, state);
    }
}

#[inline(always)]
fn arrives(gate: &Gate, account: &mut TaskAccount, now_ns: u64, was_idle: bool) {
    let state = clock::on_cpu_state(gate, account);
    let runnable_ns = account.clock.run(gate, account.since_ns, now_ns, was_idle, state);
    // A spinner that was switched out did not spin meanwhile.
    if let Some(class) = state.spin_class()
        && let Some(frame) = stack::top(&mut account.open)
        && frame.class == class
        && frame.hook != Hook::Sleep as u8
    {
        frame.nested_ns += runnable_ns;
    }
}

#[inline(always)]
fn waking(task: Task) {
    let Some(gate) = open_gate() else { return };
    let Some(account) = task.tid().and_then(account) else { return };
    account.clock.wake(&gate, account.since_ns, now_ns(), || task.has_left_run_queue());
}

/// `(bool preempt, struct task_struct *prev, *next[, unsigned int prev_state])`
#[btf_tracepoint(function = "sched_switch")]
fn sched_switch_btf(ctx: BtfTracePointContext) -> i32 {
    let prev = Task::Typed(ctx.arg(1));
    switched(&ctx, prev, Task::Typed(ctx.arg(2)), || {
        ctx.arg::<u32>(0) as u8 != 0 || {
            let state = match config::switch_tells_state() {
                true => Some(ctx.arg::<u32>(3)),
                false => prev.u32(config::task_state_offset()),
            };
            state == Some(0)
        }
    });
    0
}

#[raw_tracepoint(tracepoint = "sched_switch")]
fn sched_switch_raw(ctx: RawTracePointContext) -> i32 {
    let prev = Task::Untyped(ctx.arg(1));
    switched(&ctx, prev, Task::Untyped(ctx.arg(2)), || {
        ctx.arg::<u32>(0) as u8 != 0 || {
            let state = match config::switch_tells_state() {
                true => Some(ctx.arg::<u32>(3)),
                false => prev.u32(config::task_state_offset()),
            };
            state == Some(0)
        }
    });
    0
}

// Offsets in the classic records, behind the common header of 8 bytes: prev_comm[16], prev_pid,
// prev_prio, prev_state (a long), next_comm[16], next_pid; and comm[16], pid.
const SWITCH_PREV_STATE: usize = 32;
const SWITCH_NEXT_PID: usize = 56;
const WAKING_PID: usize = 24;
/// The states that the record reports, and above them the mark of a preempted task.
const REPORTED_STATES: u64 = 0xff;

#[tracepoint]
fn sched_switch_tp(ctx: TracePointContext) -> u32 {
    // SAFETY: the record has these fields at these offsets.
    let (state, next) =
        unsafe { (ctx.read_at::<u64>(SWITCH_PREV_STATE), ctx.read_at(SWITCH_NEXT_PID)) };
    if let (Ok(state), Ok(next)) = (state, next) {
        // SAFETY: a helper without preconditions; the current task is the one that leaves.
        let prev = Task::Untyped(unsafe { bpf_get_current_task() });
        let prev = match config::task_pid_offset() {
            config::ABSENT => Task::Tid(aya_ebpf::helpers::bpf_get_current_pid_tgid() as u32),
            _ => prev,
        };
        switched(&ctx, prev, Task::Tid(next), || {
            state & REPORTED_STATES == 0 || state > REPORTED_STATES
        });
    }
    0
}

#[btf_tracepoint(function = "sched_waking")]
fn sched_waking_btf(ctx: BtfTracePointContext) -> i32 {
    waking(Task::Typed(ctx.arg(0)));
    0
}

#[raw_tracepoint(tracepoint = "sched_waking")]
fn sched_waking_raw(ctx: RawTracePointContext) -> i32 {
    waking(Task::Untyped(ctx.arg(0)));
    0
}

/// The record does not tell whether the task has left its run queue already.
#[tracepoint]
fn sched_waking_tp(ctx: TracePointContext) -> u32 {
    // SAFETY: the record has the tid at this offset.
    if let Ok(tid) = unsafe { ctx.read_at(WAKING_PID) } {
        waking(Task::Tid(tid));
    }
    0
}
