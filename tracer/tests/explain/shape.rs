//! Runs that are made up: a healthy one, and what a test changes of it.

use std::collections::BTreeMap;

use lockscope::model::{
    Counters, EventCount, Interval, Latency, Load, Lock, OffCpu, OffCpuStack, PerTransaction, Plug,
    PlugOwner, Postgres, Profile, ProfileFrame, ProfileStack, Run, RunVerdict, SideCounters,
    SideLedger, SideOffCpu, StorageLayer,
};

use super::made::noise;

/// Seconds, an interval each.
const INTERVALS: u64 = 10;

/// Functions that nobody asks for.
const OTHERS: [&str; 20] = [
    "f01", "f02", "f03", "f04", "f05", "f06", "f07", "f08", "f09", "f10", "f11", "f12", "f13",
    "f14", "f15", "f16", "f17", "f18", "f19", "f20",
];

/// What a run is like, in the terms of the signatures.
#[derive(Clone, Debug)]
pub(crate) struct Shape {
    pub(crate) kernel: &'static str,
    pub(crate) postgres: &'static str,
    pub(crate) config: BTreeMap<&'static str, &'static str>,
    pub(crate) file_system: &'static str,
    pub(crate) mount_options: &'static str,
    pub(crate) stripe: bool,
    pub(crate) rotational: bool,
    pub(crate) workload: &'static str,
    pub(crate) clients: u32,
    /// Nanoseconds a transaction by state; the mean latency is their sum.
    pub(crate) states: BTreeMap<&'static str, f64>,
    /// Side, class, name, caller, nanoseconds a transaction.
    pub(crate) locks: Vec<(&'static str, &'static str, &'static str, &'static str, f64)>,
    /// Frames, innermost first, and their share of every side's CPU time.
    pub(crate) hot: Vec<(&'static [&'static str], f64)>,
    /// The same of the backends' time asleep.
    pub(crate) asleep: Vec<(&'static [&'static str], f64)>,
    pub(crate) ipc: f64,
    pub(crate) l1d_miss_share: f64,
    pub(crate) switches: f64,
    pub(crate) involuntary_share: f64,
    pub(crate) flushes: f64,
    pub(crate) requests_per_flush: f64,
    pub(crate) verdict: (&'static str, &'static str),
}

impl Shape {
    /// 16 clients on 8 CPUs; nothing takes more than it should.
    pub(crate) fn healthy() -> Shape {
        Shape {
            kernel: "6.1.90",
            postgres: "17.2",
            config: [("CONFIG_PSI", "y"), ("CONFIG_PREEMPT_NONE", "n")].into(),
            file_system: "ext4",
            mount_options: "rw,relatime",
            stripe: false,
            rotational: false,
            workload: "tpcb-like",
            clients: 16,
            states: [
                ("cpu", 400_000.0),
                ("io", 60_000.0),
                ("runq.queued", 20_000.0),
                ("spin.qspinlock", 1_000.0),
                ("spin.rq", 500.0),
                ("lock_sleep.rwsem", 500.0),
                ("client_and_transport", 318_000.0),
            ]
            .into(),
            locks: vec![
                ("server", "qspinlock", "(ep_poll_callback)", "ep_poll_callback", 1_000.0),
                ("server", "rq", "rq[0].lock", "__schedule", 500.0),
                ("server", "rwsem", "inode.i_rwsem (ext4)", "ext4_buffered_write_iter", 500.0),
                ("client", "qspinlock", "(ep_poll_callback)", "ep_poll_callback", 200.0),
            ],
            hot: vec![
                (&["hash_search", "BufferAlloc", "StrategyGetBuffer", "PostgresMain"], 0.02),
                (&["ExecInterpExpr", "ExecProcNode", "PostgresMain"], 0.04),
                (&["update_load_avg", "enqueue_task_fair", "try_to_wake_up"], 0.01),
                (&["schedule", "PostgresMain"], 0.03),
            ],
            asleep: vec![(&["do_epoll_wait", "WaitEventSetWait"], 0.4)],
            ipc: 1.08,
            l1d_miss_share: 0.02,
            switches: 2.0,
            involuntary_share: 0.05,
            flushes: 0.2,
            requests_per_flush: 4.0,
            verdict: ("cpu", "not a kernel lock: plain CPU time"),
        }
    }

    pub(crate) fn with(&self, change: impl Fn(&mut Shape)) -> Shape {
        let mut changed = self.clone();
        change(&mut changed);
        changed
    }

