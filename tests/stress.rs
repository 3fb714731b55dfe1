//! The frame of every stressor: some threads repeat one operation for some seconds and say in one
//! line of JSON who did how much.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Barrier, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use clap::Parser;
use nix::unistd::gettid;
use serde_json::{Value, json};

/// What every stressor takes on its command line.
#[derive(Parser, Debug, Clone)]
pub struct Options {
    /// How long to go on
    #[arg(long, default_value_t = 3.0)]
    pub seconds: f64,
    /// Contending threads
    #[arg(long, default_value_t = 4)]
    pub threads: usize,
    /// A directory (for some a block device or file) to work on
    #[arg(long, default_value = "/dev/shm")]
    pub path: PathBuf,
    /// With all threads there, wait for the end of standard input
    #[arg(long)]
    pub wait: bool,
}

impl Options {
    /// How long to go on.
    ///
    /// # Errors
    /// When it is no time at all.
    pub fn duration(&self) -> Result<Duration> {
        Duration::try_from_secs_f64(self.seconds).context("strange --seconds")
    }

    /// Waits for the sign to start, if there is to be one. Asleep: who polls may contend.
    ///
    /// # Errors
    /// When standard input cannot be read.
    pub fn wait_for_start(&self) -> Result<()> {
        if self.wait {
            std::io::copy(&mut std::io::stdin(), &mut std::io::sink()).context("standard input")?;
        }
        Ok(())
    }
}

/// One thread's work, made once and then repeated.
pub type Operation<'a> = Box<dyn FnMut() -> Result<()> + 'a>;

/// Runs a stressor to its end and prints its line; see [`measure`].
///
/// # Errors
/// The first error of `prepare` or of an operation.
pub fn run<'a>(
    name: &str,
    options: &Options,
    prepare: impl Fn(usize) -> Result<Operation<'a>> + Sync,
) -> Result<()> {
    println!("{}", measure(name, options, prepare)?);
    Ok(())
}

/// Runs a stressor to its end: its line. `prepare` makes the operation of the thread with the given
/// index, in that thread; all threads start together when each has its own.
///
/// # Errors
/// The first error of `prepare` or of an operation.
pub fn measure<'a>(
    name: &str,
    options: &Options,
    prepare: impl Fn(usize) -> Result<Operation<'a>> + Sync,
) -> Result<Value> {
    if options.threads == 0 {
        bail!("--threads must be at least 1");
    }
    let duration = options.duration()?;
    let start = Barrier::new(options.threads + 1);
    let stop = AtomicBool::new(false);
    let mut began = Instant::now();
    let mut started = Ok(());
    let results: Vec<Result<Worker>> = thread::scope(|scope| {
        let workers: Vec<_> = (0..options.threads)
            .map(|index| {
                let (prepare, start, stop) = (&prepare, &start, &stop);
                scope.spawn(move || {
                    let operation = prepare(index);
                    start.wait();
                    work(operation?, stop)
                })
            })
            .collect();
        started = options.wait_for_start();
        began = Instant::now();
        start.wait();
        thread::sleep(duration);
        stop.store(true, Ordering::Relaxed);
        let lost = |_| bail!("a thread panicked");
        workers.into_iter().map(|worker| worker.join().unwrap_or_else(lost)).collect()
    });
    started?;
    let workers = results.into_iter().collect::<Result<Vec<Worker>>>()?;
    Ok(json!({
        "stressor": name,
        "pid": std::process::id(),
        "tids": workers.iter().map(|worker| worker.tid).collect::<Vec<_>>(),
        "operations": workers.iter().map(|worker| worker.operations_count).collect::<Vec<_>>(),
        "operations_count": workers.iter().map(|worker| worker.operations_count).sum::<u64>(),
        "elapsed_ns": u64::try_from(began.elapsed().as_nanos())?,
    }))
}

struct Worker {
    tid: i32,
    operations_count: u64,
}

fn work(mut operation: Operation<'_>, stop: &AtomicBool) -> Result<Worker> {
    let mut operations_count = 0;
    while !stop.load(Ordering::Relaxed) {
        operation()?;
        operations_count += 1;
    }
    Ok(Worker { tid: gettid().as_raw(), operations_count })
}

/// A thread that only burns CPU, to be scheduled, woken or moved by others. Ends when dropped.
#[derive(Debug)]
pub struct Victim {
    tid: i32,
    stop: std::sync::Arc<AtomicBool>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Victim {
    /// Starts the thread on one CPU.
    ///
    /// # Errors
    /// When the thread cannot be bound to that CPU.
    pub fn start(cpu: usize) -> Result<Self> {
        let stop = std::sync::Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let (sender, receiver) = mpsc::channel();
        let thread = thread::spawn(move || {
            let bound = bind_to(&[cpu]);
            if sender.send(bound.map(|()| gettid().as_raw())).is_ok() {
                while !stopped.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            }
        });
        let tid = receiver.recv().context("the victim thread died")??;
        Ok(Self { tid, stop, thread: Some(thread) })
    }

    /// The thread's id.
    #[must_use]
    pub fn tid(&self) -> i32 {
        self.tid
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // A panicked victim has nothing left to say.
            let _ = thread.join();
        }
    }
}

/// Binds the calling thread to some CPUs.
///
/// # Errors
/// When one of them does not exist or is not allowed.
pub fn bind_to(cpus: &[usize]) -> Result<()> {
    let mut set = nix::sched::CpuSet::new();
    for &cpu in cpus {
        set.set(cpu).with_context(|| format!("CPU {cpu}"))?;
    }
    nix::sched::sched_setaffinity(nix::unistd::Pid::from_raw(0), &set)
        .with_context(|| format!("cannot run on CPUs {cpus:?}"))
}

/// CPUs that the calling thread may run on.
///
/// # Errors
/// When the kernel does not say.
pub fn allowed_cpus() -> Result<Vec<usize>> {
    let set = nix::sched::sched_getaffinity(nix::unistd::Pid::from_raw(0))
        .context("cannot read the CPU affinity")?;
    let cpus = (0..nix::sched::CpuSet::count()).filter(|&cpu| set.is_set(cpu).unwrap_or(false));
    Ok(cpus.collect())
}
