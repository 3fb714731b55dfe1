//! Loads the programs that the plan names and hangs them on their hooks.

use std::collections::HashMap;
use std::num::NonZero;
use std::sync::{Mutex, PoisonError};
use std::thread::{self, available_parallelism};

use aya::programs::{Program, ProgramError};
use aya::{Btf, Ebpf, EbpfLoader, include_bytes_aligned};
use lockscope_ebpf::LATENCY_BUCKETS;

use super::capability::{Capability, Method};
use super::error::TraceError;
use super::plan::{AttachPlan, PlannedProbe};
use super::programs::{Hook, ProgramSpec};
use crate::attach::IDLE_STATES;
use crate::kernel::scheduling::SchedulingLayout;
use crate::kernel::tracefs::with_tracefs;

static OBJECT: &[u8] = include_bytes_aligned!(env!("LOCKSCOPE_BPF_OBJECT"));

/// Field offsets that the programs need, from the running kernel's BTF (and tracepoint formats).
/// `None` = this kernel does not have it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Offsets {
    /// `task_struct.pid`.
    pub task_pid: Option<u32>,
    /// `task_struct.tgid`.
    pub task_tgid: Option<u32>,
    /// `task_struct.nvcsw`.
    pub task_nvcsw: Option<u32>,
    /// `blk_plug.rq_count`.
    pub plug_rq_count: Option<u32>,
    /// `task_struct.se.cfs_rq`.
    pub task_cfs_rq: Option<u32>,
    /// `cfs_rq.rq`.
    pub cfs_rq_rq: Option<u32>,
    /// `child_pid` in the classic record of `sched_process_fork`.
    pub fork_child_pid: Option<u32>,
    /// What a switch and a waking tell.
    pub scheduling: SchedulingLayout,
    /// `mutex.owner`.
    pub mutex_owner: Option<u32>,
    /// `rw_semaphore.owner`.
    pub rwsem_owner: Option<u32>,
}

/// Sizes and thresholds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Tasks that can be traced at once.
    pub tasks: u32,
    /// Distinct (lock, class, side).
    pub locks: u32,
    /// Bytes of the sample ring, a power of two and a multiple of the page.
    pub ring_bytes: u32,
    /// Waits at least this long are sampled with their stack.
    pub sample_threshold_ns: u64,
    /// Of shorter ones, one in this many (0: none).
    pub sample_every: u32,
    /// The waits of tasks without an account are not counted.
    pub only_tasks: bool,
    /// One bit a class that is counted by lock.
    pub class_mask: u32,
    /// Shorter waits are not counted by lock.
    pub min_wait_ns: u64,
    /// Sets of latency buckets.
    pub latency_sets: u32,
    /// The most verbose level at which the programs log: 0 nothing, 5 everything.
    pub bpf_log_level: u8,
}

impl Limits {
    /// Defaults for a machine with this many possible CPUs: the per-CPU lock table stays under
    /// about 64 MiB.
    pub fn for_cpus(cpus: usize) -> Limits {
        let value = size_of::<lockscope_ebpf::WaitStats>() * cpus.max(1);
        let locks = ((64 << 20) / value).clamp(1024, 8192);
        Limits {
            tasks: 4096,
            locks: u32::try_from(locks).unwrap_or(8192),
            ring_bytes: 1 << 20,
            sample_threshold_ns: 20_000,
            sample_every: 16,
            only_tasks: false,
            class_mask: u32::MAX,
            min_wait_ns: 0,
            latency_sets: 1,
            bpf_log_level: 0,
        }
    }
}

/// The value the programs take for "this kernel has no such field".
const ABSENT: u32 = u32::MAX;

