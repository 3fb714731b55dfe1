//! The findings in words: what share of the latency kernel locks have, which one leads, what is
//! not yet split, and where to look next. A pure function of the run.

use super::units::{duration, percent, plural};
use crate::model::{Lock, PerTransaction, Run, SideLedger};

/// From this share of the mean latency on, locks are worth the first look.
const WORTH_A_LOOK: f64 = 0.05;
/// Fewer samples than this are said to be few.
const FEW_SAMPLES: u64 = 30;

/// The paragraphs, not wrapped.
pub fn findings(run: &Run) -> Vec<String> {
    let sides = [("server", &run.ledger.server), ("client", &run.ledger.client)];
    let traced = sides.iter().any(|(_, side)| side.is_some());
    if !traced {
        return vec![not_traced(run)];
    }
    if run.throughput.traced_transactions_count == 0 {
        return vec![without_transactions(run)];
    }
    let mut paragraphs = vec![lock_time(run)];
    paragraphs.extend(remainder(run));
    paragraphs.push(next_step(run));
    paragraphs
}

fn not_traced(run: &Run) -> String {
    let mut text = "The kernel was not traced: nothing is known about its locks".to_owned();
    match &run.latency_ns {
        Some(latency) => {
            text += &format!(
                ", and the mean latency of {} is not yet split at all.",
                duration(latency.mean as f64)
            );
        }
        None => text += ".",
    }
    text + " `lockscope doctor` says what tracing needs here."
}

fn without_transactions(run: &Run) -> String {
    let mut text = "No transaction ended while the kernel was traced, so no time can be put on a \
                    transaction."
        .to_owned();
    match run.locks.first() {
        Some(lock) => {
            text += &format!(
                " Waits were seen all the same: the longest total is {} in {} on {}.",
                duration(lock.total_ns as f64),
                plural(lock.count, "wait"),
                described(lock)
            );
        }
        None => text += " No lock wait was seen either.",
    }
    text
}

/// The share of lock time and its leader, then the other sides.
fn lock_time(run: &Run) -> String {
    let mut sentences = Vec::new();
    if let Some(server) = &run.ledger.server {
        sentences.push(server_share(run, server));
        sentences.extend(leader(run, "server", server));
        sentences.extend(background_share(run, server));
    }
    if let Some(client) = &run.ledger.client {
        let lock_ns = client.per_transaction_ns.lock_ns();
        let beside = run.ledger.server.as_ref().map_or(0.0, |s| s.per_transaction_ns.lock_ns());
        if lock_ns > 0.0 {
            let more = if lock_ns > beside { ", more than the server" } else { "" };
            sentences.push(format!(
                "The load generator spent {} a transaction on kernel locks, in its own time{more}.",
                duration(lock_ns)
            ));
            sentences.extend(leader(run, "client", client));
        } else {
            sentences.push("The load generator met no contended kernel lock.".to_owned());
        }
    }
    sentences.join(" ")
}

fn server_share(run: &Run, server: &SideLedger) -> String {
    let account = &server.per_transaction_ns;
    let lock_ns = account.lock_ns();
    let Some(latency) = &run.latency_ns else {
        return format!("Kernel locks took {} a transaction on the server.", duration(lock_ns));
    };
    let mean = latency.mean as f64;
    if lock_ns == 0.0 {
        return format!(
            "The server met no contended kernel lock: 0 ns of the mean latency of {}.",
            duration(mean)
        );
    }
    let sleep_ns: f64 = account.lock_sleep.values().sum();
    let split = match (account.spin_ns() > 0.0, sleep_ns > 0.0) {
        (true, true) => {
            format!(": {} spinning, {} in sleeping locks", duration(account.spin_ns()), duration(sleep_ns))
        }
        (true, false) => ", all of it spinning".to_owned(),
        (false, true) => ", all of it in sleeping locks".to_owned(),
        (false, false) => ", all of it in interrupts".to_owned(),
    };
    format!(
        "Kernel locks on the server take {} of the mean latency of {}, {}{split}.",
        duration(lock_ns),
        duration(mean),
        percent(lock_ns / mean)
    )
}

/// The class with most time on a side, its first lock and who called it.
fn leader(run: &Run, side: &str, ledger: &SideLedger) -> Option<String> {
    let (class, ns) = top_class(&ledger.per_transaction_ns)?;
    let lock_ns = ledger.per_transaction_ns.lock_ns();
    let mut text =
        format!("Most of that is {class}, {} a transaction ({} of it)", duration(ns), percent(ns / lock_ns));
    let class_ns = ns * run.throughput.traced_transactions_count as f64;
    if let Some(lock) = top_lock(run, side, class) {
        let share = (lock.total_ns as f64 / class_ns).min(1.0);
        text += &format!("; {} of {class} is on {}", percent(share), described(lock));
        if lock.samples_count > 0 && lock.samples_count < FEW_SAMPLES {
            text += &format!(" (caller known from {} only)", plural(lock.samples_count, "sample"));
        }
    }
    Some(text + ".")
}

