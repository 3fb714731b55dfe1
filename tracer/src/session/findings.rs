//! What a traced measurement found, and how it goes into the model.

use std::collections::HashMap;

use lockscope_ebpf::{LatencyBucket, LockClass};

use crate::collect::{Identities, Locks, Machine, Samples};
use crate::ledger::{
    Accounts, Group, Latencies, PlugProbes, SliceLoad, Slices, States, Sums, Transactions, bands,
    plug,
};
use crate::model::{
    Backend, Latency, Ledger, Mark, OwnCost, PerTransaction, Plug, ProgramCost, SideLedger,
    WaitBalance,
};
use crate::probe::{AttachPlan, Capability, Memory, Method};

use super::{IntervalMark, RunTime, Schedstat, Watched};

/// Housekeepers that worked less are not marked: they look for work now and then.
const AT_WORK_NS: u64 = 1_000_000;

/// Everything, detached from the kernel.
#[derive(Debug)]
pub struct Findings {
    /// How everything was attached.
    pub plan: AttachPlan,
    /// The slices with the programs on and off, with their load.
    pub slices: Slices,
    /// Every traced task.
    pub accounts: Accounts,
    /// The contended locks.
    pub locks: Locks,
    /// Transactions that backends ended, by latency.
    pub latencies: Vec<LatencyBucket>,
    /// The same, one set of buckets after the other.
    pub latency_sets: Vec<Vec<LatencyBucket>>,
    /// What those lie in, and who holds them.
    pub identities: Identities,
    /// What is known of this boot's memory.
    pub memory: Memory,
    /// Address of each CPU's run queue; 0 = not known.
    pub run_queues: Vec<u64>,
    /// The sampled waits.
    pub samples: Samples,
    /// The machine-wide counters.
    pub machine: Machine,
    /// Transactions that the load ended on each backend (by its tid) while the programs were on.
    pub by_backend: HashMap<u32, u64>,
    /// Interval ends.
    pub marks: Vec<IntervalMark>,
    /// What the programs cost.
    pub run_time: RunTime,
    /// The kernel's own count of each task's time, by tid, where the programs were on all the time.
    pub schedstats: HashMap<u32, Schedstat>,
    /// What perf events told beside the programs.
    pub watched: Watched,
    /// Losses by name.
    pub losses: HashMap<&'static str, u64>,
    /// What became of every wait.
    pub balance: WaitBalance,
    /// Kernel memory of the maps.
    pub map_bytes: u64,
    /// Address of each CPU's run-queue lock; 0 = not known.
    pub rq_locks: Vec<u64>,
    /// Whether this kernel tells how many requests a plug holds, so that empty flushes are seen.
    pub knows_plug_size: bool,
    /// When the last reading was taken, CLOCK_MONOTONIC.
    pub end_ns: u64,
}

impl Findings {
    /// Load of the slices that were on.
    pub fn traced(&self) -> SliceLoad {
        self.slices.traced()
    }

    /// The sum over a group of tasks; that of the others holds the untraced ones too.
    pub fn sums(&self, group: Group) -> Sums {
        let mut sums = self.accounts.sums(group, &self.slices, self.end_ns);
        if group == Group::Other {
            sums.add_others(&self.machine);
            // Of the untraced ones only the waits are known.
            if self.machine.other_waits.iter().any(|waits| waits.begin_count > 0) {
                sums.states = States::default();
                sums.wall_ns = 0;
            }
        }
        sums
    }

    /// Nanoseconds per traced transaction, by side. Only the backends' time is part of the latency,
    /// so only they have a remainder.
    pub fn ledger(&self) -> Ledger {
        let traced = self.traced();
        // Where lockscope makes no load itself, the replies alone tell transactions.
        let transactions = match traced.transactions_count {
            0 => self.told().count,
            counted => counted,
        };
        let mean =
            (traced.transactions_count > 0).then(|| traced.latency_ns as f64 / transactions as f64);
        let measured = self.measured_classes();
        let has_server = self.sums(Group::Backend).tasks_count > 0;
        let side = |group, latency| {
            let sums = self.sums(group);
            (group == Group::Other || sums.tasks_count > 0)
                .then(|| sums.side_ledger(&measured, transactions, latency))
        };
        let mut server = has_server.then(|| side(Group::Backend, mean)).flatten();
        if let Some(server) = &mut server {
            self.tell_transactions(server, &self.latencies, mean);
        }
        Ledger {
            server,
            background: side(Group::Background, None),
            client: side(Group::Client, None),
            other: side(Group::Other, None),
        }
    }

