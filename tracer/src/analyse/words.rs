//! The findings in words: what share of the latency kernel locks have, what leads, what is not yet
//! split, and where to look next. A pure function of the run.

use std::collections::BTreeSet;

use super::units::{duration, percent, plural};
use crate::model::{Lock, PerTransaction, Run, SideLedger};

/// From this share of the mean latency on, locks are worth the first look.
const WORTH_A_LOOK: f64 = 0.05;
/// A second class is named from this share of the side's lock time on.
const WORTH_A_WORD: f64 = 0.2;
/// A state is named from this share of the mean latency on.
const WORTH_NAMING: f64 = 0.1;
/// Fewer samples than this are said to be few.
const FEW_SAMPLES: u64 = 30;

/// A statement and what it is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// `server`, `client`, `other tasks`, `most time`, `not split`, `next`.
    pub topic: &'static str,
    /// Sentences, not wrapped.
    pub text: String,
}

/// What the run says, in reading order.
pub fn findings(run: &Run) -> Vec<Finding> {
    let finding = |topic, text| Finding { topic, text };
    let ledger = &run.ledger;
    if ledger.server.is_none() && ledger.client.is_none() && ledger.other.is_none() {
        let next = "`lockscope doctor` says what tracing needs on this machine.";
        return vec![finding("locks", not_traced(run)), finding("next", next.to_owned())];
    }
    if run.throughput.traced_transactions_count == 0 {
        return vec![finding("locks", without_transactions(run))];
    }
    let mut found = Vec::new();
    if let Some(server) = &ledger.server {
        found.push(finding("server", server_side(run, server)));
    }
    if let Some(client) = &ledger.client {
        found.push(finding("client", client_side(run, client)));
    }
    found.extend(other_tasks(run).map(|text| finding("other tasks", text)));
    found.extend(largest(run).map(|text| finding("most time", text)));
    found.extend(not_split(run).map(|text| finding("not split", text)));
    found.push(finding("next", next_step(run)));
    found
}

fn not_traced(run: &Run) -> String {
    let latency = run.latency_ns.as_ref().map_or(String::new(), |latency| {
        format!(", and nothing of the mean latency of {} is split", duration(latency.mean as f64))
    });
    format!("The kernel was not traced: its locks are unknown{latency}.")
}

fn without_transactions(run: &Run) -> String {
    let text = "No transaction ended while the kernel was traced: no time can be put on one.";
    match run.locks.iter().max_by_key(|lock| lock.total_ns) {
        Some(lock) => format!(
            "{text} Waits were seen all the same, most on {}: {} in {}.",
            described(lock),
            duration(lock.total_ns as f64),
            plural(lock.count, "wait")
        ),
        None => format!("{text} No contended lock was seen either."),
    }
}

fn server_side(run: &Run, server: &SideLedger) -> String {
    let account = &server.per_transaction_ns;
    let (lock_ns, mean) = (account.lock_ns(), mean_latency(run));
    if lock_ns == 0.0 {
        let of = mean.map_or(String::new(), |mean| {
            format!(": 0 ns of the mean latency of {}", duration(mean))
        });
        return format!("The server met no contended kernel lock{of}.");
    }
    let of = mean.map_or(" a transaction".to_owned(), |mean| {
        format!(" of the mean latency of {}, {}", duration(mean), percent(lock_ns / mean))
    });
    let mut sentences =
        vec![format!("Kernel locks take {}{of}{}.", duration(lock_ns), spin_and_sleep(account))];
    sentences.extend(leaders(run, "server", server));
    sentences.extend(common_caller(run, server));
    sentences.extend(background(run, server));
    sentences.join(" ")
}

fn spin_and_sleep(account: &PerTransaction) -> String {
    let spin_ns = account.spin_ns() + account.irq.unwrap_or(0.0);
    let sleep_ns: f64 = account.lock_sleep.values().sum();
    match (spin_ns > 0.0, sleep_ns > 0.0) {
        (true, true) => {
            format!(" ({} spinning, {} in sleeping locks)", duration(spin_ns), duration(sleep_ns))
        }
        (true, false) => ", all of it spinning".to_owned(),
        (false, _) => ", all of it in sleeping locks".to_owned(),
    }
}

fn client_side(run: &Run, client: &SideLedger) -> String {
    let lock_ns = client.per_transaction_ns.lock_ns();
    if lock_ns == 0.0 {
        return "The load generator met no contended kernel lock.".to_owned();
    }
    let server_ns = run.ledger.server.as_ref().map(|server| server.per_transaction_ns.lock_ns());
    let more = match server_ns {
        Some(server_ns) if lock_ns > server_ns => ", more than the server",
        _ => "",
    };
    let mut sentences = vec![format!(
        "The load generator's own lock time is {} a transaction{more}.",
        duration(lock_ns)
    )];
    sentences.extend(leaders(run, "client", client));
    sentences.join(" ")
}

