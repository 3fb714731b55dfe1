//! Read-only globals that the loader sets before the programs are loaded.

use aya_ebpf::Global;

/// The offset of a field that this kernel does not have (or whose BTF is missing).
pub(crate) const ABSENT: u32 = u32::MAX;

/// Waits at least this long are sampled always.
#[unsafe(no_mangle)]
static SAMPLE_THRESHOLD_NS: Global<u64> = Global::new(20_000);
/// Of shorter waits one in this many is sampled (0: none).
#[unsafe(no_mangle)]
static SAMPLE_EVERY: Global<u32> = Global::new(16);
/// The process id of lockscope itself, whose threads drive the load.
#[unsafe(no_mangle)]
static OWN_TGID: Global<u32> = Global::new(0);
/// Whether the clocks of the tasks are kept (depth `ledger`).
#[unsafe(no_mangle)]
static KEEP_CLOCKS: Global<bool> = Global::new(false);
/// Whether `sched_switch` tells the state of the task that leaves (5.18+).
#[unsafe(no_mangle)]
static SWITCH_TELLS_STATE: Global<bool> = Global::new(false);
/// Offset of `task_struct.__state` (before 5.14: `state`).
#[unsafe(no_mangle)]
static TASK_STATE_OFFSET: Global<u32> = Global::new(ABSENT);
/// Offset of `task_struct.on_rq`.
#[unsafe(no_mangle)]
static TASK_ON_RQ_OFFSET: Global<u32> = Global::new(ABSENT);
/// Offset of `task_struct.se.sched_delayed` (6.12+): asleep, and on the run queue nevertheless.
#[unsafe(no_mangle)]
static TASK_SCHED_DELAYED_OFFSET: Global<u32> = Global::new(ABSENT);
/// Offset of the byte of `task_struct` that holds the bit `in_iowait`.
#[unsafe(no_mangle)]
static TASK_IN_IOWAIT_OFFSET: Global<u32> = Global::new(ABSENT);
/// That bit.
#[unsafe(no_mangle)]
static TASK_IN_IOWAIT_MASK: Global<u8> = Global::new(0);
/// Offset of `cfs_rq.throttle_count`.
#[unsafe(no_mangle)]
static CFS_RQ_THROTTLE_COUNT_OFFSET: Global<u32> = Global::new(ABSENT);
/// Values of a backend's `st_state`: idle, idle in a transaction, the same when it has failed.
#[unsafe(no_mangle)]
static STATUS_IDLE: Global<u32> = Global::new(0);
#[unsafe(no_mangle)]
static STATUS_IDLE_IN_TRANSACTION: Global<u32> = Global::new(0);
#[unsafe(no_mangle)]
static STATUS_IDLE_ABORTED: Global<u32> = Global::new(0);
/// Offset of `task_struct.pid`.
#[unsafe(no_mangle)]
static TASK_PID_OFFSET: Global<u32> = Global::new(ABSENT);
/// Offset of `task_struct.nvcsw`, how often the task has gone to sleep.
#[unsafe(no_mangle)]
static TASK_NVCSW_OFFSET: Global<u32> = Global::new(ABSENT);
/// Offset of `task_struct.tgid`.
#[unsafe(no_mangle)]
static TASK_TGID_OFFSET: Global<u32> = Global::new(ABSENT);
/// Offset of `blk_plug.rq_count`.
#[unsafe(no_mangle)]
static PLUG_RQ_COUNT_OFFSET: Global<u32> = Global::new(ABSENT);
/// Offset of `child_pid` in the classic tracepoint's record of `sched_process_fork`.
#[unsafe(no_mangle)]
static FORK_CHILD_PID_OFFSET: Global<u32> = Global::new(ABSENT);
/// Offset of `task_struct.se.cfs_rq`.
#[unsafe(no_mangle)]
static TASK_CFS_RQ_OFFSET: Global<u32> = Global::new(ABSENT);
/// Offset of `cfs_rq.rq`.
#[unsafe(no_mangle)]
static CFS_RQ_RQ_OFFSET: Global<u32> = Global::new(ABSENT);

