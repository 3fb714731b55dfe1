//! Spins that have a function of their own: entry opens the wait, return closes it.

use aya_ebpf::macros::{fentry, fexit, kprobe, kretprobe};
use aya_ebpf::programs::{FEntryContext, FExitContext, ProbeContext, RetProbeContext};
use tracer_ebpf::LockClass;

use crate::account::{self, Hook};
use crate::context::Event;

/// Four thin programs for a function whose first argument is the lock (or lies inside it).
macro_rules! spin_function {
    ($hook:expr, $class:expr, $fentry:ident, $fexit:ident, $kprobe:ident, $kretprobe:ident) => {
        #[fentry]
        fn $fentry(ctx: FEntryContext) -> i32 {
            account::begin(&ctx, $hook, $class, ctx.arg(0));
            0
        }

        #[fexit]
        fn $fexit(ctx: FExitContext) -> i32 {
            account::end(&ctx, $hook, 0);
            0
        }

        #[kprobe]
        fn $kprobe(ctx: ProbeContext) -> u32 {
            if let Some(lock) = ctx.arg::<u64>(0) {
                account::begin(&ctx, $hook, $class, lock);
            }
            0
        }

        #[kretprobe]
        fn $kretprobe(ctx: RetProbeContext) -> u32 {
            account::end(&ctx, $hook, 0);
            0
        }
    };
}

spin_function!(
    Hook::Osq,
    LockClass::Osq,
    osq_lock_fentry,
    osq_lock_fexit,
    osq_lock_kprobe,
    osq_lock_kretprobe
);
spin_function!(
    Hook::MutexOwner,
    LockClass::MutexOwner,
    mutex_spin_on_owner_fentry,
    mutex_spin_on_owner_fexit,
    mutex_spin_on_owner_kprobe,
    mutex_spin_on_owner_kretprobe
);
spin_function!(
    Hook::RwsemOwner,
    LockClass::RwsemOwner,
    rwsem_spin_on_owner_fentry,
    rwsem_spin_on_owner_fexit,
    rwsem_spin_on_owner_kprobe,
    rwsem_spin_on_owner_kretprobe
);
// A kernel may have two variants (native_ and __pv_), of which only one runs on a machine: an
// fentry program hangs on one function, so each has a set of its own.
spin_function!(
    Hook::Slowpath,
    LockClass::Qspinlock,
    queued_spin_lock_slowpath_fentry,
    queued_spin_lock_slowpath_fexit,
    queued_spin_lock_slowpath_kprobe,
    queued_spin_lock_slowpath_kretprobe
);
spin_function!(
    Hook::Slowpath,
    LockClass::Qspinlock,
    queued_spin_lock_slowpath2_fentry,
    queued_spin_lock_slowpath2_fexit,
    queued_spin_lock_slowpath2_kprobe,
    queued_spin_lock_slowpath2_kretprobe
);
spin_function!(
    Hook::Slowpath,
    LockClass::Rwlock,
    read_lock_slowpath_fentry,
    read_lock_slowpath_fexit,
    read_lock_slowpath_kprobe,
    read_lock_slowpath_kretprobe
);
spin_function!(
    Hook::Slowpath,
    LockClass::Rwlock,
    write_lock_slowpath_fentry,
    write_lock_slowpath_fexit,
    write_lock_slowpath_kprobe,
    write_lock_slowpath_kretprobe
);

/// Counts run-queue lock acquisitions, contended or not (only on request).
#[inline(always)]
fn rq_acquired() {
    let Some(event) = Event::enter() else { return };
    match event.task() {
        // SAFETY: a map value, valid while the program runs.
        Some(account) => unsafe { (*account).rq_acquire_count += 1 },
        None => event.cpu().other_rq_acquire_count += 1,
    }
    event.leave();
}

#[fentry]
fn raw_spin_rq_lock_nested_fentry(_ctx: FEntryContext) -> i32 {
    rq_acquired();
    0
}

#[kprobe]
fn raw_spin_rq_lock_nested_kprobe(_ctx: ProbeContext) -> u32 {
    rq_acquired();
    0
}