    /// Where the kernel side told transactions from each other, the server's means are theirs: what
    /// lies between them is left out, and the rest of the latency is the client's and the way's.
    fn tell_transactions(
        &self,
        server: &mut SideLedger,
        buckets: &[LatencyBucket],
        mean_latency_ns: Option<f64>,
    ) {
        let told = Transactions::of(buckets);
        if told.count == 0 {
            return;
        }
        let latency_ns = told.latency_ns as f64 / told.count as f64;
        let mut means = told.states.per_transaction(told.count);
        // Classes that were measured and had no wait.
        for (classes, measured) in [
            (&mut means.spin, &server.per_transaction_ns.spin),
            (&mut means.lock_sleep, &server.per_transaction_ns.lock_sleep),
        ] {
            for class in measured.keys() {
                classes.entry(class.clone()).or_insert(0.0);
            }
        }
        means.client_and_transport = mean_latency_ns.map(|mean| mean - latency_ns);
        server.per_transaction_ns = means;
        server.transactions_count = Some(told.count);
        server.latency_ns = Some(latency_ns);
        server.by_latency = bands(buckets);
    }

    /// Of several servers, the one whose transactions are counted in this set of buckets: what its
    /// replies told, and its backends' account, if it has any.
    pub fn of_set(&self, set: u8) -> (Transactions, Option<SideLedger>) {
        let buckets = self.latency_sets.get(usize::from(set).wrapping_sub(1));
        let buckets = buckets.map_or(&[][..], Vec::as_slice);
        let told = Transactions::of(buckets);
        let sums = self.accounts.sums_where(&self.slices, self.end_ns, |record| {
            record.group == Group::Backend && record.account.counted == set
        });
        if sums.tasks_count == 0 {
            return (told, None);
        }
        let mut ledger = sums.side_ledger(&self.measured_classes(), told.count, None);
        self.tell_transactions(&mut ledger, buckets, None);
        (told, Some(ledger))
    }

    /// Transactions that one of several servers told in the interval that a mark ends.
    pub fn transactions_of_set_in(&self, set: u8, index: usize) -> u64 {
        let until = |index: usize| {
            let mark = self.marks.get(index);
            mark.and_then(|mark| mark.told_by_set.get(&set)).copied().unwrap_or(0)
        };
        until(index).saturating_sub(index.checked_sub(1).map_or(0, until))
    }

    /// How long somebody was connected who made transactions.
    pub fn load_ns(&self) -> Option<u64> {
        let (begin_ns, end_ns) = self.accounts.load_between(self.end_ns)?;
        Some(self.slices.on_ns_between(begin_ns, end_ns)).filter(|ns| *ns > 0)
    }

    /// The transactions that the server's replies told.
    pub fn told(&self) -> Transactions {
        Transactions::of(&self.latencies)
    }

    /// Whether all of the time is split, or only that of locks.
    pub fn splits_all(&self) -> bool {
        self.plan.has(Capability::Scheduling)
    }

    fn measured_classes(&self) -> Vec<LockClass> {
        self.plan.measured_classes(self.rq_locks.iter().any(|address| *address != 0))
    }

    /// One row a traced task. A backend's transactions are those that its replies told; without
    /// their probe (or where no reply could be read: TLS), those that the load counted.
    pub fn backends(&self) -> Vec<Backend> {
        let seen = self.accounts.iter().any(|(_, task)| task.account.requests_count > 0);
        let told = self.plan.has(Capability::Requests) && seen;
        let others = self.traced().transactions_count == 0;
        let mut rows =
            self.accounts.backends(&self.slices, self.end_ns, |tid, account| match told {
                // Without a load of our own, only what was told is a transaction.
                true if others && self.splits_all() => Some(account.told_count),
                true => Some(account.transactions_count),
                false => self.by_backend.get(&tid).copied(),
            });
        for row in &mut rows {
            let counted = self.schedstats.get(&row.tid);
            row.schedstat_cpu_ns = counted.map(|counted| counted.cpu_ns);
            row.schedstat_runq_ns = counted.map(|counted| counted.runq_ns);
        }
        rows
    }

    /// Transactions that the backends' replies told; `None` without their probe.
    pub fn requests_told(&self) -> Option<u64> {
        let told = || self.accounts.iter().map(|(_, task)| task.account.transactions_count).sum();
        self.plan.has(Capability::Requests).then(told)
    }

