//! One traced measurement: attaches, follows the gate's schedule, reads the accounts at every
//! interval, and hands everything to the ledger at the end.

mod attach;
mod findings;
mod look;
mod only;
mod schedstat;
mod schedule;
mod watch;

use std::collections::{BTreeMap, HashMap};

use lockscope_ebpf::{LatencyBucket, LockClass, TaskAccount};

use crate::clock::monotonic_ns;
use crate::collect::{Samples, Snapshot};
use crate::ledger::{Accounts, Group, Latencies, Slices, Sums, balance};
use crate::probe::{
    AttachPlan, Capability, ProgramCost, StatsWindow, TraceError, TracedTask, Tracer,
};

pub use attach::{AttachOptions, attach};
pub use findings::Findings;
use look::look;
pub use only::{OnlyTracer, OnlyTracerError};
pub use schedstat::Schedstat;
use schedule::Schedule;
use watch::Watch;
pub use watch::Watched;

/// Who a traced task is: only the caller knows the server and the load.
pub trait Classify {
    /// The role and group of a task, as far as it can be told now; `None` when it is gone.
    fn classify(&self, tid: u32, account: &TaskAccount) -> Option<(String, Group)>;
}

/// Backends' sums at the end of an interval, over the run so far.
#[derive(Clone, Debug)]
pub struct IntervalMark {
    /// CLOCK_MONOTONIC.
    pub end_ns: u64,
    /// The run's backends.
    pub backends: Sums,
    /// The run's transactions by latency, as their replies told.
    pub latencies: Latencies,
    /// Transactions that were told, by the set of latency buckets that they are counted in.
    pub told_by_set: BTreeMap<u8, u64>,
    /// How long the server's housekeepers have been at work, by kind.
    pub at_work: HashMap<&'static str, u64>,
}

/// An interval as the live line shows it.
#[derive(Clone, Debug, Default)]
pub struct LiveInterval {
    /// Traced transactions that the load has handed in since the interval before.
    pub transactions_count: u64,
    /// The backends' spin time.
    pub spin_ns: u64,
    /// The class that took most of the backends' lock time.
    pub top: Option<(LockClass, u64)>,
}

/// What the programs cost in the window with BPF_ENABLE_STATS.
#[derive(Clone, Debug, Default)]
pub struct RunTime {
    /// By program.
    pub programs: Vec<ProgramCost>,
    /// Length of the window, 0 when there was none.
    pub window_ns: u64,
}

/// A measurement under way.
pub struct Session {
    tracer: Tracer,
    plan: AttachPlan,
    schedule: Schedule,
    slices: Slices,
    accounts: Accounts,
    samples: Samples,
    marks: Vec<IntervalMark>,
    /// Transactions that the load ended on each backend while the programs were on.
    by_backend: HashMap<u32, u64>,
    /// Traced transactions up to the interval before.
    traced_before: u64,
    last: Snapshot,
    window: Option<StatsWindow>,
    run_time: RunTime,
    /// The kernel's own count when the gate was opened, where it then stays open; in the end, what
    /// came since.
    schedstats: HashMap<u32, Schedstat>,
    /// What perf events tell beside the programs.
    watch: Watch,
}

impl Session {
    fn new(tracer: Tracer, plan: AttachPlan, watch: Watch) -> Session {
        Session {
            tracer,
            plan,
            schedule: Schedule::default(),
            slices: Slices::default(),
            accounts: Accounts::default(),
            samples: Samples::default(),
            marks: Vec::new(),
            by_backend: HashMap::new(),
            traced_before: 0,
            last: Snapshot::default(),
            window: None,
            run_time: RunTime::default(),
            schedstats: HashMap::new(),
            watch,
        }
    }

    /// How everything is attached.
    pub fn plan(&self) -> &AttachPlan {
        &self.plan
    }

    /// Starts accounts for tasks; those that the programs follow by themselves join at fork.
    ///
    /// # Errors
    /// The task map is full.
    pub fn trace_tasks(
        &self,
        tasks: impl IntoIterator<Item = TracedTask>,
    ) -> Result<(), TraceError> {
        let seed = |task: TracedTask| {
            self.tracer.trace_task(&task, |account| match self.keeps_clocks() {
                true => look(task.tid, account),
                false => account.clock.state,
            })
        };
        tasks.into_iter().try_for_each(seed)
    }

