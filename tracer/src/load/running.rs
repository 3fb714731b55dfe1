//! The life of a load, from the plan to its outcome.

use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use nix::sys::resource::{Resource, getrlimit, setrlimit};

use super::connect::{ConnectError, Target};
use super::cpus::CpuList;
use super::ending::{Patience, Step, Steps};
use super::engine::{
    AbortedClient, ClientPlan, CommandSums, CompileError, FailureRules, Io, Leftover, RecordReader,
    Rules, Scripts, Shared, TransactionRecord, Worker, WorkerReport, record_channel,
};
use super::script::{Definition, Definitions, Script, Streams};
use super::workload::Protocol;
use crate::clock::{monotonic_ns, thread_cpu_ns};
use crate::signals::Interrupt;

/// How often waiting looks at the interrupt flag.
const POLL: Duration = Duration::from_millis(50);
/// Files that are open beside the clients' sockets: epoll, maps, rings, reports.
const OTHER_FILES: u64 = 256;
const NS_PER_SECOND: f64 = 1e9;

/// What to run against which server.
#[derive(Debug)]
pub struct LoadPlan {
    /// The server.
    pub target: Arc<Target>,
    /// The scripts, each with its weight.
    pub scripts: Vec<(Script, u32)>,
    /// Variables that the user defines.
    pub definitions: Vec<Definition>,
    /// What becomes of failed transactions.
    pub failures: FailureRules,
    /// How statements travel.
    pub protocol: Protocol,
    /// Scale factor of the tables.
    pub scale: u32,
    /// Concurrent connections, at least 1.
    pub clients: u32,
    /// Worker threads, at least 1 and at most `clients`.
    pub jobs: u32,
    /// When transactions begin, and how many a client runs.
    pub timing: Timing,
    /// How sockets are driven.
    pub io: Io,
    /// Seed of all random values: the same seed gives each client the same values.
    pub seed: u64,
    /// CPUs for the worker threads.
    pub cpus: Option<CpuList>,
}

/// When transactions begin, and how many there are. By default each client begins one when the last
/// has ended, until [`RunningLoad::stop`].
#[derive(Clone, Debug, Default)]
pub struct Timing {
    /// Transactions a client runs (`-t`).
    pub transactions_per_client: Option<u64>,
    /// Transactions a second of all clients together, irregular like independent users' (`-R`).
    pub rate: Option<f64>,
    /// Latency limit (`-L`): under a rate, what is later than this before it begins is skipped.
    pub latency_limit_ns: Option<u64>,
    /// Pause of each client between two transactions.
    pub think_ns: u64,
    /// Time over which the clients begin, one after another.
    pub ramp_ns: u64,
    /// A connection a transaction (`-C`).
    pub reconnect: bool,
    /// Commands are measured (`-r`).
    pub measure_commands: bool,
    /// Errors of statements are told as they come (`--verbose-errors`).
    pub tell_errors: bool,
}

/// A load that cannot start.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// A client cannot connect.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// The scripts cannot be run as asked.
    #[error(transparent)]
    Compile(#[from] CompileError),
    /// The system gives no thread.
    #[error("the load cannot start: {0}")]
    Io(#[from] io::Error),
    /// The system allows too few open files.
    #[error(
        "{clients} clients need {needed} open files, but this process may open {limit}; raise the limit (ulimit -n {needed}) or use fewer clients (-c)"
    )]
    OpenFiles {
        /// `-c`.
        clients: u32,
        /// Files for them and the rest of the program.
        needed: u64,
        /// The hard limit.
        limit: u64,
    },
    /// A worker ended without a word.
    #[error("a worker thread of the load ended before it was connected")]
    WorkerLost,
    /// The user gave up.
    #[error("interrupted while the clients were connecting")]
    Interrupted,
}

/// A worker thread as its owner sees it.
#[derive(Debug)]
struct Handle {
    thread: JoinHandle<Leftover>,
    tid: u32,
    command: Sender<()>,
    records: Option<RecordReader>,
}

