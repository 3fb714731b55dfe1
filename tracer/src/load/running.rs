//! The life of a load, from the plan to its outcome.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use nix::sys::resource::{Resource, getrlimit, setrlimit};

use super::connect::{ConnectError, Target};
use super::cpus::CpuList;
use super::engine::{
    AbortedClient, ClientPlan, CompileError, FailureRules, RecordReader, Scripts, Shared,
    TransactionRecord, Worker, WorkerReport, record_channel,
};
use super::script::{Definitions, ParseOptions, ScriptError, Streams, parse};
use super::workload::{Protocol, Workload};
use crate::clock::thread_cpu_ns;
use crate::signals::Interrupt;

/// How often waiting looks at the interrupt flag.
const POLL: Duration = Duration::from_millis(50);
/// Files that are open beside the clients' sockets: epoll, maps, rings, reports.
const OTHER_FILES: u64 = 256;

/// What to run against which server.
#[derive(Debug)]
pub struct LoadPlan {
    /// The server.
    pub target: Arc<Target>,
    /// The script.
    pub workload: &'static Workload,
    /// How statements travel.
    pub protocol: Protocol,
    /// Scale factor of the tables.
    pub scale: u32,
    /// Concurrent connections, at least 1.
    pub clients: u32,
    /// Worker threads, at least 1 and at most `clients`.
    pub jobs: u32,
    /// Transactions a client runs; without it, clients run until [`RunningLoad::stop`].
    pub transactions_per_client: Option<u64>,
    /// Seed of all random values: the same seed gives each client the same values.
    pub seed: u64,
    /// CPUs for the worker threads.
    pub cpus: Option<CpuList>,
}

/// A load that cannot start.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// A client cannot connect.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// A script is wrong.
    #[error(transparent)]
    Script(#[from] ScriptError),
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
    thread: JoinHandle<Vec<AbortedClient>>,
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
}

/// The load runs, or has run out of clients; connections stay open until [`Self::finish`].
#[derive(Debug)]
pub struct RunningLoad {
    workers: Vec<Handle>,
    shared: Arc<Shared>,
}

/// How the load ended.
#[derive(Debug)]
pub struct LoadOutcome {
    /// Clients that gave up, by their number.
    pub aborted: Vec<AbortedClient>,
}

impl LoadPlan {
    /// Starts the threads and connects every client.
    pub fn connect(self, interrupt: &Interrupt) -> Result<ConnectedLoad, LoadError> {
        raise_open_files(self.clients)?;
        let script = parse(self.workload.script, self.workload.name, ParseOptions::default())?;
        let rules = FailureRules::default();
        let scripts = Arc::new(Scripts::compile(vec![(script, 1)], self.protocol, rules)?);
        let streams = Streams::new(self.seed, self.clients, false);
        let definitions = Arc::new(Definitions {
            given: Vec::new(),
            scale: i64::from(self.scale),
            default_seed: streams.default_seed,
            random_seed: self.seed,
        });
        let shared = Arc::new(Shared::new(self.clients as usize));
        let mut workers = Vec::new();
        for job in 0..self.jobs {
            // Client n belongs to worker n modulo jobs.
            let clients = (job..self.clients)
                .step_by(self.jobs as usize)
                .map(|number| ClientPlan {
                    number,
                    streams: streams.clients[number as usize].clone(),
                })
                .collect();
            workers.push(self.spawn(job, clients, &scripts, &definitions, &shared)?);
        }
        let mut handles = Vec::new();
        let mut backend_pids = Vec::new();
        for (mut handle, reports) in workers {
            let report = wait_for_report(&reports, interrupt)?;
            handle.tid = report.tid;
            backend_pids.extend(report.backends?);
            handles.push(handle);
        }
        Ok(ConnectedLoad { workers: handles, backend_pids, shared })
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
            transaction_limit: self.transactions_per_client,
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

    /// Lets the clients go.
    pub fn start(self) -> RunningLoad {
        for worker in &self.workers {
            // A worker that is gone shows up as lost when it is joined.
            let _ = worker.command.send(());
        }
        RunningLoad { workers: self.workers, shared: self.shared }
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

    /// CPU time of the worker threads so far.
    pub fn cpu_ns(&self) -> u64 {
        self.workers.iter().filter_map(|worker| thread_cpu_ns(worker.tid)).sum()
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

    /// Stops the load, waits for the clients, drains the last records, and disconnects.
    pub fn finish(
        mut self,
        on_record: &mut dyn FnMut(&TransactionRecord),
    ) -> Result<LoadOutcome, LoadError> {
        if self.active_clients() > 0 {
            self.stop();
        }
        while self.workers.iter().any(|worker| worker.records.is_some()) {
            self.drain(on_record);
            std::thread::sleep(Duration::from_millis(1));
        }
        let mut aborted = Vec::new();
        for worker in std::mem::take(&mut self.workers) {
            drop(worker.command);
            aborted.extend(worker.thread.join().map_err(|_| LoadError::WorkerLost)?);
        }
        aborted.sort_by_key(|client| client.client);
        Ok(LoadOutcome { aborted })
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
