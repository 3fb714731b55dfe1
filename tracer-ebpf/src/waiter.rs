//! Whose a wait is: a task's, a CPU's, an interrupt's.

use tracer_ebpf::{CLASS_COUNT, Side, TaskAccount, WaitStack, WaitStats};

use crate::context::Event;
use crate::maps::OTHER_OPEN;
use crate::{clock, stack};

/// Whose stack a wait is on.
pub(crate) struct Waiter {
    pub(crate) stack: *mut WaitStack,
    /// The current task's account, if it is traced (also in interrupts).
    pub(crate) task: Option<*mut TaskAccount>,
    pub(crate) irq: bool,
    /// The stack is an entry of `OTHER_OPEN` that goes when it is empty.
    pub(crate) borrowed: bool,
}

impl Waiter {
    #[inline(always)]
    pub(crate) fn current(event: &Event) -> Waiter {
        let task = event.task();
        let level = event.irq_level();
        if level > 0 {
            let stacks = &mut event.cpu().open_irq;
            let index = core::hint::black_box(u64::from(level - 1).min(stacks.len() as u64 - 1));
            // SAFETY: just cut down to the last index. One path for the verifier instead of three.
            let stack = unsafe { &raw mut *stacks.get_unchecked_mut(index as usize) };
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
    pub(crate) fn stack(&self) -> &mut WaitStack {
        // SAFETY: a map value, valid while the program runs; see `Event::cpu`.
        unsafe { &mut *self.stack }
    }

    #[inline(always)]
    pub(crate) fn side(&self) -> u8 {
        match self.task {
            // SAFETY: a map value, valid while the program runs.
            Some(account) => unsafe { (*account).side },
            None => Side::Other as u8,
        }
    }

    /// The task's spins have changed: its clock goes on in another state.
    #[inline(always)]
    pub(crate) fn tell_clock(&self, event: &Event, now_ns: u64) {
        if !self.irq
            && let Some(account) = self.task
        {
            // SAFETY: a map value, valid while the program runs; the task is current, so nobody
            // else moves its clock.
            clock::spin(&event.gate, unsafe { &mut *account }, now_ns);
        }
    }

    /// The waits of a class that this waiter's are added to; `None` in interrupts.
    #[inline(always)]
    #[expect(clippy::mut_from_ref, reason = "`busy` makes this event the only user of the value")]
    pub(crate) fn stats<'a>(&'a self, event: &'a Event, class: u8) -> Option<&'a mut WaitStats> {
        if self.irq {
            return None;
        }
        match self.task {
            // SAFETY: as above.
            Some(account) => unsafe { of_class(&mut (*account).waits, class) },
            None => of_class(&mut event.cpu().other_waits, class),
        }
    }

    #[inline(always)]
    pub(crate) fn count_begin(&self, event: &Event, class: u8) {
        match self.stats(event, class) {
            Some(stats) => stats.begin_count += 1,
            None => event.cpu().irq_begin_count += 1,
        }
    }

    /// What began was no wait of this class. Slow paths of locks that sleep are none of interrupts'.
    #[inline(always)]
    pub(crate) fn uncount_begin(&self, event: &Event, class: u8) {
        if let Some(stats) = self.stats(event, class) {
            stats.begin_count -= 1;
        }
    }

    /// The enclosing wait does not get what this one took; an interrupt's goes to the task's wait.
    #[inline(always)]
    pub(crate) fn tell_enclosing(&self, event: &Event, elapsed_ns: u64) {
        if let Some(frame) = stack::top(self.stack()) {
            frame.nested_ns += elapsed_ns;
            return;
        }
        if !self.irq {
            return;
        }
        let interrupted = match self.task {
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
    pub(crate) fn tell_enclosing_of_phase(&self, elapsed_ns: u64) {
        let stack = self.stack();
        if let Some(frame) = stack::below_top(stack) {
            frame.nested_ns += elapsed_ns;
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
