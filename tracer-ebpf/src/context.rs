//! What every program starts with: is the gate open, is this CPU free, in which context are we.

use core::ptr;

use aya_ebpf::helpers::{bpf_get_current_pid_tgid, bpf_ktime_get_ns, bpf_probe_read_kernel};
use tracer_ebpf::{CpuAccount, Gate, Loss, TaskAccount};

use crate::maps::{CPUS, GATE, TASKS};

const NMI_MASK: u32 = 0x00f0_0000;
const HARDIRQ_MASK: u32 = 0x000f_0000;
/// Set only while a softirq is served; disabling softirqs counts in steps of twice this.
const SOFTIRQ_SERVING: u32 = 0x0000_0100;

/// CLOCK_MONOTONIC. A wait's end asks first thing, its begin last thing: the programs' own time is
/// then in no wait.
#[inline(always)]
pub(crate) fn now_ns() -> u64 {
    // SAFETY: a helper without preconditions.
    unsafe { bpf_ktime_get_ns() }
}

/// The gate, if it is open: whether the programs are to count at all.
///
/// A copy, so that one event sees one gate. A clock that finds the gate shut in the middle of an event
/// would take that for another opening, and charge all of this one once more.
#[inline(always)]
pub(crate) fn open_gate() -> Option<Gate> {
    let gate = GATE.get_ptr(0)?;
    // SAFETY: a map value, valid while the program runs, which the user side writes meanwhile: each
    // word is read once.
    let (generation, opened_ns) = unsafe {
        (
            ptr::read_volatile(&raw const (*gate).generation),
            ptr::read_volatile(&raw const (*gate).opened_ns),
        )
    };
    (generation != 0).then_some(Gate { generation, opened_ns })
}

/// Counts a loss of a program that has no event of its own.
#[inline(always)]
pub(crate) fn lose(loss: Loss) {
    if let Some(event) = Event::enter() {
        event.lose(loss);
        event.leave();
    }
}

/// One event on one CPU. While it lives, no other program of ours runs its accounting here.
pub(crate) struct Event {
    pub(crate) cpu: *mut CpuAccount,
    pub(crate) gate: Gate,
    /// The gate's, as waits carry it.
    pub(crate) generation: u32,
    pub(crate) tid: u32,
    pub(crate) tgid: u32,
}

impl Event {
    /// `None` while the gate is shut, or when one of our programs is running on this CPU already.
    #[inline(always)]
    pub(crate) fn enter() -> Option<Event> {
        let gate = open_gate()?;
        let cpu = CPUS.get_ptr_mut(0)?;
        // SAFETY: a map value, valid while the program runs; only this CPU touches it.
        let account = unsafe { &mut *cpu };
        if account.busy != 0 {
            account.losses[Loss::SelfInflicted as usize] += 1;
            return None;
        }
        account.busy = 1;
        let pid_tgid = bpf_get_current_pid_tgid();
        Some(Event {
            cpu,
            gate,
            generation: gate.generation as u32,
            tid: pid_tgid as u32,
            tgid: (pid_tgid >> 32) as u32,
        })
    }

    /// Frees the CPU for the next event. Not a `Drop`: the verifier of 5.10 wants straight lines.
    #[inline(always)]
    pub(crate) fn leave(self) {
        self.cpu().busy = 0;
    }

    #[inline(always)]
    #[expect(clippy::mut_from_ref, reason = "`busy` makes this event the only user of the value")]
    pub(crate) fn cpu(&self) -> &mut CpuAccount {
        // SAFETY: a map value, valid while the program runs; `busy` keeps other programs out.
        unsafe { &mut *self.cpu }
    }

    #[inline(always)]
    pub(crate) fn lose(&self, loss: Loss) {
        self.cpu().losses[loss as usize] += 1;
    }

    /// The current task's account, if it is traced.
    #[inline(always)]
    pub(crate) fn task(&self) -> Option<*mut TaskAccount> {
        TASKS.get_ptr_mut(self.tid)
    }

    /// 0 in a task, 1 in a softirq, 2 in a hardirq, 3 in an NMI.
    #[inline(always)]
    pub(crate) fn irq_level(&self) -> u32 {
        let address = self.cpu().preempt_count_address;
        if address == 0 {
            return 0;
        }
        // SAFETY: the helper checks the address and fails instead of faulting.
        let Ok(count) = (unsafe { bpf_probe_read_kernel(address as *const u32) }) else { return 0 };
        if count & NMI_MASK != 0 {
            3
        } else if count & HARDIRQ_MASK != 0 {
            2
        } else if count & SOFTIRQ_SERVING != 0 {
            1
        } else {
            0
        }
    }
}
