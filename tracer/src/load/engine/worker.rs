//! A worker thread: one epoll instance, edge-triggered, and the clients it drives.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender};

use nix::errno::Errno;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags};

use super::abort::AbortReason;
use super::client::{Client, End, Progress};
use super::record::{RecordWriter, TransactionRecord};
use super::script::Scripts;
use crate::clock::monotonic_ns;
use crate::load::connect::{ConnectError, Received, Session, Target, Transport};
use crate::load::cpus::CpuList;
use crate::load::script::{ClientStreams, Definitions};

/// Longest time a record stays with its worker.
const HAND_OVER_NS: u64 = 50_000_000;
/// Longest sleep, after which flags are looked at and old records handed over.
const TICK_MS: u16 = 50;
/// How long transactions may go on after the run's end.
const GRACE_SECONDS: u64 = 5;
const RECEIVE_BYTES: usize = 64 * 1024;
const EVENTS: usize = 256;

/// What the workers and their owner share.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    /// When the owner asked to stop; 0 while the load runs.
    stopped_ns: AtomicU64,
    /// Clients that still run transactions.
    active_clients: AtomicUsize,
}

impl Shared {
    pub(crate) fn new(clients: usize) -> Self {
        Self { stopped_ns: AtomicU64::new(0), active_clients: AtomicUsize::new(clients) }
    }

    /// The first call counts: grace runs from it.
    pub(crate) fn stop(&self) {
        let now_ns = monotonic_ns();
        let _ = self.stopped_ns.compare_exchange(0, now_ns, Ordering::Relaxed, Ordering::Relaxed);
    }

    pub(crate) fn active_clients(&self) -> usize {
        self.active_clients.load(Ordering::Relaxed)
    }
}

/// A client that gave up.
#[derive(Debug)]
pub struct AbortedClient {
    /// Its number, from 0.
    pub client: u32,
    /// Its backend, in the server's pid namespace.
    pub backend_pid: u32,
    /// Why.
    pub reason: AbortReason,
}

/// A worker's word to its owner once its clients are connected.
#[derive(Debug)]
pub(crate) struct WorkerReport {
    pub(crate) tid: u32,
    /// Backend pids by client, or the first connection that failed.
    pub(crate) backends: Result<Vec<u32>, ConnectError>,
}

/// One client to be.
#[derive(Clone, Debug)]
pub(crate) struct ClientPlan {
    /// Its number, from 0.
    pub(crate) number: u32,
    pub(crate) streams: ClientStreams,
}

/// Everything a worker needs; [`Worker::run`] is its thread.
pub(crate) struct Worker {
    pub(crate) target: Arc<Target>,
    pub(crate) scripts: Arc<Scripts>,
    pub(crate) definitions: Arc<Definitions>,
    pub(crate) clients: Vec<ClientPlan>,
    /// Transactions a client runs, where that is limited.
    pub(crate) transaction_limit: Option<u64>,
    pub(crate) cpus: Option<CpuList>,
    pub(crate) records: RecordWriter,
    pub(crate) shared: Arc<Shared>,
    pub(crate) report: Sender<WorkerReport>,
    /// A message starts the load; the end of the channel ends the thread.
    pub(crate) command: Receiver<()>,
}

struct Connection {
    client: Client,
    transport: Transport,
    number: u32,
    backend_pid: u32,
    sequence: u64,
    sent_ns: u64,
    active: bool,
}

impl Worker {
    /// Connects, waits for the start, runs the load, and keeps the connections open until the owner
    /// lets go, so that whoever watches backends and threads sees all of the run.
    pub(crate) fn run(mut self) -> Vec<AbortedClient> {
        let connections = self.connect();
        let (backends, connections) = match connections {
            Ok(connections) => {
                let pids = connections.iter().map(|connection| connection.backend_pid).collect();
                (Ok(pids), connections)
            }
            Err(error) => (Err(error), Vec::new()),
        };
        let tid = nix::unistd::gettid().as_raw().cast_unsigned();
        // An owner that is gone sends no start either.
        drop(self.report.send(WorkerReport { tid, backends }));
        if self.command.recv().is_err() {
            return Vec::new();
        }
        let now_ns = monotonic_ns();
        let mut hot = HotLoop {
            active: connections.len(),
            connections,
            records: self.records,
            shared: self.shared,
            transaction_limit: self.transaction_limit,
            buffer: vec![0; RECEIVE_BYTES],
            aborted: Vec::new(),
            handed_over_ns: now_ns,
            now_ns,
        };
        hot.run();
        let HotLoop { connections, records, aborted, .. } = hot;
        drop(records);
        while self.command.recv().is_ok() {}
        say_goodbye(connections);
        aborted
    }