/// Offset of `mutex.owner`.
#[unsafe(no_mangle)]
static MUTEX_OWNER_OFFSET: Global<u32> = Global::new(ABSENT);
/// Offset of `rw_semaphore.owner`.
#[unsafe(no_mangle)]
static RWSEM_OWNER_OFFSET: Global<u32> = Global::new(ABSENT);

pub(crate) fn mutex_owner_offset() -> u32 {
    MUTEX_OWNER_OFFSET.load()
}

pub(crate) fn rwsem_owner_offset() -> u32 {
    RWSEM_OWNER_OFFSET.load()
}

/// 1 = the waits of tasks without an account are not counted.
#[unsafe(no_mangle)]
static ONLY_TASKS: Global<u32> = Global::new(0);
/// One bit a class that is counted by lock.
#[unsafe(no_mangle)]
static CLASS_MASK: Global<u32> = Global::new(u32::MAX);
/// Shorter waits are not counted by lock.
#[unsafe(no_mangle)]
static MIN_WAIT_NS: Global<u64> = Global::new(0);

pub(crate) fn only_tasks() -> u32 {
    ONLY_TASKS.load()
}

pub(crate) fn class_mask() -> u32 {
    CLASS_MASK.load()
}

pub(crate) fn min_wait_ns() -> u64 {
    MIN_WAIT_NS.load()
}

pub(crate) fn task_cfs_rq_offset() -> u32 {
    TASK_CFS_RQ_OFFSET.load()
}

pub(crate) fn cfs_rq_rq_offset() -> u32 {
    CFS_RQ_RQ_OFFSET.load()
}

pub(crate) fn keep_clocks() -> bool {
    KEEP_CLOCKS.load()
}

pub(crate) fn switch_tells_state() -> bool {
    SWITCH_TELLS_STATE.load()
}

pub(crate) fn task_state_offset() -> u32 {
    TASK_STATE_OFFSET.load()
}

pub(crate) fn task_on_rq_offset() -> u32 {
    TASK_ON_RQ_OFFSET.load()
}

pub(crate) fn task_sched_delayed_offset() -> u32 {
    TASK_SCHED_DELAYED_OFFSET.load()
}

pub(crate) fn task_in_iowait_offset() -> u32 {
    TASK_IN_IOWAIT_OFFSET.load()
}

pub(crate) fn task_in_iowait_mask() -> u8 {
    TASK_IN_IOWAIT_MASK.load()
}

pub(crate) fn cfs_rq_throttle_count_offset() -> u32 {
    CFS_RQ_THROTTLE_COUNT_OFFSET.load()
}

/// The status of ReadyForQuery that goes with a backend's `st_state`, if it is between requests.
pub(crate) fn reply_status(st_state: u32) -> Option<u8> {
    if st_state == STATUS_IDLE.load() {
        Some(b'I')
    } else if st_state == STATUS_IDLE_IN_TRANSACTION.load() {
        Some(b'T')
    } else if st_state == STATUS_IDLE_ABORTED.load() {
        Some(b'E')
    } else {
        None
    }
}

pub(crate) fn sample_threshold_ns() -> u64 {
    SAMPLE_THRESHOLD_NS.load()
}

pub(crate) fn sample_every() -> u32 {
    SAMPLE_EVERY.load()
}

pub(crate) fn own_tgid() -> u32 {
    OWN_TGID.load()
}

pub(crate) fn task_pid_offset() -> u32 {
    TASK_PID_OFFSET.load()
}

pub(crate) fn task_nvcsw_offset() -> u32 {
    TASK_NVCSW_OFFSET.load()
}

pub(crate) fn task_tgid_offset() -> u32 {
    TASK_TGID_OFFSET.load()
}

pub(crate) fn plug_rq_count_offset() -> u32 {
    PLUG_RQ_COUNT_OFFSET.load()
}

pub(crate) fn fork_child_pid_offset() -> u32 {
    FORK_CHILD_PID_OFFSET.load()
}
