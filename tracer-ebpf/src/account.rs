//! The accounting: begin and end of waits, charged once, to the innermost.
//!
//! A wait is a frame on a stack: of the traced task, of the CPU's interrupt level, or, for tasks
//! that are not traced, of the CPU (spins) or of `OTHER_OPEN` (sleeps). What a wait took is added
//! to the enclosing frame's `nested_ns`, and only the rest is charged to the enclosing class.

use aya_ebpf::EbpfContext;
use tracer_ebpf::{Frame, LockClass, Loss, WaitStack};

use crate::charge::charge;
use crate::context::{Event, now_ns};
use crate::maps::{OTHER_OPEN, RQ_LOCKS};
use crate::waiter::Waiter;
use crate::{filter, owner, stack, switches};

/// What opened a frame; its own end closes it.
#[repr(u8)]
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Hook {
    Contention = 1,
    Osq = 2,
    MutexOwner = 3,
    RwsemOwner = 4,
    Slowpath = 5,
    /// The slow path of a lock that sleeps, as a whole: its spins nest in it.
    Sleep = 6,
}

static NO_STACK: WaitStack = WaitStack::EMPTY;

/// A wait begins, or an open one enters its next phase (spin → sleep → spin of a mutex).
#[inline(always)]
pub(crate) fn begin<C: EbpfContext>(ctx: &C, hook: Hook, class: LockClass, lock: u64) {
    let Some(event) = Event::enter() else { return };
    begin_in(ctx, &event, hook, class, lock);
    event.leave();
}

#[inline(always)]
fn begin_in<C: EbpfContext>(ctx: &C, event: &Event, hook: Hook, class: LockClass, lock: u64) {
    let mut waiter = Waiter::current(event);
    if filter::is_foreign(waiter.task.is_some()) {
        return;
    }
    drop_cut(event, waiter.stack());
    if is_inside_slowpath(waiter.stack(), hook, lock) {
        return;
    }
    if hook == Hook::Contention
        && let Some(frame) = stack::top(waiter.stack())
        && frame.hook == hook as u8
        && frame.lock == lock
    {
        next_phase(ctx, event, &waiter, frame, class);
        return;
    }
    if may_sleep(hook, class) && waiter.task.is_none() && !waiter.irq && !waiter.borrowed {
        let added = OTHER_OPEN.insert(event.tid, &NO_STACK, 0).is_ok();
        let Some(stack) = OTHER_OPEN.get_ptr_mut(event.tid) else {
            event.lose(Loss::OtherFull);
            return;
        };
        if !added {
            event.lose(Loss::OtherFull);
            return;
        }
        waiter.stack = stack;
    }
    let (lock, class) = identify(waiter.stack(), hook, class, lock);
    waiter.count_begin(event, class);
    owner::wait_begins(event, class, lock);
    let now_ns = now_ns();
    let frame = Frame {
        begin_ns: now_ns,
        nested_ns: 0,
        lock,
        class,
        hook: hook as u8,
        switches: if hook == Hook::Sleep { switches::of_current_task() } else { 0 },
        generation: event.generation,
    };
    if !stack::push(waiter.stack(), frame) {
        event.lose(Loss::NestedTooDeep);
    }
    waiter.tell_clock(event, now_ns);
}

/// A wait ends: the innermost that `hook` opened for this lock (0: whichever lock).
#[inline(always)]
pub(crate) fn end<C: EbpfContext>(ctx: &C, hook: Hook, lock: u64) {
    let ended_ns = now_ns();
    let Some(event) = Event::enter() else { return };
    end_in(ctx, &event, ended_ns, hook, lock);
    event.leave();
}