    fn connect(&mut self) -> Result<Vec<Connection>, ConnectError> {
        if let Some(cpus) = &self.cpus {
            let place = || self.target.place();
            cpus.pin_this_thread()
                .map_err(|source| ConnectError::Startup { place: place(), source })?;
        }
        self.clients.iter().map(|plan| self.open(plan)).collect()
    }

    fn open(&self, plan: &ClientPlan) -> Result<Connection, ConnectError> {
        let session = Session::open(&self.target, &[])?;
        let variables = self.scripts.variables(plan.number, &self.definitions);
        Ok(Connection {
            client: Client::new(Arc::clone(&self.scripts), plan.streams.clone(), variables),
            transport: session.transport,
            number: plan.number,
            backend_pid: session.backend_pid,
            sequence: 0,
            sent_ns: 0,
            active: true,
        })
    }
}

/// Terminate, so that the server does not log lost connections.
fn say_goodbye(connections: Vec<Connection>) {
    for mut connection in connections {
        // A connection that is broken already needs no farewell.
        drop(connection.transport.send(b"X\0\0\0\x04"));
    }
}

struct HotLoop {
    connections: Vec<Connection>,
    /// Connections that still run transactions.
    active: usize,
    records: RecordWriter,
    shared: Arc<Shared>,
    transaction_limit: Option<u64>,
    buffer: Vec<u8>,
    aborted: Vec<AbortedClient>,
    handed_over_ns: u64,
    /// The clock when it was last read.
    now_ns: u64,
}

impl HotLoop {
    fn run(&mut self) {
        let epoll = match self.register() {
            Ok(epoll) => epoll,
            Err(errno) => return self.abort_all(|| AbortReason::Io(errno.into())),
        };
        for index in 0..self.connections.len() {
            let begun = self.begin(index);
            self.settle(index, begun);
        }
        let mut events = [EpollEvent::empty(); EVENTS];
        while self.active > 0 {
            match epoll.wait(&mut events, TICK_MS) {
                Ok(0) => self.now_ns = monotonic_ns(),
                Ok(count) => {
                    for event in &events[..count] {
                        self.serve(&epoll, event);
                    }
                }
                Err(Errno::EINTR) => {}
                Err(errno) => self.abort_all(|| AbortReason::Io(errno.into())),
            }
            self.tick();
        }
    }

    fn register(&self) -> nix::Result<Epoll> {
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
        for (index, connection) in self.connections.iter().enumerate() {
            epoll.add(&connection.transport, interest(index, EpollFlags::EPOLLIN))?;
        }
        Ok(epoll)
    }

    fn serve(&mut self, epoll: &Epoll, event: &EpollEvent) {
        let index = event.data() as usize;
        if !self.connections[index].active {
            return;
        }
        if event.events().contains(EpollFlags::EPOLLOUT) {
            let resumed = self.resume_sending(epoll, index);
            self.settle(index, resumed);
        }
        // The end comes as an event of its own only if it was not there with the last bytes.
        let at_end = event.events().intersects(EpollFlags::EPOLLRDHUP | EpollFlags::EPOLLHUP);
        let served = self.receive(epoll, index, at_end);
        self.settle(index, served);
    }

