//! Closed queueing networks, simulated event by event: clients that think, run on CPUs, and take locks by
//! spinning or by sleeping. The truth about a removed lock is the same network without it.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};

use fastrand::Rng;

use crate::model::{Load, Lock, PerTransaction, Run, SideLedger};

/// How a lock's waiters wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Waiting {
    /// On their CPU.
    Spin,
    /// Off it.
    Sleep,
    /// Off it, in Postgres's own lock.
    LwLock,
}

/// One step of a transaction. Times are means in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Step {
    /// Outside the server.
    Think(f64),
    Compute(f64),
    Acquire(usize),
    Release(usize),
}

/// A network: what every client does, over and over.
#[derive(Clone, Debug)]
pub(super) struct Network {
    pub(super) clients: usize,
    pub(super) cpus: usize,
    pub(super) locks: Vec<Waiting>,
    pub(super) steps: Vec<Step>,
    /// Exponential times; else each takes its mean.
    pub(super) random: bool,
}

impl Network {
    /// The same without a lock: what it guarded is done at once.
    pub(super) fn without(&self, lock: usize) -> Network {
        let is_of_it =
            |step: &Step| matches!(step, Step::Acquire(l) | Step::Release(l) if *l == lock);
        let steps = self.steps.iter().copied().filter(|step| !is_of_it(step)).collect();
        Network { steps, ..self.clone() }
    }

    /// Measures so many transactions, as lockscope would.
    pub(super) fn run(&self, transactions: u64) -> Run {
        let mut simulation = Simulation::new(self);
        simulation.go_on(transactions / 10);
        simulation.forget();
        simulation.go_on(transactions);
        simulation.measured()
    }
}

/// What a task is doing, for the account.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Doing {
    Think,
    Compute,
    Queued,
    Waits(usize),
}

struct Task {
    step: usize,
    doing: Doing,
    since: f64,
}

#[derive(Default)]
struct LockState {
    owner: Option<usize>,
    waiters: VecDeque<usize>,
}

struct Simulation<'network> {
    network: &'network Network,
    random: Rng,
    now: f64,
    begin: f64,
    tasks: Vec<Task>,
    locks: Vec<LockState>,
    idle_cpus: usize,
    ready: VecDeque<usize>,
    /// Ends of thinking and computing: when (as the bits of a positive number, which order as it does), whose.
    ends: BinaryHeap<Reverse<(u64, usize)>>,
    spent: BTreeMap<Doing, f64>,
    transactions: u64,
}

impl<'network> Simulation<'network> {
    fn new(network: &'network Network) -> Self {
        let task = || Task { step: 0, doing: Doing::Queued, since: 0.0 };
        let mut simulation = Self {
            network,
            random: Rng::with_seed(7),
            now: 0.0,
            begin: 0.0,
            tasks: (0..network.clients).map(|_| task()).collect(),
            locks: network.locks.iter().map(|_| LockState::default()).collect(),
            idle_cpus: network.cpus,
            ready: (0..network.clients).collect(),
            ends: BinaryHeap::new(),
            spent: BTreeMap::new(),
            transactions: 0,
        };
        simulation.dispatch();
        simulation
    }

    fn go_on(&mut self, transactions: u64) {
        let until = self.transactions + transactions;
        while self.transactions < until {
            let Some(Reverse((end, task))) = self.ends.pop() else { panic!("a deadlock") };
            self.now = f64::from_bits(end);
            self.tasks[task].step += 1;
            match self.tasks[task].doing {
                Doing::Think => {
                    self.turn_to(task, Doing::Queued);
                    self.ready.push_back(task);
                }
                _ => self.proceed(task),
            }
            self.dispatch();
        }
    }

    fn forget(&mut self) {
        for task in 0..self.tasks.len() {
            self.turn_to(task, self.tasks[task].doing);
        }
        self.spent.clear();
        self.begin = self.now;
        self.transactions = 0;
    }

    fn dispatch(&mut self) {
        while self.idle_cpus > 0
            && let Some(task) = self.ready.pop_front()
        {
            self.idle_cpus -= 1;
            self.proceed(task);
        }
    }