/// All clients are connected and all threads exist; nothing runs yet.
#[derive(Debug)]
pub struct ConnectedLoad {
    workers: Vec<Handle>,
    backend_pids: Vec<u32>,
    shared: Arc<Shared>,
    target: Arc<Target>,
    io: Io,
    connecting_ns: u64,
}

/// The load runs, or has run out of clients; connections stay open until [`Self::finish`].
#[derive(Debug)]
pub struct RunningLoad {
    workers: Vec<Handle>,
    shared: Arc<Shared>,
    target: Arc<Target>,
}

/// What a thread has used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Time on a CPU.
    pub cpu_ns: u64,
    /// Time ready to run and waiting for a CPU; absent where the kernel does not count it.
    pub run_queue_ns: Option<u64>,
}

impl Usage {
    fn of(tid: u32) -> Self {
        let path = format!("/proc/self/task/{tid}/schedstat");
        let text = std::fs::read_to_string(path).unwrap_or_default();
        let run_queue_ns = text.split_whitespace().nth(1).and_then(|field| field.parse().ok());
        Self { cpu_ns: thread_cpu_ns(tid).unwrap_or_default(), run_queue_ns }
    }

    /// Since `before`.
    pub fn since(self, before: Self) -> Self {
        let run_queue_ns = self.run_queue_ns.zip(before.run_queue_ns);
        Self {
            cpu_ns: self.cpu_ns.saturating_sub(before.cpu_ns),
            run_queue_ns: run_queue_ns.map(|(after, before)| after.saturating_sub(before)),
        }
    }
}

/// How the load ended.
#[derive(Debug)]
pub struct LoadOutcome {
    /// Clients that gave up, by their number.
    pub aborted: Vec<AbortedClient>,
    /// What commands took in the measured part, where that was asked for.
    pub commands: Option<CommandSums>,
}

impl LoadPlan {
    /// Starts the threads and connects every client.
    pub fn connect(self, interrupt: &Interrupt) -> Result<ConnectedLoad, LoadError> {
        raise_open_files(self.clients)?;
        let scripts = self.scripts.clone();
        let scripts = Arc::new(Scripts::compile(scripts, self.protocol, self.failures)?);
        let mut definitions = Definitions {
            given: self.definitions.clone(),
            scale: i64::from(self.scale),
            default_seed: 0,
            random_seed: self.seed,
        };
        let streams = Streams::new(self.seed, self.clients, definitions.has("default_seed"));
        definitions.default_seed = streams.default_seed;
        let definitions = Arc::new(definitions);
        let shared = Arc::new(Shared::new(self.clients as usize));
        let began_ns = monotonic_ns();
        let mut workers = Vec::new();
        for (job, clients) in (0..).zip(deal(self.clients, self.jobs)) {
            let plan = |number: u32| {
                let streams = streams.clients[number as usize].clone();
                ClientPlan { number, streams }
            };
            let clients = clients.map(plan).collect();
            workers.push(self.spawn(job, clients, &scripts, &definitions, &shared)?);
        }
        let mut handles = Vec::new();
        let mut backend_pids = Vec::new();
        let mut io = self.io;
        for (mut handle, reports) in workers {
            let report = wait_for_report(&reports, interrupt)?;
            handle.tid = report.tid;
            let ready = report.outcome?;
            backend_pids.extend(ready.backend_pids);
            io = ready.io;
            handles.push(handle);
        }
        let connecting_ns = monotonic_ns() - began_ns;
        let target = self.target;
        Ok(ConnectedLoad { workers: handles, backend_pids, shared, target, io, connecting_ns })
    }

    fn rules(&self) -> Rules {
        let timing = &self.timing;
        // Each worker has its share of the rate.
        let pace_ns = timing.rate.map(|rate| NS_PER_SECOND * f64::from(self.jobs) / rate);
        Rules {
            transaction_limit: timing.transactions_per_client,
            pace_ns,
            skip_after_ns: timing.latency_limit_ns.filter(|_| pace_ns.is_some()),
            retry_within_ns: timing.latency_limit_ns,
            think_ns: timing.think_ns,
            ramp_ns: timing.ramp_ns,
            clients: self.clients,
            reconnect: timing.reconnect,
            measure_commands: timing.measure_commands,
            tell_errors: timing.tell_errors,
        }
    }