#[inline(always)]
fn end_in<C: EbpfContext>(ctx: &C, event: &Event, ended_ns: u64, hook: Hook, lock: u64) {
    let waiter = Waiter::current(event);
    if filter::is_foreign(waiter.task.is_some()) {
        return;
    }
    if is_inside_slowpath(waiter.stack(), hook, lock) {
        return;
    }
    let Some(index) = stack::find(waiter.stack(), hook as u8, lock) else {
        event.lose(Loss::UnmatchedEnd);
        return;
    };
    let (mut frame, above) = stack::pop_at(waiter.stack(), index);
    event.cpu().losses[Loss::InferredEnd as usize] += u64::from(above);
    if hook != Hook::Sleep || turned_out(event, &waiter, &mut frame) {
        charge(ctx, event, &waiter, &frame, ended_ns);
    }
    if frame.generation == event.generation {
        owner::wait_ends(event, frame.class, frame.lock, frame.begin_ns, ended_ns);
    }
    waiter.tell_enclosing(event, ended_ns.wrapping_sub(frame.begin_ns));
    waiter.tell_clock(event, ended_ns);
    if waiter.borrowed && waiter.stack().depth == 0 {
        let _ = OTHER_OPEN.remove(event.tid);
    }
}

/// A slow path of a lock that sleeps has been left: did it sleep? A mutex's that did not was all
/// spinning. Others' spins were waits of their own, and the rest is none: false.
#[inline(always)]
fn turned_out(event: &Event, waiter: &Waiter, frame: &mut Frame) -> bool {
    let slept = frame.switches != switches::of_current_task() || !switches::are_known();
    let spun_for_mutex = frame.class == LockClass::MutexSpin as u8;
    if slept == spun_for_mutex {
        waiter.uncount_begin(event, frame.class);
        if !slept {
            return false;
        }
        frame.class = LockClass::Mutex as u8;
        waiter.count_begin(event, frame.class);
    }
    true
}

#[inline(always)]
fn next_phase<C: EbpfContext>(
    ctx: &C,
    event: &Event,
    waiter: &Waiter,
    frame: &mut Frame,
    class: LockClass,
) {
    let ended = *frame;
    let ended_ns = now_ns();
    frame.begin_ns = ended_ns;
    frame.nested_ns = 0;
    frame.class = class as u8;
    frame.generation = event.generation;
    charge(ctx, event, waiter, &ended, ended_ns);
    waiter.tell_enclosing_of_phase(ended_ns.wrapping_sub(ended.begin_ns));
    waiter.count_begin(event, class as u8);
    waiter.tell_clock(event, ended_ns);
}

/// A lock's tracepoints fire inside its slow path: where that is probed as a whole they are the same
/// wait, seen twice.
#[inline(always)]
fn is_inside_slowpath(stack: &mut WaitStack, hook: Hook, lock: u64) -> bool {
    hook == Hook::Contention
        && stack::top(stack)
            .is_some_and(|frame| frame.hook >= Hook::Slowpath as u8 && frame.lock == lock)
}

/// Waits that were open when the gate was shut ended unseen, or will be of no use: they go, so that
/// the stack never holds but what began in this opening.
#[inline(always)]
fn drop_cut(event: &Event, stack: &mut WaitStack) {
    if stack::top(stack).is_some_and(|frame| frame.generation != event.generation) {
        event.cpu().losses[Loss::CutByGate as usize] += u64::from(stack.depth);
        stack.depth = 0;
    }
}

/// A mutex's optimistic spin goes on to sleep: it must be found again on another CPU.
#[inline(always)]
fn may_sleep(hook: Hook, class: LockClass) -> bool {
    hook == Hook::Sleep
        || hook == Hook::Contention && (!class.is_spin() || class == LockClass::MutexSpin)
}

/// The lock's address where the hook does not tell it, and the class where the address decides.
#[inline(always)]
fn identify(stack: &mut WaitStack, hook: Hook, class: LockClass, lock: u64) -> (u64, u8) {
    if hook == Hook::Osq {
        // The osq's own address is inside the mutex: prefer the mutex that is being waited for.
        if let Some(frame) = stack::top(stack)
            && (frame.hook == Hook::Contention as u8 || frame.hook == Hook::Sleep as u8)
        {
            return (frame.lock, class as u8);
        }
    }
    // SAFETY: the value is only tested for being there.
    if class == LockClass::Qspinlock && unsafe { RQ_LOCKS.get(lock) }.is_some() {
        return (lock, LockClass::Rq as u8);
    }
    (lock, class as u8)
}