/// The classes with most time on a side, the first one's lock and who called it.
fn leaders(run: &Run, side: &str, ledger: &SideLedger) -> Option<String> {
    let lock_ns = ledger.per_transaction_ns.lock_ns();
    let classes = classes_by_time(&ledger.per_transaction_ns);
    let &(class, ns) = classes.first()?;
    let share = ns / lock_ns;
    let lead = if share > 0.5 { "Most of that" } else { "The largest part" };
    let mut text =
        format!("{lead} is {class}: {} a transaction ({} of it)", duration(ns), percent(share));
    if let Some(lock) = top_lock(run, side, class) {
        let class_ns = ns * run.throughput.traced_transactions_count as f64;
        let share = (lock.total_ns as f64 / class_ns).min(1.0);
        text += &format!(", with {} of that on {}", percent(share), described(lock));
        if (1..FEW_SAMPLES).contains(&lock.samples_count) {
            text += &format!(" (from only {})", plural(lock.samples_count, "sample"));
        }
    }
    if let Some(&(second, ns)) = classes.get(1)
        && ns / lock_ns >= WORTH_A_WORD
    {
        text += &format!("; then {second}: {} ({})", duration(ns), percent(ns / lock_ns));
        if let Some(lock) = top_lock(run, side, second) {
            text += &format!(", first on {}", described(lock));
        }
    }
    Some(text + ".")
}

/// One code path often waits in several classes: the queue, the spin and the sleep of one lock.
fn common_caller(run: &Run, server: &SideLedger) -> Option<String> {
    let &(class, _) = classes_by_time(&server.per_transaction_ns).first()?;
    let caller = top_lock(run, "server", class)?.caller.as_deref()?;
    let from_caller: Vec<&Lock> = run
        .locks
        .iter()
        .filter(|lock| lock.side == "server" && lock.caller.as_deref() == Some(caller))
        .collect();
    let classes: BTreeSet<&str> = from_caller.iter().map(|lock| lock.class.as_str()).collect();
    if classes.len() < 2 {
        return None;
    }
    let total_ns: u64 = from_caller.iter().map(|lock| lock.total_ns).sum();
    let ns = total_ns as f64 / run.throughput.traced_transactions_count as f64;
    let share = (ns / server.per_transaction_ns.lock_ns()).min(1.0);
    let classes: Vec<&str> = classes.into_iter().collect();
    Some(format!(
        "{caller} adds up to about {} ({}) over its {}.",
        duration(ns),
        percent(share),
        listed(&classes)
    ))
}

/// Background processes delay no transaction by themselves, and have an account of their own.
fn background(run: &Run, server: &SideLedger) -> Option<String> {
    let background_ns = run.ledger.background.as_ref()?.per_transaction_ns.lock_ns();
    (background_ns >= 0.01 * server.per_transaction_ns.lock_ns() && background_ns > 0.0).then(|| {
        format!(
            "The server's background processes waited {} more in the time of a transaction; they \
             delay it only indirectly.",
            duration(background_ns)
        )
    })
}

fn other_tasks(run: &Run) -> Option<String> {
    let other = run.ledger.other.as_ref()?;
    let other_ns = other.per_transaction_ns.lock_ns();
    let server_ns = run.ledger.server.as_ref().map_or(0.0, |s| s.per_transaction_ns.lock_ns());
    (other_ns > server_ns).then(|| {
        format!(
            "The rest of the machine waited {} for kernel locks in the time of a transaction, more \
             than the server: is anything else running?",
            duration(other_ns)
        )
    })
}

/// Where the transaction's time went, whatever it was: the states that took a tenth or more.
fn largest(run: &Run) -> Option<String> {
    let mean = mean_latency(run)?;
    let account = &run.ledger.server.as_ref()?.per_transaction_ns;
    let rest = account.client_and_transport?;
    let mut states: Vec<(String, f64)> = account
        .rows()
        .into_iter()
        .map(|(state, kind, ns)| {
            (kind.map_or(state.to_owned(), |kind| format!("{state} {kind}")), ns)
        })
        .collect();
    states.push(("client and transport".to_owned(), rest));
    states.retain(|(_, ns)| *ns >= WORTH_NAMING * mean);
    states.sort_by(|(_, left), (_, right)| right.total_cmp(left));
    let named = states
        .iter()
        .map(|(name, ns)| format!("{name} {} ({})", duration(*ns), percent(ns / mean)));
    (!states.is_empty()).then(|| format!("{}.", named.collect::<Vec<_>>().join(", ")))
}