    /// The run, with noise of `seed`.
    pub(crate) fn run(&self, seed: u64) -> Run {
        let mut run = Run::new();
        run.depth = "ledger".to_owned();
        run.started_at = "2026-11-30T10:00:00Z".to_owned();
        run.workload.name = self.workload.to_owned();
        run.workload.protocol = "prepared".to_owned();
        (run.workload.clients, run.workload.jobs, run.workload.scale) = (self.clients, 4, 100);
        run.workload.duration_ns = INTERVALS * 1_000_000_000;
        self.surroundings(&mut run);
        run.load = Some(Load { io: "epoll".to_owned(), ..Load::default() });
        let latency: f64 = self.states.values().sum();
        self.series(&mut run, seed);
        run.throughput.tps = f64::from(self.clients) * 1e9 / latency;
        run.throughput.transactions_count = (run.throughput.tps * INTERVALS as f64) as u64;
        run.throughput.traced_transactions_count = run.throughput.transactions_count;
        let of = |share: f64| (latency * share) as u64;
        run.latency_ns = Some(Latency {
            mean: of(1.0),
            p50: of(0.9),
            p90: of(1.4),
            p95: of(1.8),
            p99: of(3.0),
            p999: of(6.0),
            max: of(20.0),
            ..Latency::default()
        });
        let (kind, text) = self.verdict;
        let (kind, text) = (kind.to_owned(), text.to_owned());
        run.verdict = Some(RunVerdict { kind, text, evidence: Vec::new() });
        run.ledger.server = Some(SideLedger {
            per_transaction_ns: self.account(|| 0.0),
            tasks_count: u64::from(self.clients),
            ..SideLedger::default()
        });
        let threads = u64::from(run.workload.jobs);
        run.ledger.client = Some(SideLedger {
            tasks_count: threads,
            wall_ns: Some(threads * run.workload.duration_ns),
            ..SideLedger::default()
        });
        let traced = run.throughput.traced_transactions_count as f64;
        run.locks = self.locks.iter().map(|lock| self::lock(lock, traced)).collect();
        run.plug = Some(Plug {
            flushes_per_transaction: Some(self.flushes),
            requests_per_flush: Some(self.requests_per_flush),
            by_owner: [("server".to_owned(), self.flushed(traced))].into(),
            ..Plug::default()
        });
        run.counters = Some(self.counters(traced));
        run.profile = Some(self.profile());
        run.off_cpu = Some(self.sleeps());
        run
    }

    /// All flushes are the backends'.
    fn flushed(&self, traced: f64) -> PlugOwner {
        let count = self.flushes * traced;
        PlugOwner {
            unplug_count: Some(count as u64),
            requests_count: Some((count * self.requests_per_flush) as u64),
            flush_count: Some(count as u64),
            ..PlugOwner::default()
        }
    }

    fn surroundings(&self, run: &mut Run) {
        let environment = &mut run.environment;
        environment.kernel.release = self.kernel.to_owned();
        let flags = self.config.iter().map(|(name, value)| (own(name), own(value)));
        environment.kernel.config_flags = flags.collect();
        environment.cpu.count = 8;
        let version = self.postgres.to_owned();
        environment.postgres = Some(Postgres { version, ..Postgres::default() });
        let layer = |kind: &str, name: &str, attribute: (&str, &str)| StorageLayer {
            kind: own(kind),
            name: own(name),
            attributes: [(own(attribute.0), own(attribute.1))].into(),
        };
        environment.storage =
            vec![layer("filesystem", self.file_system, ("options", self.mount_options))];
        if self.stripe {
            environment.storage.push(layer("dm", "vg-pg", ("target", "striped")));
        }
        let rotational = if self.rotational { "1" } else { "0" };
        environment.storage.push(layer("disk", "sda", ("rotational", rotational)));
    }

    fn series(&self, run: &mut Run, seed: u64) {
        let mut noise = noise(seed);
        for index in 0..INTERVALS {
            let account = self.account(|| 0.02 * noise());
            let latency = account.total_ns() + account.rest_ns().unwrap_or_default();
            run.intervals.push(Interval {
                start_ns: index * 1_000_000_000,
                duration_ns: 1_000_000_000,
                tps: f64::from(self.clients) * 1e9 / latency,
                latency_ns: Some(latency as u64),
                latency_p99_ns: Some((3.0 * latency) as u64),
                per_transaction_ns: Some(account),
                ..Interval::default()
            });
        }
    }

