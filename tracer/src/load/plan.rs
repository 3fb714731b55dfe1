//! What to run, and everything made ready for it: threads, connections.

use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use nix::sys::resource::{Resource, getrlimit, setrlimit};

use super::connect::{ConnectError, Target};
use super::cpus::CpuList;
use super::engine::{
    ClientPlan, CompileError, FailureRules, Io, Rules, Scripts, Shared, Worker, WorkerReport,
    record_channel,
};
use super::running::{ConnectedLoad, Handle};
use super::script::{Definition, Definitions, Script, Streams};
use super::workload::Protocol;
use crate::clock::monotonic_ns;
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
/// has ended, until [`super::RunningLoad::stop`].
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
        "-c {clients} needs {needed} open files, but this process may open {limit}; raise the limit (ulimit -n {needed}) or use fewer clients (-c)"
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_are_dealt_as_pgbench_deals_them() {
        assert_eq!(deal(4, 2), [0..2, 2..4]);
        assert_eq!(deal(7, 3), [0..3, 3..5, 5..7]);
        assert_eq!(deal(3, 3), [0..1, 1..2, 2..3]);
    }
}