/// Creates the maps. No program is loaded yet.
///
/// # Errors
/// [`TraceError::Object`] when the kernel refuses, which mostly means: not root, no BPF.
pub(super) fn load_object(
    plan: &AttachPlan,
    offsets: Offsets,
    limits: Limits,
    cpus: u32,
) -> Result<Ebpf, TraceError> {
    let keep_clocks = u8::from(plan.has(Capability::Scheduling));
    let [idle, idle_in_transaction, idle_aborted] = IDLE_STATES;
    let scheduling = offsets.scheduling;
    let switch_tells_state = u8::from(scheduling.switch_tells_state);
    let task_state = scheduling.task_state.unwrap_or(ABSENT);
    let task_on_rq = scheduling.task_on_rq.unwrap_or(ABSENT);
    let task_sched_delayed = scheduling.task_sched_delayed.unwrap_or(ABSENT);
    let (in_iowait, in_iowait_mask) = scheduling.task_in_iowait.unwrap_or((ABSENT, 0));
    let throttle_count = scheduling.cfs_rq_throttle_count.unwrap_or(ABSENT);
    let task_pid = offsets.task_pid.unwrap_or(ABSENT);
    let task_tgid = offsets.task_tgid.unwrap_or(ABSENT);
    let task_nvcsw = offsets.task_nvcsw.unwrap_or(ABSENT);
    let plug_rq_count = offsets.plug_rq_count.unwrap_or(ABSENT);
    let fork_child_pid = offsets.fork_child_pid.unwrap_or(ABSENT);
    let task_cfs_rq = offsets.task_cfs_rq.unwrap_or(ABSENT);
    let cfs_rq_rq = offsets.cfs_rq_rq.unwrap_or(ABSENT);
    let mutex_owner = offsets.mutex_owner.unwrap_or(ABSENT);
    let rwsem_owner = offsets.rwsem_owner.unwrap_or(ABSENT);
    let own_tgid = std::process::id();
    EbpfLoader::new()
        // The programs carry no relocations to the kernel's types.
        .btf(None)
        .override_global("SAMPLE_THRESHOLD_NS", &limits.sample_threshold_ns, true)
        .override_global("SAMPLE_EVERY", &limits.sample_every, true)
        .override_global("KEEP_CLOCKS", &keep_clocks, true)
        .override_global("SWITCH_TELLS_STATE", &switch_tells_state, true)
        .override_global("TASK_STATE_OFFSET", &task_state, true)
        .override_global("TASK_ON_RQ_OFFSET", &task_on_rq, true)
        .override_global("TASK_SCHED_DELAYED_OFFSET", &task_sched_delayed, true)
        .override_global("TASK_IN_IOWAIT_OFFSET", &in_iowait, true)
        .override_global("TASK_IN_IOWAIT_MASK", &in_iowait_mask, true)
        .override_global("CFS_RQ_THROTTLE_COUNT_OFFSET", &throttle_count, true)
        .override_global("STATUS_IDLE", &idle, true)
        .override_global("STATUS_IDLE_IN_TRANSACTION", &idle_in_transaction, true)
        .override_global("STATUS_IDLE_ABORTED", &idle_aborted, true)
        .override_global("OWN_TGID", &own_tgid, true)
        .override_global("TASK_PID_OFFSET", &task_pid, true)
        .override_global("TASK_TGID_OFFSET", &task_tgid, true)
        .override_global("TASK_NVCSW_OFFSET", &task_nvcsw, true)
        .override_global("PLUG_RQ_COUNT_OFFSET", &plug_rq_count, true)
        .override_global("TASK_CFS_RQ_OFFSET", &task_cfs_rq, true)
        .override_global("CFS_RQ_RQ_OFFSET", &cfs_rq_rq, true)
        .override_global("ONLY_TASKS", &u32::from(limits.only_tasks), true)
        .override_global("CLASS_MASK", &limits.class_mask, true)
        .override_global("MIN_WAIT_NS", &limits.min_wait_ns, true)
        .override_global("AYA_LOG_LEVEL", &limits.bpf_log_level, true)
        .override_global("FORK_CHILD_PID_OFFSET", &fork_child_pid, true)
        .override_global("MUTEX_OWNER_OFFSET", &mutex_owner, true)
        .override_global("RWSEM_OWNER_OFFSET", &rwsem_owner, true)
        .map_max_entries("TASKS", limits.tasks)
        .map_max_entries("LATENCIES", limits.latency_sets * LATENCY_BUCKETS as u32)
        .map_max_entries("LOCKS", limits.locks)
        .map_max_entries("IDENTITIES", limits.locks)
        .map_max_entries("HELD", limits.locks)
        .map_max_entries("HOLDERS", limits.locks)
        .map_max_entries("SAMPLES", limits.ring_bytes)
        .map_max_entries("LEARNT_RQ", cpus)
        .map_max_entries("RQ_LOCKS", cpus)
        .load(OBJECT)
        .map_err(|error| TraceError::Object(Box::new(error)))
}

/// Loads every program of the plan, then attaches all. `btf`: the kernel's, where the plan needs it.
///
/// # Errors
/// The first program in the plan that the kernel refuses, by name. What was attached before stays
/// attached to `ebpf` and goes with it.
pub(super) fn attach(
    ebpf: &mut Ebpf,
    plan: &AttachPlan,
    btf: Option<&Btf>,
) -> Result<(), TraceError> {
    let planned: Vec<Planned<'_>> = plan.programs().map(Planned::new).collect();
    load_all(ebpf, &planned, btf)?;
    // Classic tracepoints are found by name in tracefs, which may not be mounted.
    with_tracefs(|| planned.iter().try_for_each(|planned| planned.hang(ebpf)))
}

/// Whether programs of the plan name types or functions of the kernel's.
pub(super) fn needs_btf(plan: &AttachPlan) -> bool {
    plan.probes.iter().any(|probe| matches!(probe.method, Method::TpBtf | Method::Fentry))
}