    /// The plug table.
    pub fn plug(&self) -> Option<Plug> {
        let method = |capability| self.plan.probe(capability).map(|probe| probe.method);
        let probes = PlugProbes {
            events: self.plan.has(Capability::PlugEvents),
            events_without_cause: method(Capability::PlugEvents) == Some(Method::Tracepoint),
            calls: self.plan.has(Capability::PlugCalls),
            flush: self.plan.has(Capability::PlugFlush),
            flush_empties: self.knows_plug_size,
        };
        plug(&self.machine, probes, self.traced().transactions_count)
    }

    /// Who of the server's housekeepers was at work in the interval that a mark ends.
    pub fn at_work(&self, index: usize) -> Vec<Mark> {
        let Some(mark) = self.marks.get(index) else { return Vec::new() };
        let before = index.checked_sub(1).map(|index| &self.marks[index].at_work);
        let since = |kind: &str, ns: u64| {
            ns.saturating_sub(before.and_then(|before| before.get(kind)).copied().unwrap_or(0))
        };
        let worked = mark.at_work.iter().map(|(kind, ns)| (*kind, since(kind, *ns)));
        let mut marks: Vec<Mark> = worked
            .filter(|(_, busy_ns)| *busy_ns >= AT_WORK_NS)
            .map(|(kind, busy_ns)| Mark { kind: kind.to_owned(), busy_ns })
            .collect();
        marks.sort_by(|left, right| left.kind.cmp(&right.kind));
        marks
    }

    /// Transactions that the backends' replies told in the interval that a mark ends.
    pub fn transactions_in(&self, index: usize) -> u64 {
        let until =
            |index: usize| self.marks.get(index).map_or(0, |mark| self.told_of(&mark.backends));
        until(index).saturating_sub(index.checked_sub(1).map_or(0, until))
    }

    /// Latency on the server's side; `None` where no reply told a transaction.
    pub fn latency(&self) -> Option<Latency> {
        Latencies::of(&self.latencies).summary()
    }

    /// The same of the transactions in the interval that a mark ends.
    pub fn latencies_in(&self, index: usize) -> Latencies {
        let until = |index: usize| self.marks.get(index).map(|mark| mark.latencies.clone());
        let before = index.checked_sub(1).and_then(until).unwrap_or_default();
        until(index).unwrap_or_default().since(&before)
    }

    /// Without the clocks each `I` counts, that of a session's start too.
    fn told_of(&self, sums: &Sums) -> u64 {
        if self.splits_all() { sums.told_count } else { sums.transactions_count }
    }

    /// The backends' account in the interval that a mark ends; `None` without a transaction.
    pub fn interval(&self, index: usize, begin_ns: u64) -> Option<PerTransaction> {
        let mark = self.marks.get(index)?;
        let before = index.checked_sub(1).map(|index| self.marks[index].backends.clone());
        let sums = mark.backends.since(&before.unwrap_or_default());
        let load = self.slices.traced_between(begin_ns, mark.end_ns);
        let mean = (load.transactions_count > 0)
            .then(|| load.latency_ns as f64 / load.transactions_count as f64);
        let transactions = match self.traced().transactions_count {
            0 => self.told_of(&sums),
            _ => load.transactions_count,
        };
        sums.per_transaction(&self.measured_classes(), transactions, mean)
    }

    /// What the tracing itself cost, as far as it was measured. The ratios from the slices are
    /// the analysis's.
    pub fn own_cost(&self, cpus: usize) -> OwnCost {
        let mut cost = OwnCost { map_bytes: Some(self.map_bytes), ..OwnCost::default() };
        if self.run_time.window_ns == 0 {
            return cost;
        }
        let programs = &self.run_time.programs;
        let run_ns: u64 = programs.iter().map(|program| program.run_ns).sum();
        let run_count: u64 = programs.iter().map(|program| program.run_count).sum();
        let cpu_ns = self.run_time.window_ns as f64 * cpus.max(1) as f64;
        cost.bpf_ns_per_event = (run_count > 0).then(|| run_ns as f64 / run_count as f64);
        cost.bpf_cpu_percent = Some(100.0 * run_ns as f64 / cpu_ns);
        cost.bpf_programs = programs
            .iter()
            .map(|program| ProgramCost {
                name: program.program.to_owned(),
                run_count: program.run_count,
                run_ns: program.run_ns,
            })
            .collect();
        cost
    }
}