    /// Takes everything that has arrived, and answers it; `at_end`: up to the end of the stream.
    fn receive(&mut self, epoll: &Epoll, index: usize, at_end: bool) -> Result<(), AbortReason> {
        loop {
            let connection = &mut self.connections[index];
            let (count, drained) = match connection.transport.receive(&mut self.buffer)? {
                Received::Bytes { count, drained } => (count, drained),
                Received::Nothing => return Ok(()),
                Received::End => return Err(AbortReason::Closed),
            };
            let mut progress = connection.client.receive(&self.buffer[..count], &mut ())?;
            while let Progress::Sleep(time) = progress {
                std::thread::sleep(time);
                progress = connection.client.wake(&mut ())?;
            }
            let complete = match progress {
                Progress::Waiting | Progress::Sleep(_) => true,
                Progress::Send => connection.transport.send(connection.client.request())?,
                Progress::Over(End { outcome, tries_count }) => {
                    let received_ns = monotonic_ns();
                    self.records.push(TransactionRecord {
                        backend_pid: connection.backend_pid,
                        outcome,
                        retries_count: tries_count - 1,
                        sequence: connection.sequence,
                        scheduled_ns: connection.sent_ns,
                        sent_ns: connection.sent_ns,
                        received_ns,
                    });
                    connection.sequence += 1;
                    if self.is_finished(index) {
                        self.deactivate(index);
                        return Ok(());
                    }
                    self.begin(index)?
                }
            };
            if !complete {
                self.watch(epoll, index, EpollFlags::EPOLLIN | EpollFlags::EPOLLOUT)?;
            }
            if drained && !at_end {
                return Ok(());
            }
        }
    }

    /// Sends the first request of a new transaction; false when the socket did not take all of it.
    fn begin(&mut self, index: usize) -> Result<bool, AbortReason> {
        let connection = &mut self.connections[index];
        connection.client.choose();
        connection.client.begin(&mut ())?;
        connection.sent_ns = monotonic_ns();
        self.now_ns = connection.sent_ns;
        Ok(connection.transport.send(connection.client.request())?)
    }

    fn resume_sending(&mut self, epoll: &Epoll, index: usize) -> Result<(), AbortReason> {
        if self.connections[index].transport.send_unsent()? {
            self.watch(epoll, index, EpollFlags::EPOLLIN)?;
        }
        Ok(())
    }

    fn watch(&self, epoll: &Epoll, index: usize, flags: EpollFlags) -> Result<(), AbortReason> {
        let mut event = interest(index, flags);
        let modified = epoll.modify(&self.connections[index].transport, &mut event);
        modified.map_err(|errno| AbortReason::Io(errno.into()))
    }

    fn is_finished(&self, index: usize) -> bool {
        let limit = self.transaction_limit;
        self.shared.stopped_ns.load(Ordering::Relaxed) != 0
            || limit.is_some_and(|limit| self.connections[index].sequence >= limit)
    }

    /// Looks after old records and the end of the run, by the clock as the last transaction or an
    /// idle wait read it.
    fn tick(&mut self) {
        if self.now_ns - self.handed_over_ns >= HAND_OVER_NS {
            self.records.hand_over();
            self.handed_over_ns = self.now_ns;
        }
        let stopped_ns = self.shared.stopped_ns.load(Ordering::Relaxed);
        // A reply without end ends no transaction and leaves no idle wait.
        if stopped_ns != 0
            && monotonic_ns().saturating_sub(stopped_ns) > GRACE_SECONDS * 1_000_000_000
        {
            self.abort_all(|| AbortReason::Stuck(GRACE_SECONDS));
        }
    }

    /// Ends a client that cannot go on; the others do.
    fn settle<T>(&mut self, index: usize, result: Result<T, AbortReason>) {
        if let Err(reason) = result
            && self.connections[index].active
        {
            let connection = &self.connections[index];
            let (client, backend_pid) = (connection.number, connection.backend_pid);
            self.aborted.push(AbortedClient { client, backend_pid, reason });
            self.deactivate(index);
        }
    }

    fn abort_all(&mut self, reason: impl Fn() -> AbortReason) {
        for index in 0..self.connections.len() {
            self.settle(index, Err::<(), _>(reason()));
        }
    }

    fn deactivate(&mut self, index: usize) {
        self.connections[index].active = false;
        self.active -= 1;
        self.shared.active_clients.fetch_sub(1, Ordering::Relaxed);
    }
}

fn interest(index: usize, flags: EpollFlags) -> EpollEvent {
    EpollEvent::new(flags | EpollFlags::EPOLLRDHUP | EpollFlags::EPOLLET, index as u64)
}

#[cfg(test)]
mod tests;