/// The verifier takes its time with each program, and privileged ones pass it side by side.
fn load_all<'p>(
    ebpf: &mut Ebpf,
    planned: &'p [Planned<'_>],
    btf: Option<&Btf>,
) -> Result<(), TraceError> {
    let mut programs: HashMap<&str, &mut Program> = ebpf.programs_mut().collect();
    let job = |planned: &'p Planned<'_>| (planned, programs.remove(planned.spec.program));
    let jobs: Vec<_> = planned.iter().map(job).collect();
    let threads = available_parallelism().map_or(1, NonZero::get).min(jobs.len());
    let queue = Mutex::new(jobs.into_iter().enumerate());
    let work = || {
        let mut refused = Vec::new();
        loop {
            let job = queue.lock().unwrap_or_else(PoisonError::into_inner).next();
            let Some((index, (planned, program))) = job else { return refused };
            if let Err(error) = planned.load(program, btf) {
                refused.push((index, error));
            }
        }
    };
    let refused = thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        let results = workers
            .into_iter()
            .map(|worker| worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        results.flatten().min_by_key(|(index, _)| *index)
    });
    refused.map_or(Ok(()), |(_, error)| Err(error))
}

/// One program of the plan.
struct Planned<'a> {
    probe: &'a PlannedProbe,
    spec: ProgramSpec,
}

impl<'a> Planned<'a> {
    fn new((probe, spec): (&'a PlannedProbe, ProgramSpec)) -> Self {
        Planned { probe, spec }
    }

    /// The function that it hangs on.
    fn function(&self) -> Option<&str> {
        match self.spec.hook {
            Hook::Tracepoint(..) => None,
            Hook::Function(index) => self.probe.targets.get(index).map(String::as_str),
        }
    }

    fn load(&self, program: Option<&mut Program>, btf: Option<&Btf>) -> Result<(), TraceError> {
        let program = program.ok_or(TraceError::MissingProgram(self.spec.program))?;
        load(program, &self.spec, self.function(), btf)
            .map_err(|error| self.failed("loaded", &error))
    }

    fn hang(&self, ebpf: &mut Ebpf) -> Result<(), TraceError> {
        let name = self.spec.program;
        let program = ebpf.program_mut(name).ok_or(TraceError::MissingProgram(name))?;
        hang(program, &self.spec, self.function()).map_err(|error| self.failed("attached", &error))
    }

    fn failed(&self, action: &'static str, error: &dyn std::error::Error) -> TraceError {
        TraceError::Program {
            program: self.spec.program,
            action,
            target: match self.spec.hook {
                Hook::Tracepoint(category, name) => format!("{category}:{name}"),
                Hook::Function(_) => self.function().unwrap_or_default().to_owned(),
            },
            capability: self.probe.capability.to_string(),
            reason: chain(error),
        }
    }
}

fn load(
    program: &mut Program,
    spec: &ProgramSpec,
    target: Option<&str>,
    btf: Option<&Btf>,
) -> Result<(), ProgramError> {
    match (program, spec.hook, btf) {
        (Program::BtfTracePoint(program), Hook::Tracepoint(_, name), Some(btf)) => {
            program.load(name, btf)
        }
        (Program::RawTracePoint(program), ..) => program.load(),
        (Program::TracePoint(program), ..) => program.load(),
        (Program::KProbe(program), ..) => program.load(),
        (Program::FEntry(program), _, Some(btf)) => program.load(target.unwrap_or_default(), btf),
        (Program::FExit(program), _, Some(btf)) => program.load(target.unwrap_or_default(), btf),
        _ => Err(ProgramError::UnexpectedProgramType),
    }
}

fn hang(
    program: &mut Program,
    spec: &ProgramSpec,
    target: Option<&str>,
) -> Result<(), ProgramError> {
    match (program, spec.hook) {
        (Program::BtfTracePoint(program), _) => program.attach().map(drop),
        (Program::RawTracePoint(program), Hook::Tracepoint(_, name)) => {
            program.attach(name).map(drop)
        }
        (Program::TracePoint(program), Hook::Tracepoint(category, name)) => {
            program.attach(category, name).map(drop)
        }
        (Program::KProbe(program), Hook::Function(_)) => {
            program.attach(target.unwrap_or_default(), 0).map(drop)
        }
        (Program::FEntry(program), _) => program.attach().map(drop),
        (Program::FExit(program), _) => program.attach().map(drop),
        _ => Err(ProgramError::UnexpectedProgramType),
    }
}

/// An error with everything that caused it, on one line; a verifier's log is cut to its end.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        source = cause.source();
    }
    const KEEP: usize = 600;
    if text.len() > KEEP && std::env::var_os("LOCKSCOPE_VERIFIER_LOG").is_none() {
        let start = text.floor_char_boundary(200);
        let end = text.ceil_char_boundary(text.len() - (KEEP - 200));
        text = format!("{} … {}", &text[..start], &text[end..]);
    }
    text
}
