//! The life of a load, from its connections to its outcome.

use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::connect::Target;
use super::ending::{Patience, Step, Steps};
use super::engine::{
    AbortedClient, CommandSums, Io, Leftover, RecordReader, Shared, TransactionRecord,
};
use super::plan::LoadError;
use super::usage::Usage;

/// A worker thread as its owner sees it.
#[derive(Debug)]
pub(super) struct Handle {
    pub(super) thread: JoinHandle<Leftover>,
    pub(super) tid: u32,
    pub(super) command: Sender<()>,
    pub(super) records: Option<RecordReader>,
}

/// All clients are connected and all threads exist; nothing runs yet.
#[derive(Debug)]
pub struct ConnectedLoad {
    pub(super) workers: Vec<Handle>,
    pub(super) backend_pids: Vec<u32>,
    pub(super) shared: Arc<Shared>,
    pub(super) target: Arc<Target>,
    pub(super) io: Io,
    pub(super) connecting_ns: u64,
}

/// The load runs, or has run out of clients; connections stay open until [`Self::finish`].
#[derive(Debug)]
pub struct RunningLoad {
    workers: Vec<Handle>,
    shared: Arc<Shared>,
    target: Arc<Target>,
}

/// How the load ended.
#[derive(Debug)]
pub struct LoadOutcome {
    /// Clients that gave up, by their number.
    pub aborted: Vec<AbortedClient>,
    /// What commands took in the measured part, where that was asked for.
    pub commands: Option<CommandSums>,
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