    fn spawn(
        &self,
        job: u32,
        clients: Vec<ClientPlan>,
        scripts: &Arc<Scripts>,
        definitions: &Arc<Definitions>,
        shared: &Arc<Shared>,
    ) -> io::Result<(Handle, Receiver<WorkerReport>)> {
        let (writer, reader) = record_channel();
        let (report, reports) = channel();
        let (command, commands) = channel();
        let worker = Worker {
            target: Arc::clone(&self.target),
            scripts: Arc::clone(scripts),
            definitions: Arc::clone(definitions),
            clients,
            rules: self.rules(),
            io: self.io,
            cpus: self.cpus.clone(),
            records: writer,
            shared: Arc::clone(shared),
            report,
            command: commands,
        };
        let thread =
            std::thread::Builder::new().name(format!("load-{job}")).spawn(|| worker.run())?;
        Ok((Handle { thread, tid: 0, command, records: Some(reader) }, reports))
    }
}

/// Which clients each worker has, dealt as pgbench deals them: the first ones to the first.
pub fn deal(clients: u32, jobs: u32) -> Vec<Range<u32>> {
    let mut dealt = 0;
    let share = |job: u32| {
        let begin = dealt;
        dealt += (clients - dealt).div_ceil(jobs - job);
        begin..dealt
    };
    (0..jobs).map(share).collect()
}

/// Raises the limit of open files as far as needed and allowed.
fn raise_open_files(clients: u32) -> Result<(), LoadError> {
    let needed = u64::from(clients) + OTHER_FILES;
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).map_err(io::Error::from)?;
    if needed > hard {
        return Err(LoadError::OpenFiles { clients, needed, limit: hard });
    }
    if needed > soft {
        setrlimit(Resource::RLIMIT_NOFILE, needed, hard).map_err(io::Error::from)?;
    }
    Ok(())
}

fn wait_for_report(
    reports: &Receiver<WorkerReport>,
    interrupt: &Interrupt,
) -> Result<WorkerReport, LoadError> {
    loop {
        match reports.recv_timeout(POLL) {
            Ok(report) => return Ok(report),
            Err(RecvTimeoutError::Disconnected) => return Err(LoadError::WorkerLost),
            Err(RecvTimeoutError::Timeout) if interrupt.is_set() => {
                return Err(LoadError::Interrupted);
            }
            Err(RecvTimeoutError::Timeout) => {}
        }
    }
}

impl ConnectedLoad {
    /// Process ids of the clients' backends, in the server's pid namespace.
    pub fn backend_pids(&self) -> &[u32] {
        &self.backend_pids
    }

    /// Thread ids of the workers.
    pub fn worker_tids(&self) -> Vec<u32> {
        tids(&self.workers)
    }

    /// How the sockets are driven: under TLS, epoll whatever was asked for.
    pub fn io(&self) -> Io {
        self.io
    }

    /// From the first connection's begin to the last one's.
    pub fn connecting_ns(&self) -> u64 {
        self.connecting_ns
    }

    /// The measured part begins with the first transaction.
    pub fn measure(&self) {
        self.shared.measure();
    }

    /// Lets the clients go.
    pub fn start(self) -> RunningLoad {
        for worker in &self.workers {
            // A worker that is gone shows up as lost when it is joined.
            let _ = worker.command.send(());
        }
        RunningLoad { workers: self.workers, shared: self.shared, target: self.target }
    }
}

impl RunningLoad {
    /// Thread ids of the workers.
    pub fn worker_tids(&self) -> Vec<u32> {
        tids(&self.workers)
    }

    /// Clients that still run transactions.
    pub fn active_clients(&self) -> usize {
        self.shared.active_clients()
    }

    /// The measured part begins.
    pub fn measure(&self) {
        self.shared.measure();
    }

    /// Clients that gave up.
    pub fn aborted_clients(&self) -> usize {
        self.shared.aborted_clients()
    }

