//! The accounting: begin and end of waits, charged once, to the innermost.
//!
//! A wait is a frame on a stack: of the traced task, of the CPU's interrupt level, or, for tasks
//! that are not traced, of the CPU (spins) or of `OTHER_OPEN` (sleeps). What a wait took is added
//! to the enclosing frame's `nested_ns`, and only the rest is charged to the enclosing class.

use aya_ebpf::EbpfContext;
use tracer_ebpf::{
    CLASS_COUNT, Frame, HISTOGRAM_BUCKETS, LockClass, LockKey, Loss, Side, TaskAccount, WaitStack,
    WaitStats,
};

use crate::context::{Event, now_ns};
use crate::maps::{LOCKS, OTHER_OPEN, RQ_LOCKS};
use crate::{clock, filter, identity, owner, sample, stack};

/// What opened a frame; its own end closes it.
#[repr(u8)]
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Hook {
    Contention = 1,
    Osq = 2,
    MutexOwner = 3,
    RwsemOwner = 4,
    Slowpath = 5,
}

static NO_WAITS: WaitStats = WaitStats::ZERO;
static NO_STACK: WaitStack = WaitStack::EMPTY;

/// Whose stack a wait is on.
struct Waiter {
    stack: *mut WaitStack,
    /// The current task's account, if it is traced (also in interrupts).
    task: Option<*mut TaskAccount>,
    irq: bool,
    /// The stack is an entry of `OTHER_OPEN` that goes when it is empty.
    borrowed: bool,
}

impl Waiter {
    #[inline(always)]
    fn current(event: &Event) -> Waiter {
        let task = event.task();
        let level = event.irq_level();
        if level > 0 {
            let stack = match level {
                1 => &raw mut event.cpu().open_irq[0],
                2 => &raw mut event.cpu().open_irq[1],
                _ => &raw mut event.cpu().open_irq[2],
            };
            return Waiter { stack, task, irq: true, borrowed: false };
        }
        if let Some(account) = task {
            // SAFETY: a map value, valid while the program runs.
            let stack = unsafe { &raw mut (*account).open };
            return Waiter { stack, task, irq: false, borrowed: false };
        }
        if let Some(stack) = OTHER_OPEN.get_ptr_mut(event.tid) {
            return Waiter { stack, task, irq: false, borrowed: true };
        }
        Waiter { stack: &raw mut event.cpu().open, task, irq: false, borrowed: false }
    }

    #[inline(always)]
    #[expect(clippy::mut_from_ref, reason = "`busy` makes this event the only user of the value")]
    fn stack(&self) -> &mut WaitStack {
        // SAFETY: a map value, valid while the program runs; see `Event::cpu`.
        unsafe { &mut *self.stack }
    }

    #[inline(always)]
    fn side(&self) -> u8 {
        match self.task {
            // SAFETY: a map value, valid while the program runs.
            Some(account) => unsafe { (*account).side },
            None => Side::Other as u8,
        }
    }

    /// The task's spins have changed: its clock goes on in another state.
    #[inline(always)]
    fn tell_clock(&self, event: &Event, now_ns: u64) {
        if !self.irq
            && let Some(account) = self.task
        {
            // SAFETY: a map value, valid while the program runs; the task is current, so nobody
            // else moves its clock.
            clock::spin(event.gate, unsafe { &mut *account }, now_ns);
        }
    }

    /// The waits of a class that this waiter's are added to; `None` in interrupts.
    #[inline(always)]
    #[expect(clippy::mut_from_ref, reason = "`busy` makes this event the only user of the value")]
    fn stats<'a>(&'a self, event: &'a Event, class: u8) -> Option<&'a mut WaitStats> {
        if self.irq {
            return None;
        }
        match self.task {
            // SAFETY: as above.
            Some(account) => unsafe { of_class(&mut (*account).waits, class) },
            None => of_class(&mut event.cpu().other_waits, class),
        }
    }
}

