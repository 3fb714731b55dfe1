//! Not attached to anything: run once on each CPU, to learn where its run queue is.
//!
//! Kernels without data symbols in kallsyms hide `runqueues`, but every task on a CPU points to
//! the CPU's run queue, the idle task too: `current->se.cfs_rq->rq`.

use aya_ebpf::helpers::generated::bpf_get_current_task;
use aya_ebpf::helpers::{bpf_get_smp_processor_id, bpf_probe_read_kernel};
use aya_ebpf::macros::raw_tracepoint;
use aya_ebpf::programs::RawTracePointContext;

use crate::config;
use crate::maps::LEARNT_RQ;

#[inline(always)]
fn pointer_at(base: u64, offset: u32) -> Option<u64> {
    if offset == config::ABSENT {
        return None;
    }
    // SAFETY: the helper checks the address and fails instead of faulting.
    unsafe { bpf_probe_read_kernel((base + u64::from(offset)) as *const u64) }.ok()
}

#[raw_tracepoint]
fn learn_rq(_ctx: RawTracePointContext) -> i32 {
    // SAFETY: a helper without preconditions.
    let task = unsafe { bpf_get_current_task() };
    let rq = pointer_at(task, config::task_cfs_rq_offset())
        .and_then(|cfs_rq| pointer_at(cfs_rq, config::cfs_rq_rq_offset()));
    // SAFETY: a helper without preconditions.
    let cpu = unsafe { bpf_get_smp_processor_id() };
    if let (Some(rq), Some(slot)) = (rq, LEARNT_RQ.get_ptr_mut(cpu)) {
        // SAFETY: a map value, valid while the program runs.
        unsafe { *slot = rq };
    }
    0
}
