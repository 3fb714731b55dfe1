//! The maps. Sizes are defaults; the loader sets them to the machine and the run.

use aya_ebpf::macros::map;
use aya_ebpf::maps::{Array, HashMap, PerCpuArray, PerCpuHashMap, RingBuf};
use tracer_ebpf::{
    CACHE_NAME_BYTES, CpuAccount, Gate, Held, HoldStats, HolderKey, HolderName, HolderStack,
    HolderStackKey, KernelLayout, LATENCY_BUCKETS, LatencyBucket, LockIdentity, LockKey,
    MARK_SLOTS, Mark, OpenFlush, TaskAccount, WaitStack, WaitStats,
};

/// One entry: the gate; while it is shut, every program returns at once.
#[map]
pub(crate) static GATE: Array<Gate> = Array::with_max_entries(1, 0);

/// tid → account of the traced tasks.
#[map]
pub(crate) static TASKS: HashMap<u32, TaskAccount> = HashMap::with_max_entries(4096, 0);

/// One entry: this CPU's own account.
#[map]
pub(crate) static CPUS: PerCpuArray<CpuAccount> = PerCpuArray::with_max_entries(1, 0);

/// (lock, class, side) → its waits.
#[map]
pub(crate) static LOCKS: PerCpuHashMap<LockKey, WaitStats> =
    PerCpuHashMap::with_max_entries(8192, 0);

/// tid → open waits of a task that is not traced and sleeps in a lock.
#[map]
pub(crate) static OTHER_OPEN: HashMap<u32, WaitStack> = HashMap::with_max_entries(4096, 0);

/// tid → open plug flush of a task that is not traced.
#[map]
pub(crate) static OTHER_FLUSH: HashMap<u32, OpenFlush> = HashMap::with_max_entries(4096, 0);

/// Kernel address of a CPU's run-queue lock → CPU.
#[map]
pub(crate) static RQ_LOCKS: HashMap<u64, u32> = HashMap::with_max_entries(1024, 0);

/// CPU → address of its run queue, filled by `learn_rq`.
#[map]
pub(crate) static LEARNT_RQ: Array<u64> = Array::with_max_entries(1, 0);

/// Where new accounts are made, for they are too large for the stack.
#[map]
pub(crate) static NEW_TASK: PerCpuArray<TaskAccount> = PerCpuArray::with_max_entries(1, 0);

/// Bucket of latencies → the transactions in it, with their time by state; one set of buckets after
/// the other.
#[map]
pub(crate) static LATENCIES: PerCpuArray<LatencyBucket> =
    PerCpuArray::with_max_entries(LATENCY_BUCKETS as u32, 0);

/// One entry: how many of the sessions that begin next are left out of the buckets. A benchmark's
/// client connects once to look at its tables before it begins.
#[map]
pub(crate) static SESSIONS_LEFT_OUT: Array<u32> = Array::with_max_entries(1, 0);

/// `WaitSample`s.
#[map]
pub(crate) static SAMPLES: RingBuf = RingBuf::with_byte_size(1 << 20, 0);

/// One entry: where things lie in this kernel, for identifying locks.
#[map]
pub(crate) static LAYOUT: Array<KernelLayout> = Array::with_max_entries(1, 0);

/// Question and answer of `learn_word`.
#[map]
pub(crate) static WORD: Array<u64> = Array::with_max_entries(1, 0);

/// Name of a slab cache of inodes → offset of the `struct inode` in its objects.
#[map]
pub(crate) static INODE_CACHES: HashMap<[u8; CACHE_NAME_BYTES], u32> =
    HashMap::with_max_entries(64, 0);

/// lock → what its address lies in.
#[map]
pub(crate) static IDENTITIES: HashMap<u64, LockIdentity> = HashMap::with_max_entries(8192, 0);

/// Where an identity is put together; `learn_memory` leaves its answer here.
#[map]
pub(crate) static IDENTITY: PerCpuArray<LockIdentity> = PerCpuArray::with_max_entries(1, 0);

/// lock → its holder now.
#[map]
pub(crate) static HELD: HashMap<u64, Held> = HashMap::with_max_entries(8192, 0);

/// (lock, holder) → its holds.
#[map]
pub(crate) static HOLDERS: PerCpuHashMap<HolderKey, HoldStats> =
    PerCpuHashMap::with_max_entries(8192, 0);

/// tid → who that is.
#[map]
pub(crate) static HOLDER_NAMES: HashMap<u32, HolderName> = HashMap::with_max_entries(4096, 0);

/// (lock, holder, where) → the holder's stack.
#[map]
pub(crate) static HOLDER_STACKS: HashMap<HolderStackKey, HolderStack> =
    HashMap::with_max_entries(2048, 0);

/// Where a holder's stack is taken.
#[map]
pub(crate) static HOLDER_STACK: PerCpuArray<HolderStack> = PerCpuArray::with_max_entries(1, 0);

/// By the low bits of the tid: holders whose stack is wanted.
#[map]
pub(crate) static MARKS: Array<Mark> = Array::with_max_entries(MARK_SLOTS as u32, 0);