/// The waits of a class. `black_box` makes one 64-bit register of the index, for the compiler likes to
/// compare one copy and to use another, whose bound some verifiers then do not know.
#[inline(always)]
fn of_class(waits: &mut [WaitStats; CLASS_COUNT], class: u8) -> Option<&mut WaitStats> {
    let index = core::hint::black_box(u64::from(class));
    if index >= CLASS_COUNT as u64 {
        return None;
    }
    // SAFETY: just compared with the array's length.
    Some(unsafe { waits.get_unchecked_mut(index as usize) })
}

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
    count_begin(event, &waiter, class);
    owner::wait_begins(event, class, lock);
    let now_ns = now_ns();
    let frame = Frame {
        begin_ns: now_ns,
        nested_ns: 0,
        lock,
        class,
        hook: hook as u8,
        pad: [0; 2],
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
    let (frame, above) = stack::pop_at(waiter.stack(), index);
    event.cpu().losses[Loss::InferredEnd as usize] += u64::from(above);
    charge(ctx, event, &waiter, &frame, ended_ns);
    if frame.generation == event.generation {
        owner::wait_ends(event, frame.class, frame.lock, frame.begin_ns, ended_ns);
    }
    tell_enclosing(event, &waiter, ended_ns.wrapping_sub(frame.begin_ns));
    waiter.tell_clock(event, ended_ns);
    if waiter.borrowed && waiter.stack().depth == 0 {
        let _ = OTHER_OPEN.remove(event.tid);
    }
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
    tell_enclosing_of_phase(waiter, ended_ns.wrapping_sub(ended.begin_ns));
    count_begin(event, waiter, class as u8);
    waiter.tell_clock(event, ended_ns);
}

/// The queued spinlock's tracepoints fire inside its slow path: where that is probed as a whole
/// they are the same wait, seen twice.
#[inline(always)]
fn is_inside_slowpath(stack: &mut WaitStack, hook: Hook, lock: u64) -> bool {
    hook == Hook::Contention
        && stack::top(stack)
            .is_some_and(|frame| frame.hook == Hook::Slowpath as u8 && frame.lock == lock)
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
    hook == Hook::Contention && (!class.is_spin() || class == LockClass::MutexSpin)
}

/// The lock's address where the hook does not tell it, and the class where the address decides.
#[inline(always)]
fn identify(stack: &mut WaitStack, hook: Hook, class: LockClass, lock: u64) -> (u64, u8) {
    if hook == Hook::Osq {
        // The osq's own address is inside the mutex: prefer the mutex that is being waited for.
        if let Some(frame) = stack::top(stack)
            && frame.hook == Hook::Contention as u8
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

#[inline(always)]
fn count_begin(event: &Event, waiter: &Waiter, class: u8) {
    match waiter.stats(event, class) {
        Some(stats) => stats.begin_count += 1,
        None => event.cpu().irq_begin_count += 1,
    }
}

/// Adds an ended wait (or phase) to its class and to its lock, less what nested waits took.
#[inline(always)]
fn charge<C: EbpfContext>(ctx: &C, event: &Event, waiter: &Waiter, frame: &Frame, ended_ns: u64) {
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
            clock::interrupt(event.gate, account, ended_ns, wait_ns);
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
    let bucket = core::hint::black_box(log2(wait_ns)) & (HISTOGRAM_BUCKETS as u32 - 1);
    // SAFETY: masked to the array's length.
    unsafe { *stats.histogram.get_unchecked_mut(bucket as usize) += 1 };
}

/// Floor of the binary logarithm, at most the last bucket. BPF has no count-leading-zeros.
#[inline(always)]
fn log2(value: u64) -> u32 {
    if value >> (HISTOGRAM_BUCKETS - 1) != 0 {
        return HISTOGRAM_BUCKETS as u32 - 1;
    }
    let mut rest = value as u32;
    let mut log = 0;
    if rest >= 1 << 16 {
        rest >>= 16;
        log += 16;
    }
    if rest >= 1 << 8 {
        rest >>= 8;
        log += 8;
    }
    if rest >= 1 << 4 {
        rest >>= 4;
        log += 4;
    }
    if rest >= 1 << 2 {
        rest >>= 2;
        log += 2;
    }
    if rest >= 1 << 1 {
        log += 1;
    }
    log
}

/// The enclosing wait does not get what this one took; an interrupt's goes to the task's wait.
#[inline(always)]
fn tell_enclosing(event: &Event, waiter: &Waiter, elapsed_ns: u64) {
    if let Some(frame) = stack::top(waiter.stack()) {
        frame.nested_ns += elapsed_ns;
        return;
    }
    if !waiter.irq {
        return;
    }
    let interrupted = match waiter.task {
        // SAFETY: a map value, valid while the program runs.
        Some(account) => unsafe { &mut (*account).open },
        None => &mut event.cpu().open,
    };
    if let Some(frame) = stack::top(interrupted) {
        frame.nested_ns += elapsed_ns;
    }
}

/// As `tell_enclosing`, for a phase: the frame itself stays on top, its enclosing is one below.
#[inline(always)]
fn tell_enclosing_of_phase(waiter: &Waiter, elapsed_ns: u64) {
    let stack = waiter.stack();
    if let Some(frame) = stack::below_top(stack) {
        frame.nested_ns += elapsed_ns;
    }
}
