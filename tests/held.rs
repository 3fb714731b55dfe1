//! The frame of the stressors whose lock is held by a sleeper: in each round, one holds the lock, all
//! others begin to wait for it, and only when every one of them is asleep does the hold go on for a
//! known time. So it is known how many waits there were, and how long each was at least.

use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Barrier, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use nix::unistd::gettid;
use serde_json::json;

use crate::stress::{Operation, Options};

/// How long the lock is held while all the others sleep.
const HOLD: Duration = Duration::from_millis(50);
/// Far beyond what waiters need to fall asleep.
const LIMIT: Duration = Duration::from_secs(20);

/// A lock that can be held while something else is done.
pub trait Hold {
    /// The thread that holds it.
    fn holder_tid(&self) -> i32;

    /// Takes the lock, calls `meanwhile` and lets it go.
    ///
    /// # Errors
    /// When it cannot be taken, or `meanwhile`'s.
    fn hold(&mut self, meanwhile: &mut dyn FnMut() -> Result<()>) -> Result<()>;
}

/// Runs rounds for the options' time and prints one line of JSON. `prepare` makes the operation by
/// which the waiter with the given index waits once, in the waiter's thread.
///
/// # Errors
/// The first error of the holder or of a waiter, or waiters that do not fall asleep.
pub fn run<'a>(
    name: &str,
    options: &Options,
    mut lock: impl Hold,
    prepare: impl Fn(usize) -> Result<Operation<'a>> + Sync,
) -> Result<()> {
    let waiters_count = options.threads;
    if waiters_count == 0 {
        bail!("--threads must be at least 1");
    }
    let duration = options.duration()?;
    let (begin, done) = (Barrier::new(waiters_count + 1), Barrier::new(waiters_count + 1));
    let stop = AtomicBool::new(false);
    let (sender, tids) = mpsc::channel();
    thread::scope(|scope| {
        let workers: Vec<_> = (0..waiters_count)
            .map(|index| {
                let (prepare, begin, done, stop) = (&prepare, &begin, &done, &stop);
                let sender = sender.clone();
                scope.spawn(move || {
                    let operation = prepare(index);
                    // The receiver lives until all have been spawned and have answered.
                    let _ = sender.send(gettid().as_raw());
                    wait_in_rounds(operation, begin, done, stop)
                })
            })
            .collect();
        let tids: Vec<i32> = tids.iter().take(waiters_count).collect();
        let mut result = options.wait_for_start();
        let began = Instant::now();
        let (mut rounds_count, mut held) = (0_u64, Duration::ZERO);
        while began.elapsed() < duration && result.is_ok() {
            let mut waiters_began = false;
            result = lock.hold(&mut || {
                waiters_began = true;
                begin.wait();
                all_asleep(&tids)?;
                let since = Instant::now();
                thread::sleep(HOLD);
                held += since.elapsed();
                rounds_count += 1;
                Ok(())
            });
            if waiters_began {
                done.wait();
            }
        }
        stop.store(true, Ordering::Relaxed);
        begin.wait();
        for worker in workers {
            let lost = |_| bail!("a waiter panicked");
            result = result.and(worker.join().unwrap_or_else(lost));
        }
        result?;
        let line = json!({
            "stressor": name,
            "pid": std::process::id(),
            "tids": tids,
            "holder_tid": lock.holder_tid(),
            "operations": tids.iter().map(|_| rounds_count).collect::<Vec<_>>(),
            "operations_count": rounds_count * waiters_count as u64,
            "rounds_count": rounds_count,
            "held_ns": u64::try_from(held.as_nanos())?,
            "elapsed_ns": u64::try_from(began.elapsed().as_nanos())?,
        });
        println!("{line}");
        Ok(())
    })
}

/// Waits once a round. After an error the rounds go on without it, so that nobody is stuck.
fn wait_in_rounds(
    operation: Result<Operation<'_>>,
    begin: &Barrier,
    done: &Barrier,
    stop: &AtomicBool,
) -> Result<()> {
    let (mut operation, mut result) = match operation {
        Ok(operation) => (Some(operation), Ok(())),
        Err(error) => (None, Err(error)),
    };
    loop {
        begin.wait();
        if stop.load(Ordering::Relaxed) {
            return result;
        }
        if let Some(wait) = &mut operation
            && let Err(error) = wait()
        {
            (operation, result) = (None, Err(error));
        }
        done.wait();
    }
}

/// Waits until every thread is in an uninterruptible sleep.
fn all_asleep(tids: &[i32]) -> Result<()> {
    let began = Instant::now();
    while !tids.iter().all(|&tid| is_asleep(tid)) {
        if began.elapsed() > LIMIT {
            bail!("the waiters do not fall asleep: nobody holds what they want");
        }
        thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}

fn is_asleep(tid: i32) -> bool {
    let stat = fs::read_to_string(format!("/proc/self/task/{tid}/stat")).unwrap_or_default();
    state(&stat) == Some('D')
}

/// The state in a line of `/proc/PID/stat`: what follows the name, which may hold anything.
fn state(stat: &str) -> Option<char> {
    stat.rsplit_once(") ")?.1.chars().next()
}

/// Waits for an answer of a helping thread.
///
/// # Errors
/// When that thread is gone.
pub fn receive<T>(answers: &mpsc::Receiver<T>) -> Result<T> {
    answers.recv().context("the holder's thread is gone")
}

#[cfg(test)]
mod tests {
    use super::state;

    #[test]
    fn a_name_may_look_like_a_state() {
        assert_eq!(state("12 (a) D (x)) S 1 12"), Some('S'));
        assert_eq!(state("12 (stress) D 1"), Some('D'));
        assert_eq!(state(""), None);
    }
}