/// Background processes are part of the server but delay no transaction by themselves.
fn background_share(run: &Run, server: &SideLedger) -> Option<String> {
    let background_ns: u64 = run
        .backends
        .iter()
        .filter(|task| task.side == "server" && task.role != "client backend")
        .map(|task| task.spin_ns + task.lock_sleep_ns + task.irq_ns)
        .sum();
    let per_transaction = background_ns as f64 / run.throughput.traced_transactions_count as f64;
    let share = per_transaction / server.per_transaction_ns.lock_ns();
    (share >= 0.01).then(|| {
        format!(
            "{} of the server's lock time is in background processes, which delay a transaction at \
             most indirectly.",
            percent(share.min(1.0))
        )
    })
}

fn remainder(run: &Run) -> Option<String> {
    let mean = run.latency_ns.as_ref()?.mean as f64;
    let not_split = run.ledger.server.as_ref()?.per_transaction_ns.not_split?;
    Some(format!(
        "Not yet split: {} a transaction, {} of the mean latency. Depth `locks` does not tell apart \
         what is in it: CPU time, waiting for a CPU, I/O, Postgres's own waits, and the client's and \
         the socket's share.",
        duration(not_split),
        percent(not_split / mean)
    ))
}

fn next_step(run: &Run) -> String {
    let server_ns = run.ledger.server.as_ref().map_or(0.0, |s| s.per_transaction_ns.lock_ns());
    let client_ns = run.ledger.client.as_ref().map_or(0.0, |c| c.per_transaction_ns.lock_ns());
    let mean = run.latency_ns.as_ref().map(|latency| latency.mean as f64);
    let share = mean.map_or(0.0, |mean| server_ns.max(client_ns) / mean);
    if share < WORTH_A_LOOK {
        let of = mean.map_or(String::new(), |_| format!(" ({} at most)", percent(share)));
        return format!(
            "Next: kernel locks explain little here{of}; look at the part not yet split, e.g. \
             `perf record -g -p PID` on a backend for its CPU time and pg_stat_activity for its wait \
             events."
        );
    }
    let (side, ledger) = match (&run.ledger.server, &run.ledger.client) {
        (Some(server), _) if server_ns >= client_ns => ("server", server),
        (_, Some(client)) => ("client", client),
        (Some(server), None) => ("server", server),
        (None, None) => return String::new(),
    };
    let Some((class, _)) = top_class(&ledger.per_transaction_ns) else { return String::new() };
    let lock = top_lock(run, side, class);
    let place = match lock.and_then(|lock| lock.caller.as_deref()) {
        Some(caller) => format!("{caller} on the {side} side"),
        None => format!("the {class} waits on the {side} side"),
    };
    format!("Next: look at {place}: {}", advice(class))
}

/// What a class's lead means and what to look for. Names as in `LockClass`.
fn advice(class: &str) -> &'static str {
    match class {
        "osq" | "mutex_owner" | "mutex_spin" | "mutex" => {
            "tasks queue for one mutex or rwsem; the stacks name who takes it, the holder does the work to shorten."
        }
        "rwsem_owner" | "rwsem" => {
            "waiters of a rw_semaphore wait for a writer, or a writer for readers; find the writer in the stacks."
        }
        "qspinlock" => "a spinlock is taken too often or held too long; the stacks below name its users.",
        "rq" => {
            "CPUs fight for a run queue, by wake-ups and migration; compare with server and client pinned."
        }
        "rwlock" => "readers and writers of a spinning rwlock; find the writer in the stacks.",
        "percpu_rwsem" => "a rare writer stops every reader; find the writer (quota, freeze, cgroup moves).",
        "rt_mutex" => "PREEMPT_RT makes spinlocks sleep; compare with a kernel without it.",
        _ => "the stacks below name who waits.",
    }
}

/// The class with the most time, among spins and sleeps.
fn top_class(account: &PerTransaction) -> Option<(&str, f64)> {
    account
        .spin
        .iter()
        .chain(&account.lock_sleep)
        .map(|(class, ns)| (class.as_str(), *ns))
        .filter(|(_, ns)| *ns > 0.0)
        .max_by(|left, right| left.1.total_cmp(&right.1))
}

fn top_lock<'run>(run: &'run Run, side: &str, class: &str) -> Option<&'run Lock> {
    run.locks
        .iter()
        .filter(|lock| lock.side == side && lock.class == class)
        .max_by_key(|lock| lock.total_ns)
}

/// `inode.i_rwsem, called from ext4_file_write_iter`.
pub(crate) fn described(lock: &Lock) -> String {
    match (&lock.caller, lock.name_source.as_str()) {
        (Some(caller), "caller" | "address") => format!("a lock taken in {caller}"),
        (Some(caller), _) => format!("{}, taken in {caller}", lock.name),
        (None, _) => lock.name.clone(),
    }
}