fn not_split(run: &Run) -> Option<String> {
    let mean = mean_latency(run)?;
    let not_split = run.ledger.server.as_ref()?.per_transaction_ns.not_split?;
    Some(format!(
        "{} a transaction, {} of the mean latency: CPU time, waiting for a CPU, I/O, Postgres's own \
         waits, the socket and the client. Depth locks does not split the rest.",
        duration(not_split),
        percent(not_split / mean)
    ))
}

fn next_step(run: &Run) -> String {
    let lock_ns = |side: &Option<SideLedger>| {
        side.as_ref().map_or(0.0, |side| side.per_transaction_ns.lock_ns())
    };
    let (server_ns, client_ns) = (lock_ns(&run.ledger.server), lock_ns(&run.ledger.client));
    let share = mean_latency(run).map_or(0.0, |mean| server_ns.max(client_ns) / mean);
    if share < WORTH_A_LOOK {
        let server = run.ledger.server.as_ref();
        let part = match server.is_some_and(|side| side.per_transaction_ns.cpu.is_some()) {
            true => "the largest states",
            false => "the part not split",
        };
        let profile = match run.profile.is_some() {
            true => "the profile below",
            false => "`perf record -g -p PID` on a backend",
        };
        return format!(
            "Kernel locks explain little here. Look at {part}: {profile} for its CPU time, \
             pg_stat_activity for its wait events."
        );
    }
    let (side, ledger) = match server_ns >= client_ns {
        true => ("server", &run.ledger.server),
        false => ("client", &run.ledger.client),
    };
    let class = ledger
        .as_ref()
        .and_then(|ledger| classes_by_time(&ledger.per_transaction_ns).first().map(|top| top.0));
    let Some(class) = class else {
        return "The spins are in interrupts: look at what runs in interrupt context.".to_owned();
    };
    match top_lock(run, side, class).and_then(|lock| lock.caller.as_deref()) {
        Some(caller) => format!("Look at {caller} on the {side} side: {}", advice(class)),
        None => format!("Look at the {class} waits on the {side} side: {}", advice(class)),
    }
}

/// What a leading class means and what to look for.
fn advice(class: &str) -> &'static str {
    match class {
        "osq" | "mutex_owner" | "mutex_spin" | "mutex" => {
            "tasks queue for one mutex (osq: or rwsem); shorten what its holder does, or take it less often."
        }
        "rwsem_owner" | "rwsem" => {
            "a writer of this rw_semaphore keeps the others out, or readers keep out a writer; find the writer."
        }
        "qspinlock" => "this spinlock is taken too often or held too long.",
        "rq" => {
            "CPUs fight for a run queue, by wake-ups and migration; compare with server and client pinned."
        }
        "rwlock" => {
            "readers and a writer of a spinning rwlock keep each other out; find the writer."
        }
        "percpu_rwsem" => {
            "a rare writer (quota, freeze, a cgroup move) stops every reader; find it."
        }
        "rt_mutex" => "PREEMPT_RT makes spinlocks sleep; compare with a kernel without it.",
        _ => "the stacks below name who waits.",
    }
}

fn mean_latency(run: &Run) -> Option<f64> {
    run.traced_latency_ns()
}

/// Spin and sleep classes that have time, most first.
fn classes_by_time(account: &PerTransaction) -> Vec<(&str, f64)> {
    let mut classes: Vec<(&str, f64)> = account
        .spin
        .iter()
        .chain(&account.lock_sleep)
        .map(|(class, ns)| (class.as_str(), *ns))
        .filter(|(_, ns)| *ns > 0.0)
        .collect();
    classes.sort_by(|left, right| right.1.total_cmp(&left.1));
    classes
}

fn top_lock<'run>(run: &'run Run, side: &str, class: &str) -> Option<&'run Lock> {
    run.locks
        .iter()
        .filter(|lock| lock.side == side && lock.class == class)
        .max_by_key(|lock| lock.total_ns)
}

/// `inode.i_rwsem, taken in ext4_file_write_iter`.
fn described(lock: &Lock) -> String {
    match (&lock.caller, lock.found_by.as_str()) {
        (Some(caller), "caller" | "address") => format!("a lock taken in {caller}"),
        (Some(caller), _) => format!("{}, taken in {caller}", lock.name),
        (None, _) => lock.name.clone(),
    }
}

/// `a, b and c`.
fn listed(words: &[&str]) -> String {
    match words {
        [] => String::new(),
        [only] => (*only).to_owned(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

#[cfg(test)]
mod tests;
