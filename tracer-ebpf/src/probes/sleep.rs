//! The slow paths of locks that sleep, for kernels that do not tell of waits (before 5.19).
//!
//! Entry and exit through trampolines only: a kretprobe forgets returns while many tasks sleep in the
//! function.

use aya_ebpf::macros::{fentry, fexit};
use aya_ebpf::programs::{FEntryContext, FExitContext};
use tracer_ebpf::LockClass;

use crate::account::{self, Hook};

/// Two thin programs for a function whose first argument is the lock.
macro_rules! slow_path {
    ($class:expr, $fentry:ident, $fexit:ident) => {
        #[fentry]
        fn $fentry(ctx: FEntryContext) -> i32 {
            account::begin(&ctx, Hook::Sleep, $class, ctx.arg(0));
            0
        }

        #[fexit]
        fn $fexit(ctx: FExitContext) -> i32 {
            account::end(&ctx, Hook::Sleep, ctx.arg(0));
            0
        }
    };
}

// A mutex's begins as spinning; whether it slept is told at its end.
slow_path!(LockClass::MutexSpin, mutex_slowpath_fentry, mutex_slowpath_fexit);
slow_path!(LockClass::MutexSpin, mutex_slowpath2_fentry, mutex_slowpath2_fexit);
slow_path!(LockClass::MutexSpin, mutex_slowpath3_fentry, mutex_slowpath3_fexit);
slow_path!(LockClass::Rwsem, rwsem_slowpath_fentry, rwsem_slowpath_fexit);
slow_path!(LockClass::Rwsem, rwsem_slowpath2_fentry, rwsem_slowpath2_fexit);
slow_path!(LockClass::PercpuRwsem, percpu_rwsem_fentry, percpu_rwsem_fexit);
slow_path!(LockClass::Semaphore, semaphore_fentry, semaphore_fexit);