    /// Of the traced servers' next sessions, this many are counted nowhere.
    ///
    /// # Errors
    /// The map cannot be written.
    pub fn leave_out_sessions(&self, count: u32) -> Result<(), TraceError> {
        self.tracer.leave_out_sessions(count)
    }

    /// Transactions that the replies have told by now.
    ///
    /// # Errors
    /// The map cannot be read.
    pub fn told_count(&self) -> Result<u64, TraceError> {
        let sets = self.tracer.latencies()?;
        Ok(sets.iter().flatten().map(|bucket| bucket.count).sum())
    }

    /// The measured part begins: opens the gate.
    ///
    /// # Errors
    /// The accounts cannot be read, or the gate cannot be moved.
    pub fn begin(
        &mut self,
        roles: &impl Classify,
        duration_ns: Option<u64>,
        control: bool,
    ) -> Result<u64, TraceError> {
        // Who is there now can be told now, whatever becomes of it.
        self.read(roles)?;
        if self.keeps_clocks() && !control {
            self.schedstats = schedstat::read(self.last.task_ids());
        }
        let now = self.tracer.open_gate()?;
        self.slices.begin(true, now);
        self.watch.begin(now, &self.last);
        self.schedule = Schedule::new(now, duration_ns, control);
        Ok(now)
    }

    /// When `tick` wants to be called next, on CLOCK_MONOTONIC.
    pub fn next_tick_ns(&self) -> u64 {
        self.schedule.next_ns()
    }

    /// Drains samples and follows the schedule. Call it at least every 100 ms.
    ///
    /// # Errors
    /// A map cannot be read or written.
    pub fn tick(&mut self, roles: &impl Classify) -> Result<(), TraceError> {
        let samples = &mut self.samples;
        self.tracer.drain_samples(|sample| samples.add(sample));
        let now = monotonic_ns();
        self.watch.tick(now, &self.accounts);
        if let Some(on) = self.schedule.gate_at(now) {
            self.move_gate(on, roles)?;
        }
        match self.schedule.window_at(now) {
            Some(true) => self.window = Some(self.tracer.open_stats_window()?),
            Some(false) => self.close_window()?,
            None => {}
        }
        Ok(())
    }

    fn move_gate(&mut self, on: bool, roles: &impl Classify) -> Result<(), TraceError> {
        // A slice with the programs off holds no instant in which they ran: it begins after the
        // gate is shut and ends before it is opened.
        if on {
            let opened_ns = self.tracer.open_gate()?;
            self.slices.begin(true, opened_ns);
            return Ok(());
        }
        self.tracer.shut_gate()?;
        let shut_ns = monotonic_ns();
        self.slices.begin(false, shut_ns);
        // What the clocks have open belongs to the states that they are in.
        if self.keeps_clocks() {
            self.read(roles)?;
            self.accounts.end_opening(&self.tracer.gate(), shut_ns, look);
        }
        Ok(())
    }

    fn keeps_clocks(&self) -> bool {
        self.plan.has(Capability::Scheduling)
    }

    fn close_window(&mut self) -> Result<(), TraceError> {
        if let Some(window) = self.window.take() {
            let (programs, window_ns) = self.tracer.close_stats_window(window)?;
            self.run_time = RunTime { programs, window_ns };
        }
        Ok(())
    }

    /// A transaction of the load has ended, on this backend if it is known.
    pub fn transaction(&mut self, ended_ns: u64, latency_ns: u64, backend: Option<u32>) {
        if self.slices.add(ended_ns, latency_ns) == Some(true)
            && let Some(tid) = backend
        {
            *self.by_backend.entry(tid).or_default() += 1;
        }
    }

