//! The attached programs as one thing: who is traced, the gate, snapshots, samples, run time.
//!
//! Everything the kernel holds for us hangs on file descriptors inside `Ebpf`: dropping the tracer,
//! or dying, detaches every program.

use std::collections::HashMap;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::panic::resume_unwind;
use std::thread;

use aya::maps::{Map, MapData, RingBuf};
use aya::{Btf, Ebpf};
use aya_log::EbpfLogger;
use lockscope_ebpf::{
    CpuAccount, Gate, LATENCY_BUCKETS, LatencyBucket, LockKey, Side, State, TaskAccount, TaskClock,
    WaitSample, WaitStats,
};

use super::error::TraceError;
use super::learn;
use super::loader::{self, Limits, Offsets};
use super::memory::{self, IdentityNeeds, Memory};
use super::plan::AttachPlan;
use crate::clock::monotonic_ns;
use crate::collect::bpf;
use crate::collect::{Identities, Locks, Machine, Snapshot, add_waits, possible_cpus};

mod cost;
mod gate;

pub use cost::{ProgramCost, StatsWindow};

/// The attached programs.
pub struct Tracer {
    ebpf: Ebpf,
    samples: RingBuf<MapData>,
    /// Passes the programs' log lines on, where they are wanted.
    logger: Option<EbpfLogger<&'static dyn log::Log>>,
    cpus: usize,
    gate: Gate,
    cleared_count: u64,
    attached: Vec<&'static str>,
    offsets: Offsets,
    latency_sets: usize,
    rq_locks: Vec<u64>,
    run_queues: Vec<u64>,
    memory: Memory,
}

/// A task to trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TracedTask {
    /// Thread id.
    pub tid: u32,
    /// Process id.
    pub tgid: u32,
    /// Whose it is.
    pub side: Side,
    /// Address of Postgres's `my_wait_event_info` in its memory.
    pub wait_event_address: Option<u64>,
    /// Address of `st_state` in the backend's status entry, where its replies are encrypted.
    pub status_address: Option<u64>,
    /// The set of latency buckets, from 1, that its transactions are counted in; 0: in none. Its
    /// children take it over.
    pub counted: u8,
    /// Whether its children join.
    pub followed: bool,
    /// Whether the sessions of its children may be among those that
    /// [`Tracer::leave_out_sessions`] leaves out.
    pub may_be_left_out: bool,
}

impl TracedTask {
    /// A task of which nothing more is known.
    pub const fn plain(tid: u32, tgid: u32, side: Side) -> TracedTask {
        TracedTask {
            tid,
            tgid,
            side,
            wait_event_address: None,
            status_address: None,
            counted: 0,
            followed: true,
            may_be_left_out: false,
        }
    }

    fn flags(&self) -> u8 {
        let flag = |wanted, flag| if wanted { flag } else { 0 };
        flag(self.followed, TaskAccount::FOLLOWED)
            | flag(self.may_be_left_out, TaskAccount::MAY_BE_LEFT_OUT)
    }
}

impl Tracer {
    /// Loads the object and attaches the plan's programs, with the gate shut: nothing is counted
    /// and no task is traced yet.
    ///
    /// `per_cpu` computes the per-CPU addresses from each CPU's run-queue address (index = CPU,
    /// 0 = not learnt, because the CPU is offline or this kernel's BTF does not tell).
    ///
    /// # Errors
    /// See [`TraceError`].
    pub fn attach(
        plan: &AttachPlan,
        offsets: Offsets,
        limits: Limits,
        identity: &IdentityNeeds,
        per_cpu: impl FnOnce(&[u64]) -> PerCpuAddresses,
    ) -> Result<Tracer, TraceError> {
        // Megabytes to read, while the maps are made.
        let btf = loader::needs_btf(plan).then(|| thread::spawn(Btf::from_sys_fs));
        let cpus = possible_cpus().map_err(|source| TraceError::Map {
            map: "CPUS",
            action: "sized",
            source,
        })?;
        let mut ebpf =
            loader::load_object(plan, offsets, limits, u32::try_from(cpus).unwrap_or(u32::MAX))?;
        let samples = ebpf.take_map("SAMPLES").ok_or(TraceError::MissingMap("SAMPLES"))?;
        let samples = RingBuf::try_from(samples).map_err(|_| TraceError::MissingMap("SAMPLES"))?;
        let logger = match limits.bpf_log_level {
            0 => None,
            _ => EbpfLogger::init(&mut ebpf)
                .inspect_err(|error| log::warn!("--bpf-log: the log cannot be read: {error}"))
                .ok(),
        };
        let mut tracer = Tracer {
            logger,
            samples,
            cpus,
            gate: Gate::default(),
            cleared_count: 0,
            attached: Vec::new(),
            offsets,
            latency_sets: limits.latency_sets as usize,
            rq_locks: Vec::new(),
            run_queues: learn::run_queues(&mut ebpf, cpus)?,
            memory: memory::learn(&mut ebpf, identity)?,
            ebpf,
        };
        let per_cpu = per_cpu(&tracer.run_queues);
        tracer.set_per_cpu(&per_cpu)?;
        tracer.rq_locks = per_cpu.rq_locks;
        let btf = btf.map(|btf| btf.join().unwrap_or_else(|panic| resume_unwind(panic)));
        let btf = btf.transpose().map_err(|error| TraceError::Btf(Box::new(error)))?;
        loader::attach(&mut tracer.ebpf, plan, btf.as_ref())?;
        tracer.attached = plan.programs().map(|(_, spec)| spec.program).collect();
        Ok(tracer)
    }

