//! Which functions are the locks' own code, and the tracer's.

/// Functions that begin like this are inside a lock.
const INTERNAL_PREFIXES: &[&str] = &[
    // Sleeping locks.
    "__down_",
    "__mutex_",
    "__percpu_down_",
    "__percpu_rwsem_",
    "__rt_mutex_",
    "__rwsem_",
    "__up_",
    "__ww_mutex_",
    "down_interruptible",
    "down_killable",
    "down_read",
    "down_timeout",
    "down_write",
    "mmap_read_lock",
    "mmap_write_lock",
    "mutex_",
    "osq_",
    "percpu_down_",
    "percpu_rwsem_",
    "rt_mutex_",
    "rt_read_",
    "rt_spin_",
    "rt_write_",
    "rtlock_",
    "rwbase_",
    "rwsem_",
    "up_read",
    "up_write",
    "ww_mutex_",
    // Spinning locks.
    "__lock_text_",
    "__pv_queued_",
    "__raw_callee_save_",
    "__raw_read_",
    "__raw_spin_",
    "__raw_write_",
    "_raw_read_",
    "_raw_spin_",
    "_raw_write_",
    "do_raw_",
    "native_queued_",
    "pv_wait",
    "queued_",
    "raw_spin_rq_lock",
    "resilient_queued_",
    "virt_spin_lock",
];

/// Functions that begin like this belong to the tracing: a sampled stack begins with them.
const TRACING_PREFIXES: &[&str] = &[
    "__bpf_",
    "__kretprobe_trampoline",
    "__traceiter_",
    "aggr_pre_handler",
    "arch_rethook_",
    "arch_trampoline_kprobe",
    "asm_exc_int3",
    "bpf_",
    "do_int3",
    "exc_int3",
    "ftrace_",
    "kprobe_",
    "kretprobe_",
    "opt_pre_handler",
    "optimized_callback",
    "perf_call_bpf",
    "perf_trace_",
    "rethook_",
    "trace_call_bpf",
    "trace_contention_",
];

/// Functions of exactly this name are inside a lock.
const INTERNAL_NAMES: &[&str] = &["__down", "__up", "down", "kvm_wait", "up", "xen_qlock_wait"];

/// The name as written in the source: compilers append `.isra.0`, `.constprop.0`, `.llvm.…`.
pub(super) fn source_name(function: &str) -> &str {
    function.split('.').next().unwrap_or(function)
}

/// Whether a function belongs to a lock's implementation or to the tracing of it, and so says
/// nothing of who wanted the lock.
pub fn is_lock_internal(function: &str) -> bool {
    let name = source_name(function);
    INTERNAL_NAMES.contains(&name)
        || INTERNAL_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
        || is_tracing(name)
}

/// Whether a function belongs to the tracing itself.
pub(super) fn is_tracing(function: &str) -> bool {
    TRACING_PREFIXES.iter().any(|prefix| function.starts_with(prefix))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_locks_own_code_is_passed_over() {
        for internal in [
            "__mutex_lock.constprop.0",
            "__mutex_lock_slowpath",
            "mutex_lock_interruptible",
            "osq_lock",
            "rwsem_down_write_slowpath",
            "down_write_killable",
            "down_read",
            "native_queued_spin_lock_slowpath",
            "__pv_queued_spin_lock_slowpath",
            "__raw_callee_save___pv_queued_spin_unlock",
            "_raw_spin_lock_irqsave",
            "_raw_write_lock_irq",
            "queued_read_lock_slowpath",
            "do_raw_spin_lock",
            "percpu_down_write",
            "rt_mutex_slowlock.constprop.0",
            "__traceiter_contention_begin",
            "bpf_prog_0123456789abcdef_contention_begin",
            "bpf_trampoline_6442506592",
            "bpf_trace_run2",
            "__bpf_trace_contention_begin",
            "ftrace_trampoline",
            "raw_spin_rq_lock_nested",
            "down",
        ] {
            assert!(is_lock_internal(internal), "{internal}");
        }
    }

    #[test]
    fn callers_are_not() {
        for caller in [
            "pipe_read",
            "futex_wait_setup",
            "__schedule",
            "try_to_wake_up",
            "do_user_addr_fault",
            "upgrade_something",
            "downgrade_page",
            "perf_event_ctx_lock_nested",
            "lockref_get",
        ] {
            assert!(!is_lock_internal(caller), "{caller}");
        }
    }
}
