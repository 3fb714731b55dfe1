//! A worker thread: it connects its clients and keeps their crew and a driver going.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender};

use super::abort::AbortReason;
use super::client::Client;
use super::crew::{Crew, Due, Leftover, Member, Rules};
use super::driver::{Action, Driver, EpollDriver, Io, UringDriver};
use super::record::RecordWriter;
use super::script::Scripts;
use super::shared::Shared;
use crate::clock::monotonic_ns;
use crate::load::connect::{CancelKey, ConnectError, Session, Target, Transport};
use crate::load::cpus::CpuList;
use crate::load::script::{ClientStreams, Definitions, Random};

/// A worker's word to its owner once its clients are connected.
#[derive(Debug)]
pub(crate) struct WorkerReport {
    pub(crate) tid: u32,
    /// What was set up, or the first thing that failed.
    pub(crate) outcome: Result<Ready, ConnectError>,
}

/// What a worker has set up.
#[derive(Debug)]
pub(crate) struct Ready {
    /// Backend pids by client.
    pub(crate) backend_pids: Vec<u32>,
    /// The driver in use, which TLS may have decided.
    pub(crate) io: Io,
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
    pub(crate) rules: Rules,
    pub(crate) io: Io,
    pub(crate) cpus: Option<CpuList>,
    pub(crate) records: RecordWriter,
    pub(crate) shared: Arc<Shared>,
    pub(crate) report: Sender<WorkerReport>,
    /// A message starts the load; the end of the channel ends the thread.
    pub(crate) command: Receiver<()>,
}

impl Worker {
    /// Connects, waits for the start, runs the load, and keeps the connections open until the owner
    /// lets go, so that whoever watches backends and threads sees all of the run.
    pub(crate) fn run(mut self) -> Leftover {
        let tid = nix::unistd::gettid().as_raw().cast_unsigned();
        let sessions = match self.connect() {
            Ok(sessions) => sessions,
            Err(error) => {
                // An owner that is gone needs no report.
                drop(self.report.send(WorkerReport { tid, outcome: Err(error) }));
                return Leftover::default();
            }
        };
        if sessions.iter().any(|session| session.transport.uses_tls()) {
            self.io = Io::Epoll;
        }
        let slots = sessions.len();
        match self.io {
            Io::Epoll => self.run_on(EpollDriver::new(slots), sessions, tid),
            Io::Uring => self.run_on(UringDriver::new(slots), sessions, tid),
        }
    }

    fn run_on<D: Driver>(
        self,
        driver: io::Result<D>,
        sessions: Vec<Session>,
        tid: u32,
    ) -> Leftover {
        let backend_pids = sessions.iter().map(|session| session.key.backend_pid).collect();
        let io = self.io;
        let (driver, outcome) = match driver {
            Ok(driver) => (Some(driver), Ok(Ready { backend_pids, io })),
            Err(source) => {
                (None, Err(ConnectError::Startup { place: self.target.place(), source }))
            }
        };
        drop(self.report.send(WorkerReport { tid, outcome }));
        let (Some(driver), Ok(())) = (driver, self.command.recv()) else {
            return Leftover::default();
        };
        let mut connections = Vec::new();
        let members = sessions.into_iter().zip(&self.clients).map(|(session, plan)| {
            connections.push((session.key, session.transport));
            let variables = self.scripts.variables(plan.number, &self.definitions);
            let client = Client::new(Arc::clone(&self.scripts), plan.streams.clone(), variables);
            Member::new(client, plan.number)
        });
        let (members, commands) = (members.collect(), self.scripts.command_sums());
        let shared = Arc::clone(&self.shared);
        let crew = Crew::new(members, self.rules, commands, self.records, shared);
        let mut work = Work { crew, driver, target: self.target, shared: self.shared };
        // The schedule of a worker is its first client's stream, as it is a thread's in pgbench.
        let schedule = self.clients.first().map(|plan| plan.streams.schedule.clone());
        work.run(connections, schedule.unwrap_or_else(|| Random::new(0)));
        let Work { crew, mut driver, .. } = work;
        let leftover = crew.finish();
        while self.command.recv().is_ok() {}
        (0..self.clients.len()).for_each(|slot| driver.close(slot));
        leftover
    }

    fn connect(&self) -> Result<Vec<Session>, ConnectError> {
        if let Some(cpus) = &self.cpus {
            let place = || self.target.place();
            cpus.pin_this_thread()
                .map_err(|source| ConnectError::Startup { place: place(), source })?;
        }
        let open = |_| Session::open(&self.target);
        self.clients.iter().map(open).collect()
    }
}

/// The load of one worker while it runs.
pub(super) struct Work<D> {
    pub(super) crew: Crew,
    pub(super) driver: D,
    pub(super) target: Arc<Target>,
    pub(super) shared: Arc<Shared>,
}

impl<D: Driver> Work<D> {
    pub(super) fn run(&mut self, connections: Vec<(CancelKey, Transport)>, schedule: Random) {
        for (slot, (key, transport)) in connections.into_iter().enumerate() {
            self.crew.connected(slot, key);
            if let Err(error) = self.driver.open(slot, transport) {
                self.crew.abort(slot, AbortReason::Io(error));
            }
        }
        self.crew.start(schedule);
        while self.crew.active() > 0 {
            // Scripts that send nothing are due again at once: sockets and clock come in between.
            for _ in 0..self.crew.count() {
                let Some(due) = self.crew.take_due() else { break };
                self.serve(due);
            }
            if let Err(error) = self.driver.wait(self.crew.next_due_ns(), &mut self.crew) {
                let code = error.raw_os_error().unwrap_or(libc::EIO);
                self.crew.abort_all(|| AbortReason::Io(io::Error::from_raw_os_error(code)));
            }
        }
    }

    fn serve(&mut self, due: Due) {
        let (slot, action) = match due {
            Due::Begin(slot) => {
                if self.crew.reconnects()
                    && let Err(reason) = self.reconnect(slot)
                {
                    self.crew.abort(slot, reason);
                    return;
                }
                (slot, self.crew.begin(slot))
            }
            Due::Wake(slot) => (slot, self.crew.wake(slot)),
        };
        match action {
            Action::Wait => {}
            Action::Send => {
                if let Err(error) = self.driver.send(slot, self.crew.request(slot)) {
                    self.crew.abort(slot, AbortReason::Io(error));
                    self.driver.close(slot);
                }
            }
            Action::Close => self.driver.close(slot),
        }
    }

    /// A connection for one transaction. The worker's other clients wait meanwhile, as pgbench's do.
    fn reconnect(&mut self, slot: usize) -> Result<(), AbortReason> {
        if self.driver.is_open(slot) {
            return Ok(());
        }
        let began_ns = monotonic_ns();
        let session =
            Session::open(&self.target).map_err(|error| AbortReason::Connect(Box::new(error)))?;
        self.shared.connected_in(monotonic_ns() - began_ns);
        self.crew.connected(slot, session.key);
        Ok(self.driver.open(slot, session.transport)?)
    }
}

#[cfg(test)]
mod tests;
