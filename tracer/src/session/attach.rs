//! From the running kernel to attached programs.

use super::Session;
use super::watch::Watch;
use crate::collect::possible_cpus;
use crate::filter::WaitFilter;
use crate::kernel::btf::Btf;
use crate::kernel::layout::{MEMORY_SYMBOLS, inode_offsets, layout as kernel_layout};
use crate::kernel::percpu::RunQueueLayout;
use crate::kernel::running;
use crate::kernel::scheduling::SchedulingLayout;
use crate::kernel::symbols::Listing;
use crate::kernel::tracefs::{field_offset, with_tracefs};
use crate::load::cpus::CpuList;
use crate::probe::{
    AttachPlan, IdentityNeeds, Limits, Offsets, PerCpuAddresses, TraceError, Tracer,
};

/// What the user may set.
#[derive(Clone, Debug, Default)]
pub struct AttachOptions {
    /// Count nothing of tasks that have no account.
    pub only_tasks: bool,
    /// Which waits are counted by lock.
    pub waits: WaitFilter,
    /// Waits at least this long are sampled with their stack.
    pub sample_threshold_ns: Option<u64>,
    /// Of shorter waits, one in this many (0: none).
    pub sample_every: Option<u32>,
    /// Pass on what the programs log.
    pub bpf_log: bool,
    /// Tasks that have room in the table.
    pub tasks: Option<u32>,
    /// Locks (by class and side) that have room.
    pub locks: Option<u32>,
    /// Sets of latency buckets; one by default.
    pub latency_sets: Option<u32>,
    /// Bytes of the ring of samples.
    pub ring_bytes: Option<u32>,
    /// Samples a second and CPU of who runs where; `None` = no profile.
    pub sampling_hz: Option<u64>,
    /// Count hardware events and the kernel's own counters.
    pub counters: bool,
}

/// Attaches the plan's programs, with the gate shut.
///
/// # Errors
/// See [`TraceError`].
pub fn attach(plan: AttachPlan, options: &AttachOptions) -> Result<Session, TraceError> {
    // Without BTF the offsets are absent, and the plan has said what that loses.
    let btf = running().btf.as_ref().ok();
    let symbols = &running().symbols;
    // Some kernels' BTF has no per-CPU variables; kallsyms may have them.
    let layout = btf.map(RunQueueLayout::from_btf).unwrap_or_default();
    let layout = layout.with_symbols(symbols);
    // Per-CPU maps hold a copy for each possible CPU, whichever this process may run on.
    let cpus = possible_cpus().map_err(|source| TraceError::Map {
        map: "LOCKS",
        action: "sized",
        source,
    })?;
    let mut limits = Limits::for_cpus(cpus);
    limits.sample_threshold_ns = options.sample_threshold_ns.unwrap_or(limits.sample_threshold_ns);
    limits.sample_every = options.sample_every.unwrap_or(limits.sample_every);
    limits.tasks = options.tasks.unwrap_or(limits.tasks);
    limits.locks = options.locks.unwrap_or(limits.locks);
    limits.ring_bytes = options.ring_bytes.unwrap_or(limits.ring_bytes);
    limits.latency_sets = options.latency_sets.unwrap_or(limits.latency_sets);
    limits.only_tasks = options.only_tasks;
    limits.class_mask = options.waits.class_mask();
    limits.min_wait_ns = options.waits.min_wait_ns;
    limits.bpf_log_level = if options.bpf_log { log::Level::Info as u8 } else { 0 };
    let needs = identity_needs(btf, symbols);
    let offsets = offsets(btf, &layout);
    let tracer = Tracer::attach(&plan, offsets, limits, &needs, |run_queues| {
        per_cpu(&layout, run_queues, options.waits.cpus.as_ref())
    })?;
    Ok(Session::new(tracer, plan, Watch::open(options)))
}

fn identity_needs(btf: Option<&Btf>, symbols: &Listing) -> IdentityNeeds {
    let Some(btf) = btf else { return IdentityNeeds::default() };
    let [page_offset, vmemmap, node_data] = MEMORY_SYMBOLS.map(|name| symbols.address(name));
    let offset = |path| btf.offset(path).ok();
    IdentityNeeds {
        layout: kernel_layout(btf),
        inode_caches: inode_offsets(btf),
        base_symbols: page_offset.zip(vmemmap),
        node_data,
        stack_pages: offset("task_struct.stack_vm_area").zip(offset("vm_struct.pages")),
        memory_bytes: memory_bytes(),
    }
}

/// 0 where the system does not tell.
fn memory_bytes() -> u64 {
    nix::sys::sysinfo::sysinfo().map_or(0, |info| info.ram_total())
}

fn offsets(btf: Option<&Btf>, layout: &RunQueueLayout) -> Offsets {
    let offset = |path| btf.and_then(|btf| btf.offset(path).ok());
    Offsets {
        task_pid: offset("task_struct.pid"),
        task_tgid: offset("task_struct.tgid"),
        task_nvcsw: offset("task_struct.nvcsw"),
        plug_rq_count: offset("blk_plug.rq_count"),
        task_cfs_rq: layout.task_cfs_rq,
        cfs_rq_rq: layout.cfs_rq_rq,
        mutex_owner: offset("mutex.owner"),
        rwsem_owner: offset("rw_semaphore.owner"),
        fork_child_pid: with_tracefs(|| field_offset("sched:sched_process_fork", "child_pid")),
        scheduling: btf.map(SchedulingLayout::from_btf).unwrap_or_default(),
    }
}

/// 0 stands for "not learnt" in the argument and for "not known" in the result.
fn per_cpu(
    layout: &RunQueueLayout,
    run_queues: &[u64],
    counted: Option<&CpuList>,
) -> PerCpuAddresses {
    let known = |address: fn(&RunQueueLayout, u64) -> Option<u64>| {
        run_queues
            .iter()
            .map(|rq| if *rq == 0 { 0 } else { address(layout, *rq).unwrap_or(0) })
            .collect()
    };
    PerCpuAddresses {
        preempt_counts: known(RunQueueLayout::preempt_count_address),
        rq_locks: known(RunQueueLayout::lock_address),
        left_out: counted.map_or_else(Vec::new, |counted| {
            (0..run_queues.len()).filter(|cpu| !counted.contains(*cpu)).collect()
        }),
    }
}