    fn set_per_cpu(&self, per_cpu: &PerCpuAddresses) -> Result<(), TraceError> {
        let accounts: Vec<CpuAccount> = (0..self.cpus)
            .map(|cpu| CpuAccount {
                left_out: u32::from(per_cpu.left_out.contains(&cpu)),
                ..CpuAccount::new(per_cpu.preempt_counts.get(cpu).copied().unwrap_or(0))
            })
            .collect();
        bpf::update_per_cpu(self.map("CPUS")?, &0_u32, &accounts)
            .map_err(|source| TraceError::Map { map: "CPUS", action: "written", source })?;
        for (cpu, address) in per_cpu.rq_locks.iter().enumerate().filter(|(_, lock)| **lock != 0) {
            let cpu = u32::try_from(cpu).unwrap_or(u32::MAX);
            bpf::update(self.map("RQ_LOCKS")?, address, &cpu)
                .map_err(|source| TraceError::Map { map: "RQ_LOCKS", action: "written", source })?;
        }
        Ok(())
    }

    /// The field offsets that the programs were given.
    pub fn offsets(&self) -> Offsets {
        self.offsets
    }

    /// Address of each CPU's run-queue lock; 0 = not known.
    pub fn rq_locks(&self) -> &[u64] {
        &self.rq_locks
    }

    /// Address of each CPU's run queue; 0 = not learnt.
    pub fn run_queues(&self) -> &[u64] {
        &self.run_queues
    }

    /// What was found about this boot's memory.
    pub fn memory(&self) -> &Memory {
        &self.memory
    }

    /// What is known of the contended locks' addresses, and of their holders.
    ///
    /// # Errors
    /// A map cannot be read.
    pub fn identities(&self) -> Result<Identities, TraceError> {
        Identities::read(|name| self.map(name), self.cpus)
    }

    /// Starts an account for a task; one that has an account already keeps it. `asleep_in`: what the
    /// task does if it turns out to have been asleep at its first event.
    ///
    /// # Errors
    /// The task map is full, or cannot be written.
    pub fn trace_task(
        &self,
        task: &TracedTask,
        asleep_in: impl FnOnce(&TaskAccount) -> State,
    ) -> Result<(), TraceError> {
        let map = self.map("TASKS")?;
        let failed = |source| TraceError::Map { map: "TASKS", action: "written", source };
        if bpf::lookup::<u32, TaskAccount>(map, &task.tid).map_err(failed)?.is_some() {
            return Ok(());
        }
        let mut account = TaskAccount::new(task.tgid, task.side, monotonic_ns());
        account.wait_event_address = task.wait_event_address.unwrap_or(0);
        account.status_address = task.status_address.unwrap_or(0);
        account.counted = task.counted;
        account.flags = task.flags();
        account.clock = TaskClock::new(asleep_in(&account));
        // The programs may have opened its account meanwhile, at its fork.
        match bpf::insert(map, &task.tid, &account) {
            Err(error) if error.raw_os_error() == Some(libc::EEXIST) => Ok(()),
            Err(error) if error.raw_os_error() == Some(libc::E2BIG) => Err(TraceError::TasksFull),
            inserted => inserted.map_err(failed),
        }
    }

    /// Waits of traced tasks and of CPUs that have begun in this opening of the gate and not ended.
    pub fn open_waits(&self, snapshot: &Snapshot) -> u64 {
        // Waits carry the low half.
        let generation = self.gate.generation as u32;
        let of_tasks = snapshot.tasks.values().map(|task| task.open.open_in(generation));
        of_tasks.sum::<u64>() + snapshot.machine.open_in(generation)
    }