    fn account(&self, mut noise: impl FnMut() -> f64) -> PerTransaction {
        let mut account = PerTransaction { irq: Some(0.0), ..PerTransaction::default() };
        for (state, ns) in &self.states {
            let ns = ns * (1.0 + noise());
            match state.split_once('.') {
                Some(("spin", class)) => account.spin.insert(own(class), ns),
                Some(("lock_sleep", class)) => account.lock_sleep.insert(own(class), ns),
                Some(("runq", cause)) => account.runq_by_cause.insert(own(cause), ns),
                Some(("wait", class)) => account.wait.insert(own(class), ns),
                _ => {
                    let place = match *state {
                        "cpu" => &mut account.cpu,
                        "io" => &mut account.io,
                        _ => &mut account.client_and_transport,
                    };
                    place.replace(ns)
                }
            };
        }
        account.runq = Some(account.runq_by_cause.values().sum());
        account
    }

    fn counters(&self, transactions: f64) -> Counters {
        let instructions = 1e9;
        let event = |count: f64| EventCount {
            count: count as u64,
            per_cpu_ns: count / instructions,
            running_share: 1.0,
        };
        let loads = 1e8;
        let events = [
            ("instructions", event(instructions)),
            ("cycles", event(instructions / self.ipc)),
            ("L1-dcache-loads", event(loads)),
            ("L1-dcache-load-misses", event(loads * self.l1d_miss_share)),
        ];
        let switches = self.switches * transactions;
        let server = SideCounters {
            tasks_count: u64::from(self.clients),
            // As many instructions a transaction, whatever it costs.
            task_clock_ns: (300_000.0 * transactions) as u64,
            context_switches_count: switches as u64,
            involuntary_switches_count: (switches * self.involuntary_share) as u64,
            events: events.map(|(name, event)| (own(name), event)).into(),
            ..SideCounters::default()
        };
        Counters { sides: [("server".to_owned(), server)].into(), ..Counters::default() }
    }

    fn profile(&self) -> Profile {
        let mut profile = Profile { frequency_hz: 99, ..Profile::default() };
        let known: f64 = self.hot.iter().map(|(_, share)| share).sum();
        let rest = (1.0 - known) / OTHERS.len() as f64;
        let hot = self.hot.iter().map(|(symbols, share)| (symbols.to_vec(), *share));
        let others = OTHERS.iter().map(|symbol| (vec![*symbol, "PostgresMain"], rest));
        for (symbols, share) in hot.chain(others) {
            let frames = numbers(&symbols, &mut profile.frames);
            let count = (share * 10_000.0).round() as u64;
            for side in ["server", "client"] {
                profile.stacks.push(ProfileStack {
                    side: own(side),
                    command: own("postgres"),
                    samples_count: count,
                    weight: count,
                    frames: frames.clone(),
                });
            }
        }
        profile.samples_count = profile.stacks.iter().map(|stack| stack.samples_count).sum();
        profile
    }

    fn sleeps(&self) -> OffCpu {
        let mut off_cpu = OffCpu::default();
        let stacks = self.asleep.iter().map(|(frames, share)| OffCpuStack {
            share: *share,
            sleeps_count: 100,
            mean_ns: 500_000,
            frames: numbers(frames, &mut off_cpu.frames),
            wakers: Vec::new(),
        });
        let server = SideOffCpu { stacks: stacks.collect(), ..SideOffCpu::default() };
        off_cpu.sides.insert("server".to_owned(), server);
        off_cpu
    }
}

fn own(text: &str) -> String {
    text.to_owned()
}

fn lock(
    (side, class, name, caller, ns): &(&str, &str, &str, &str, f64),
    transactions: f64,
) -> Lock {
    Lock {
        class: own(class),
        name: own(name),
        side: own(side),
        caller: Some(own(caller)),
        total_ns: (ns * transactions) as u64,
        count: transactions as u64,
        ..Lock::default()
    }
}

/// Numbers of frames, which are added where they are new.
fn numbers(symbols: &[&str], frames: &mut Vec<ProfileFrame>) -> Vec<u32> {
    let mut number = |symbol: &str| {
        let found = frames.iter().position(|frame| frame.symbol == symbol);
        let index = found.unwrap_or_else(|| {
            let object = own("[kernel]");
            frames.push(ProfileFrame { symbol: own(symbol), object, unknown: None });
            frames.len() - 1
        });
        u32::try_from(index).expect("few frames")
    };
    symbols.iter().map(|symbol| number(symbol)).collect()
}