    /// Lets a task on a CPU do its steps until one takes time.
    fn proceed(&mut self, task: usize) {
        loop {
            if self.tasks[task].step == self.network.steps.len() {
                self.tasks[task].step = 0;
                self.transactions += 1;
            }
            match self.network.steps[self.tasks[task].step] {
                Step::Compute(mean) => return self.until(task, Doing::Compute, mean),
                Step::Think(mean) => {
                    self.idle_cpus += 1;
                    return self.until(task, Doing::Think, mean);
                }
                Step::Acquire(lock) if self.locks[lock].owner.is_none() => {
                    self.locks[lock].owner = Some(task);
                    self.tasks[task].step += 1;
                }
                Step::Acquire(lock) => {
                    self.locks[lock].waiters.push_back(task);
                    self.turn_to(task, Doing::Waits(lock));
                    if self.network.locks[lock] != Waiting::Spin {
                        self.idle_cpus += 1;
                    }
                    return;
                }
                Step::Release(lock) => {
                    self.tasks[task].step += 1;
                    self.hand_over(lock);
                }
            }
        }
    }

    /// To the spinner that waits longest; of sleepers one is woken, and tries again when it has a CPU.
    fn hand_over(&mut self, lock: usize) {
        self.locks[lock].owner = None;
        let Some(next) = self.locks[lock].waiters.pop_front() else { return };
        if self.network.locks[lock] == Waiting::Spin {
            self.locks[lock].owner = Some(next);
            self.tasks[next].step += 1;
            self.proceed(next);
        } else {
            self.turn_to(next, Doing::Queued);
            self.ready.push_back(next);
        }
    }

    fn until(&mut self, task: usize, doing: Doing, mean: f64) {
        self.turn_to(task, doing);
        let time = if self.network.random { -mean * (1.0 - self.random.f64()).ln() } else { mean };
        self.ends.push(Reverse(((self.now + time).to_bits(), task)));
    }

    fn turn_to(&mut self, task: usize, doing: Doing) {
        let task = &mut self.tasks[task];
        *self.spent.entry(task.doing).or_insert(0.0) += self.now - task.since;
        (task.doing, task.since) = (doing, self.now);
    }

    fn measured(mut self) -> Run {
        for task in 0..self.tasks.len() {
            self.turn_to(task, self.tasks[task].doing);
        }
        let mut run = Run::new();
        run.depth = "ledger".to_owned();
        run.load = Some(Load::default());
        run.workload.clients = self.tasks.len() as u32;
        run.workload.jobs = self.tasks.len() as u32;
        run.environment.cpu.count = self.network.cpus as u32;
        run.throughput.tps = 1e9 * self.transactions as f64 / (self.now - self.begin);
        run.throughput.traced_transactions_count = self.transactions;
        let each = |ns: f64| ns / self.transactions as f64;
        let spent = |doing: Doing| each(self.spent.get(&doing).copied().unwrap_or(0.0));
        let mut account = PerTransaction {
            cpu: Some(spent(Doing::Compute)),
            client_and_transport: Some(spent(Doing::Think)),
            ..PerTransaction::default()
        };
        account.runq_by_cause.insert("queued".to_owned(), spent(Doing::Queued));
        for (lock, waiting) in self.network.locks.iter().enumerate() {
            let ns = spent(Doing::Waits(lock));
            let (states, class) = match waiting {
                Waiting::Spin => (&mut account.spin, "qspinlock"),
                Waiting::Sleep => (&mut account.lock_sleep, "mutex"),
                Waiting::LwLock => (&mut account.wait, "LWLock"),
            };
            *states.entry(class.to_owned()).or_insert(0.0) += ns;
            if *waiting != Waiting::LwLock {
                run.locks.push(Lock {
                    class: class.to_owned(),
                    side: "server".to_owned(),
                    name: format!("lock_{lock}"),
                    total_ns: (ns * self.transactions as f64) as u64,
                    ..Lock::default()
                });
            }
        }
        let total = |(state, ns): (String, f64)| (state, (ns * self.transactions as f64) as u64);
        run.ledger.server = Some(SideLedger {
            states_ns: account.states().into_iter().map(total).collect(),
            per_transaction_ns: account,
            ..SideLedger::default()
        });
        run
    }
}

/// Exact mean value analysis (M. Reiser, S. Lavenberg, "Mean-value analysis of closed multichain queuing
/// networks", J. ACM 27, 1980) of queues with a server each and thinking: throughput per second.
pub(super) fn mean_value_analysis(clients: usize, think_ns: f64, demands_ns: &[f64]) -> f64 {
    let mut lengths = vec![0.0; demands_ns.len()];
    let mut throughput = 0.0;
    for n in 1..=clients {
        let residences: Vec<f64> = demands_ns
            .iter()
            .zip(&lengths)
            .map(|(demand, length)| demand * (1.0 + length))
            .collect();
        throughput = n as f64 / (think_ns + residences.iter().sum::<f64>());
        lengths = residences.iter().map(|residence| throughput * residence).collect();
    }
    1e9 * throughput
}