    /// Reads every account. Accounts of tasks that have exited are in this snapshot for the last
    /// time and leave the map.
    ///
    /// # Errors
    /// A map cannot be read.
    pub fn snapshot(&self) -> Result<Snapshot, TraceError> {
        let mut tasks = HashMap::new();
        let map = self.map("TASKS")?;
        let failed = |map| move |source| TraceError::Map { map, action: "read", source };
        bpf::lookup_all(map, 1, |tid: u32, accounts: &[TaskAccount]| {
            tasks.extend(accounts.first().map(|account| (tid, *account)));
        })
        .map_err(failed("TASKS"))?;
        for (tid, _) in tasks.iter().filter(|(_, account)| account.exited != 0) {
            bpf::delete(map, tid).map_err(failed("TASKS"))?;
        }
        let mut machine = Machine::default();
        let cpus = bpf::lookup_per_cpu::<u32, CpuAccount>(self.map("CPUS")?, &0, self.cpus)
            .map_err(failed("CPUS"))?;
        cpus.unwrap_or_default().iter().for_each(|cpu| machine.add(cpu));
        Ok(Snapshot { at_ns: monotonic_ns(), tasks, machine })
    }

    /// Reads the table of contended locks, summed over the CPUs.
    ///
    /// # Errors
    /// The map cannot be read.
    pub fn locks(&self) -> Result<Locks, TraceError> {
        let mut locks = Locks::new();
        bpf::lookup_all(self.map("LOCKS")?, self.cpus, |key: LockKey, cpus: &[WaitStats]| {
            let sum = locks.entry(key).or_insert(WaitStats::ZERO);
            cpus.iter().for_each(|waits| add_waits(sum, waits));
        })
        .map_err(|source| TraceError::Map { map: "LOCKS", action: "read", source })?;
        Ok(locks)
    }

    /// The next sessions that children of a task with `may_be_left_out` begin are counted nowhere.
    ///
    /// # Errors
    /// The map cannot be written.
    pub fn leave_out_sessions(&self, count: u32) -> Result<(), TraceError> {
        let map = "SESSIONS_LEFT_OUT";
        let failed = |source| TraceError::Map { map, action: "written", source };
        bpf::update(self.map(map)?, &0_u32, &count).map_err(failed)
    }

    /// Reads the transactions by latency, summed over the CPUs: one set after the other.
    ///
    /// # Errors
    /// The map cannot be read.
    pub fn latencies(&self) -> Result<Vec<Vec<LatencyBucket>>, TraceError> {
        let map = self.map("LATENCIES")?;
        let failed = |source| TraceError::Map { map: "LATENCIES", action: "read", source };
        let bucket = |index: usize| {
            let index = u32::try_from(index).unwrap_or(u32::MAX);
            let cpus = bpf::lookup_per_cpu::<u32, LatencyBucket>(map, &index, self.cpus);
            let mut sum = LatencyBucket::EMPTY;
            for cpu in cpus.map_err(failed)?.unwrap_or_default() {
                sum.add(&cpu);
            }
            Ok(sum)
        };
        let set = |set: usize| {
            let first = set * LATENCY_BUCKETS;
            (first..first + LATENCY_BUCKETS).map(bucket).collect()
        };
        (0..self.latency_sets).map(set).collect()
    }

    /// Hands over the samples that have arrived since the last call, and passes on log lines.
    pub fn drain_samples(&mut self, mut each: impl FnMut(&WaitSample)) {
        if let Some(logger) = &mut self.logger {
            logger.flush();
        }
        while let Some(item) = self.samples.next() {
            if let Some(sample) = bpf::from_bytes::<WaitSample>(&item) {
                each(&sample);
            }
        }
    }

    /// Kernel memory that the maps take, as the kernel counts it.
    pub fn map_bytes(&self) -> u64 {
        let maps = self.ebpf.maps().filter_map(|(_, map)| map_fd(map));
        let samples = self.samples_fd();
        maps.chain([samples]).filter_map(|fd| bpf::map_memlock_bytes(fd).ok()).sum()
    }

    fn samples_fd(&self) -> BorrowedFd<'_> {
        use std::os::fd::AsRawFd as _;
        // SAFETY: the ring buffer's epoll-able descriptor is its map's, and lives as long as self.
        unsafe { BorrowedFd::borrow_raw(self.samples.as_raw_fd()) }
    }

    fn map(&self, name: &'static str) -> Result<BorrowedFd<'_>, TraceError> {
        self.ebpf.map(name).and_then(map_fd).ok_or(TraceError::MissingMap(name))
    }
}

/// Kernel addresses that differ by CPU; index = CPU number. Empty where they are not known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PerCpuAddresses {
    /// Of the preempt count: without it interrupts are charged to the current task.
    pub preempt_counts: Vec<u64>,
    /// CPUs whose waits the lock table leaves out.
    pub left_out: Vec<usize>,
    /// Of the run-queue lock: without it rq locks are plain qspinlocks.
    pub rq_locks: Vec<u64>,
}

pub(super) fn map_fd(map: &Map) -> Option<BorrowedFd<'_>> {
    match map {
        Map::Array(data)
        | Map::HashMap(data)
        | Map::PerCpuArray(data)
        | Map::PerCpuHashMap(data)
        | Map::RingBuf(data) => Some(data.fd().as_fd()),
        _ => None,
    }
}