    /// Reads the accounts; the interval that ends now gets its mark.
    ///
    /// # Errors
    /// A map cannot be read.
    pub fn end_interval(&mut self, roles: &impl Classify) -> Result<LiveInterval, TraceError> {
        self.read(roles)?;
        let end_ns = self.last.at_ns;
        if self.keeps_clocks() && self.slices.is_on() == Some(true) {
            self.accounts.look_into_opening(&self.tracer.gate(), end_ns);
        }
        // Slices do not cross intervals: each transaction belongs to one of either.
        if let Some(on) = self.slices.is_on() {
            self.slices.begin(on, end_ns);
        }
        let backends = self.accounts.sums(Group::Backend, &self.slices, end_ns);
        let before = self.marks.last().map(|mark| mark.backends.clone()).unwrap_or_default();
        let interval = backends.since(&before);
        let at_work = self.accounts.at_work();
        let latencies = match self.plan.has(Capability::Requests) {
            true => Latencies::of(&summed(&self.tracer.latencies()?)),
            false => Latencies::default(),
        };
        let told_by_set = self.accounts.told_by_set();
        self.marks.push(IntervalMark { end_ns, backends, latencies, told_by_set, at_work });
        let traced = self.slices.traced().transactions_count;
        let top = interval.by_class().map(|(class, waits)| (class, waits.total_ns));
        Ok(LiveInterval {
            transactions_count: traced - std::mem::replace(&mut self.traced_before, traced),
            spin_ns: interval.spin_ns(),
            top: top.max_by_key(|(_, ns)| *ns).filter(|(_, ns)| *ns > 0),
        })
    }

    fn read(&mut self, roles: &impl Classify) -> Result<(), TraceError> {
        self.last = self.tracer.snapshot()?;
        self.accounts.update(&self.last, |tid, account| roles.classify(tid, account));
        Ok(())
    }

    /// Shuts the gate and reads everything a last time. Transactions may still be handed in until
    /// [`Session::finish`].
    ///
    /// # Errors
    /// A map cannot be read or written.
    pub fn stop(&mut self, roles: &impl Classify) -> Result<(), TraceError> {
        let was_on = self.slices.is_on() == Some(true);
        // First of all: what ends after the measured part is nobody's to count.
        self.tracer.shut_gate()?;
        let shut_ns = monotonic_ns();
        self.slices.end(shut_ns);
        self.watch.stop(shut_ns, &self.last);
        self.close_window()?;
        let now = schedstat::read(self.last.task_ids());
        self.schedstats = schedstat::between(&self.schedstats, &now);
        self.schedule = Schedule::default();
        self.read(roles)?;
        if was_on && self.keeps_clocks() {
            self.accounts.end_opening(&self.tracer.gate(), shut_ns, look);
        }
        // A process titles itself after its fork, when its account was open already.
        self.accounts.reclassify(|key, record| roles.classify(key.tid, &record.account));
        let samples = &mut self.samples;
        self.tracer.drain_samples(|sample| samples.add(sample));
        Ok(())
    }

    /// Detaches and hands over what was found.
    ///
    /// # Errors
    /// A map cannot be read.
    pub fn finish(self) -> Result<Findings, TraceError> {
        // While the programs are loaded: their names go with them.
        let watched = self.watch.finish();
        let mut losses: HashMap<&'static str, u64> = HashMap::new();
        for (loss, count) in lockscope_ebpf::Loss::ALL.iter().zip(&self.last.machine.losses) {
            losses.insert(loss.name(), *count);
        }
        losses.insert("recursion_missed", self.tracer.recursion_misses()?);
        losses.insert("stacks_dropped", self.samples.dropped_stacks_count());
        losses.insert("open_at_end", self.tracer.open_waits(&self.last));
        let latency_sets = self.tracer.latencies()?;
        let elsewhere = self.tracer.open_elsewhere()?;
        let balance =
            balance(&self.accounts, &self.last.machine, elsewhere, self.tracer.cleared_count());
        Ok(Findings {
            balance,
            locks: self.tracer.locks()?,
            latencies: summed(&latency_sets),
            latency_sets,
            identities: self.tracer.identities()?,
            memory: self.tracer.memory().clone(),
            run_queues: self.tracer.run_queues().to_vec(),
            map_bytes: self.tracer.map_bytes(),
            rq_locks: self.tracer.rq_locks().to_vec(),
            knows_plug_size: self.tracer.offsets().plug_rq_count.is_some(),
            end_ns: self.last.at_ns,
            machine: self.last.machine,
            plan: self.plan,
            slices: self.slices,
            samples: self.samples,
            marks: self.marks,
            by_backend: self.by_backend,
            run_time: self.run_time,
            schedstats: self.schedstats,
            accounts: self.accounts,
            watched,
            losses,
        })
    }
}

/// All sets of buckets as one.
fn summed(sets: &[Vec<LatencyBucket>]) -> Vec<LatencyBucket> {
    let mut sum = sets.first().cloned().unwrap_or_default();
    for set in sets.iter().skip(1) {
        sum.iter_mut().zip(set).for_each(|(sum, more)| sum.add(more));
    }
    sum
}