    /// Time spent in connecting anew (`-C`), and how often.
    pub fn connecting(&self) -> (u64, u64) {
        self.shared.connecting()
    }

    /// What the worker threads have used so far.
    pub fn usage(&self) -> Vec<Usage> {
        self.workers.iter().map(|worker| Usage::of(worker.tid)).collect()
    }

    /// Calls `on_record` for every transaction that ended since the last call, up to about 50 ms
    /// ago; ordered by time within a client, not across them.
    pub fn drain(&mut self, on_record: &mut dyn FnMut(&TransactionRecord)) {
        for worker in &mut self.workers {
            if let Some(records) = &mut worker.records
                && !records.drain(on_record)
            {
                worker.records = None;
            }
        }
    }

    /// Asks the clients to end after their current transaction.
    pub fn stop(&self) {
        self.shared.stop();
    }

    /// Stops the load, waits for the clients as long as `patience` says, drains the last records,
    /// and disconnects. `say` gets a sentence when that takes time.
    pub fn finish(
        mut self,
        patience: &Patience,
        on_record: &mut dyn FnMut(&TransactionRecord),
        say: &mut dyn FnMut(&str),
    ) -> Result<LoadOutcome, LoadError> {
        self.stop();
        let stopped = Instant::now();
        let mut steps = Steps::default();
        while self.workers.iter().any(|worker| worker.records.is_some()) {
            self.drain(on_record);
            if let Some(step) = steps.next(patience, stopped.elapsed()) {
                self.hurry(step, patience, say);
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        let (mut aborted, mut commands) = (Vec::new(), None::<CommandSums>);
        for worker in std::mem::take(&mut self.workers) {
            drop(worker.command);
            let leftover = worker.thread.join().map_err(|_| LoadError::WorkerLost)?;
            aborted.extend(leftover.aborted);
            if let Some(sums) = leftover.commands {
                commands.get_or_insert_with(|| sums.emptied()).add(&sums);
            }
        }
        aborted.sort_by_key(|client| client.client);
        Ok(LoadOutcome { aborted, commands })
    }

    /// Helps clients that have not ended yet to their end.
    fn hurry(&self, step: Step, patience: &Patience, say: &mut dyn FnMut(&str)) {
        let keys = self.shared.busy_keys();
        if keys.is_empty() {
            return;
        }
        let clients = match keys.len() {
            1 => "1 client".to_owned(),
            count => format!("{count} clients"),
        };
        match step {
            Step::Say => {
                let rest = patience.before_cancel.saturating_sub(patience.silent).as_secs_f64();
                say(&format!(
                    "waiting for {clients} to end their transactions; statements are cancelled in {rest:.1} s"
                ));
            }
            Step::Cancel => {
                say(&format!("asking the server to cancel the statements of {clients}"));
                self.shared.cancelled(patience.before_cancel.as_secs());
                for key in keys {
                    if let Err(error) = self.target.cancel(key) {
                        say(&format!("cannot cancel: {error}"));
                        break;
                    }
                }
            }
            Step::Cut => {
                say(&format!("giving up {clients}, whose transactions do not end"));
                self.shared.cut();
            }
        }
    }
}

impl Drop for RunningLoad {
    fn drop(&mut self) {
        self.stop();
    }
}

fn tids(workers: &[Handle]) -> Vec<u32> {
    workers.iter().map(|worker| worker.tid).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_are_dealt_as_pgbench_deals_them() {
        assert_eq!(deal(4, 2), [0..2, 2..4]);
        assert_eq!(deal(7, 3), [0..3, 3..5, 5..7]);
        assert_eq!(deal(3, 3), [0..1, 1..2, 2..3]);
    }

    #[test]
    fn use_is_what_came_since() {
        let usage = |cpu_ns, run_queue_ns| Usage { cpu_ns, run_queue_ns };
        assert_eq!(usage(10, Some(7)).since(usage(4, Some(2))), usage(6, Some(5)));
        assert_eq!(usage(10, None).since(usage(4, Some(2))), usage(6, None));
    }
}
