//! The explanations, each with its share of the time, its threshold and its evidence.

use super::evidence;
use super::shares::Shares;
use crate::analyse::profile_table::{SideProfile, side_profile};
use crate::analyse::units::{percent, rate};
use crate::model::{Evidence, Lock, Run};
use crate::symbolize::is_lock_internal;

/// An explanation of the run's time.
pub(super) struct Candidate {
    pub(super) kind: &'static str,
    pub(super) share: f64,
    /// The least share with which it is believed.
    pub(super) threshold: f64,
    pub(super) text: String,
    pub(super) evidence: Vec<Evidence>,
}

/// From this share of the time on, a lock or a wait is worth a verdict.
const WAITS: f64 = 0.15;
/// The client's part is large in every short transaction.
const CLIENT: f64 = 0.5;
/// A client whose threads run or want to run for this share of the time has no more to give.
const CLIENT_BUSY: f64 = 0.8;
/// A side that is on a CPU for this share of the time is bound by it.
const CPU: f64 = 0.4;
/// One function with this share of the CPU time is hot.
const HOT: f64 = 0.15;
/// What hints at cache misses.
const LOW_IPC: f64 = 0.8;
const MANY_L1_MISSES: f64 = 0.05;
const MANY_LLC_MISSES: f64 = 0.2;

/// Postgres's own spinning.
const USER_SPINS: [&str; 6] = [
    "s_lock",
    "perform_spin_delay",
    "tas",
    "LWLockAttemptLock",
    "LWLockWaitListLock",
    "LWLockQueueSelf",
];
/// Kernel functions that are hot for other reasons than a shared cache line: bulk work, and the places
/// at which a timer's samples land because interrupts are enabled there.
const NOT_ATOMICS: [&str; 14] = [
    "_raw_spin_unlock",
    "finish_task_switch",
    "do_syscall_64",
    "entry_SYSCALL",
    "syscall_",
    "clear_page",
    "copy_page",
    "copy_user",
    "rep_movs",
    "memcpy",
    "memset",
    "_copy_",
    "handle_softirqs",
    "__do_softirq",
];
const SPINS_IN_THE_KERNEL: [&str; 4] =
    ["osq_lock", "spin_on_owner", "optimistic_spin", "spin_lock_slowpath"];

pub(super) fn candidates(run: &Run, shares: &Shares) -> Vec<Candidate> {
    let profile = run.profile.as_ref().and_then(|profile| side_profile(profile, shares.side));
    let profile = profile.as_ref();
    let unseen = unseen_spins(shares, profile);
    let mut found = vec![kernel_lock(run, shares, unseen)];
    if !shares.splits_all {
        return found;
    }
    found.push(preemption(run, shares));
    found.push(io(shares));
    found.push(postgres_lock(shares));
    found.push(user_spin(shares, profile));
    found.push(beyond_the_server(run, shares));
    // What the CPU time is spent on tells more than that it is CPU time.
    let on_cpu = (shares.state("cpu") - unseen).max(0.0);
    let finer = [shared_atomics(shares, profile), cache_misses(run, shares, on_cpu)];
    let finer: Vec<Candidate> = finer.into_iter().flatten().collect();
    if finer.is_empty() {
        found.push(cpu(shares, profile, on_cpu));
    }
    found.extend(finer);
    found
}

/// Spins that the profile saw and no probe did: part of `cpu` in the ledger.
fn unseen_spins(shares: &Shares, profile: Option<&SideProfile<'_>>) -> f64 {
    let is_spin = |symbol: &str| SPINS_IN_THE_KERNEL.iter().any(|spin| symbol.contains(spin));
    let in_profile = own_share(profile, is_spin) * shares.on_cpu();
    (in_profile - shares.all("spin.") - shares.state("irq")).max(0.0)
}

fn kernel_lock(run: &Run, shares: &Shares, unseen: f64) -> Candidate {
    let in_ledger = shares.locks();
    let share = in_ledger + unseen;
    let top = run.locks.iter().filter(|lock| lock.side == shares.side);
    let name = top.max_by_key(|lock| lock.total_ns).map_or("no single one".to_owned(), named);
    let mut proof = vec![evidence(
        "kernel_lock_share",
        in_ledger,
        format!("kernel locks {} of {}", percent(in_ledger), shares.of),
    )];
    if unseen > 0.0 {
        let text = format!("{} more in spins that only the profile saw", percent(unseen));
        proof.push(evidence("unseen_spin_share", unseen, text));
    }
    Candidate {
        kind: "kernel_lock",
        share,
        threshold: WAITS,
        text: format!("kernel lock: {name}; locks take {} of {}", percent(share), shares.of),
        evidence: proof,
    }
}

fn named(lock: &Lock) -> String {
    match &lock.caller {
        Some(caller) => format!("{} {}, taken in {caller}", lock.class, lock.name),
        None => format!("{} {}", lock.class, lock.name),
    }
}

fn preemption(run: &Run, shares: &Shares) -> Candidate {
    let share = shares.all("runq.");
    let throttled = shares.state("runq.throttled");
    let mut proof = vec![evidence(
        "runq_share",
        share,
        format!("ready and without a CPU {} of {}", percent(share), shares.of),
    )];
    let counters = run.counters.as_ref().and_then(|counters| counters.sides.get(shares.side));
    if let Some(side) = counters.filter(|side| side.context_switches_count > 0) {
        let involuntary =
            side.involuntary_switches_count as f64 / side.context_switches_count as f64;
        let text = format!("{} of the switches involuntary", percent(involuntary));
        proof.push(evidence("involuntary_switches_share", involuntary, text));
    }
    let cause = if throttled > share / 2.0 {
        let text = format!("throttled by a bandwidth limit {}", percent(throttled));
        proof.push(evidence("throttled_share", throttled, text));
        "a CPU bandwidth limit (cgroup) stops the tasks"
    } else {
        "the tasks wait for a CPU: more want to run than there are CPUs"
    };
    Candidate {
        kind: "preemption",
        share,
        threshold: WAITS,
        text: cause.to_owned(),
        evidence: proof,
    }
}

fn io(shares: &Shares) -> Candidate {
    let (blocked, waited) = (shares.state("io"), shares.state("wait.IO"));
    let share = blocked + waited;
    Candidate {
        kind: "io",
        share,
        threshold: WAITS,
        text: "the tasks wait for I/O".to_owned(),
        evidence: vec![evidence(
            "io_share",
            share,
            format!("in I/O {} of {}", percent(share), shares.of),
        )],
    }
}

fn postgres_lock(shares: &Shares) -> Candidate {
    let share = shares.state("wait.Lock");
    Candidate {
        kind: "postgres_lock",
        share,
        threshold: WAITS,
        text: "backends wait for each other's heavyweight locks (rows, transactions): see pg_locks"
            .to_owned(),
        evidence: vec![evidence(
            "lock_wait_share",
            share,
            format!("in Postgres's Lock waits {} of {}", percent(share), shares.of),
        )],
    }
}

fn user_spin(shares: &Shares, profile: Option<&SideProfile<'_>>) -> Candidate {
    let spins = own_share(profile, |symbol| USER_SPINS.contains(&symbol));
    let asleep = shares.state("wait.LWLock");
    let share = asleep + spins * shares.on_cpu();
    Candidate {
        kind: "user_spin",
        share,
        threshold: WAITS,
        text: "Postgres's own locks (spinlocks, LWLocks): the wait events in pg_stat_activity name them"
            .to_owned(),
        evidence: vec![
            evidence(
                "lwlock_wait_share",
                asleep,
                format!("asleep for LWLocks {} of {}", percent(asleep), shares.of),
            ),
            evidence(
                "user_spin_profile_share",
                spins,
                format!("{} of the CPU time in s_lock and LWLock code", percent(spins)),
            ),
        ],
    }
}

/// The client if its threads are busy, else what lies between.
fn beyond_the_server(run: &Run, shares: &Shares) -> Candidate {
    let share = shares.rest + shares.state("idle_in_transaction") + shares.state("wait.Client");
    let mut proof = vec![evidence(
        "client_and_transport_share",
        share,
        format!("outside the server {} of {}", percent(share), shares.of),
    )];
    let client = client_shares(run);
    if let Some((running, ready)) = client {
        let busy = running + ready;
        let text = format!("the client's threads run or want to {} of the time", percent(busy));
        proof.push(evidence("client_busy_share", busy, text));
    }
    let (kind, share, text) = match client.map(|(running, ready)| (running + ready, ready)) {
        // Only while they are idle it is the way that takes the time.
        Some((busy, _)) if busy < CLIENT_BUSY => (
            "network",
            share * (1.0 - busy),
            "neither server nor client is at work: the way between them takes the time",
        ),
        // More threads would only wait as well.
        Some((busy, ready)) if ready > busy / 2.0 => {
            let text =
                "the load generator's threads are ready and wait for a CPU: other tasks have them";
            ("preemption", share, text)
        }
        Some(_) => {
            ("client_bound", share, "the load generator itself: its threads have no time left")
        }
        None => ("client_bound", share, "the client or the way to it: the client was not traced"),
    };
    Candidate { kind, share, threshold: CLIENT, text: text.to_owned(), evidence: proof }
}

/// The shares of their time for which the client's threads run, and for which they are ready to.
fn client_shares(run: &Run) -> Option<(f64, f64)> {
    let client = run.ledger.client.as_ref().filter(|client| !client.states_ns.is_empty())?;
    let wall_ns = client.wall_ns.filter(|wall_ns| *wall_ns > 0)?;
    let share = |states: &[&str]| {
        let of = |state: &str| states.iter().any(|one| state.starts_with(one));
        let states = client.states_ns.iter().filter(|(state, _)| of(state));
        states.map(|(_, ns)| ns).sum::<u64>() as f64 / wall_ns as f64
    };
    Some((share(&["cpu", "spin", "irq"]), share(&["runq"])))
}

/// One kernel function that takes much and is no lock's.
fn shared_atomics(shares: &Shares, profile: Option<&SideProfile<'_>>) -> Option<Candidate> {
    let hot = profile?.rows.iter().find(|row| row.frame.object == "[kernel]")?;
    let symbol = hot.frame.symbol.as_str();
    let other = NOT_ATOMICS.iter().any(|name| symbol.contains(name));
    if hot.own_share < HOT || other || hot.frame.unknown.is_some() || is_lock_internal(symbol) {
        return None;
    }
    let share = hot.own_share * shares.on_cpu();
    Some(Candidate {
        kind: "shared_atomics",
        share,
        threshold: WAITS,
        text: format!(
            "the kernel's {symbol} is hot and takes no lock: likely a counter that all CPUs change"
        ),
        evidence: vec![evidence(
            "hot_symbol_share",
            hot.own_share,
            format!("{symbol} {} of the CPU time by itself", percent(hot.own_share)),
        )],
    })
}

/// Only a hint: whether they are the cause, another run tells.
fn cache_misses(run: &Run, shares: &Shares, on_cpu: f64) -> Option<Candidate> {
    let side = run.counters.as_ref()?.sides.get(shares.side)?;
    let ipc = side.instructions_per_cycle().filter(|ipc| *ipc < LOW_IPC)?;
    let l1 = side.ratio("L1-dcache-load-misses", "L1-dcache-loads");
    let llc = side.ratio("LLC-load-misses", "LLC-loads");
    let many =
        l1.is_some_and(|l1| l1 >= MANY_L1_MISSES) || llc.is_some_and(|llc| llc >= MANY_LLC_MISSES);
    if !many {
        return None;
    }
    let mut proof = vec![evidence("ipc", ipc, format!("{} instructions a cycle", rate(ipc)))];
    if let Some(l1) = l1 {
        proof.push(evidence("l1d_miss_share", l1, format!("L1d misses {} of loads", percent(l1))));
    }
    if let Some(llc) = llc {
        proof.push(evidence(
            "llc_miss_share",
            llc,
            format!("LLC misses {} of loads", percent(llc)),
        ));
    }
    Some(Candidate {
        kind: "cache_misses",
        share: on_cpu,
        threshold: CPU,
        text: "CPU time that hints at cache misses; compare with a run in which they are fewer"
            .to_owned(),
        evidence: proof,
    })
}

fn cpu(shares: &Shares, profile: Option<&SideProfile<'_>>, share: f64) -> Candidate {
    let mut proof =
        vec![evidence("cpu_share", share, format!("on a CPU {} of {}", percent(share), shares.of))];
    let top = profile.and_then(|side| side.rows.first());
    let most = match top {
        Some(row) => {
            let name = format!("{} ({})", row.frame.symbol, row.frame.object);
            let text = format!("{name} {} of the CPU time", percent(row.own_share));
            proof.push(evidence("hot_symbol_share", row.own_share, text));
            format!(", most in {name}")
        }
        None => String::new(),
    };
    Candidate {
        kind: "cpu",
        share,
        threshold: CPU,
        text: format!("plain CPU time{most}"),
        evidence: proof,
    }
}

/// Own share of the CPU time of all functions that `is`.
fn own_share(profile: Option<&SideProfile<'_>>, is: impl Fn(&str) -> bool) -> f64 {
    let rows = profile.iter().flat_map(|side| &side.rows);
    rows.filter(|row| is(&row.frame.symbol)).map(|row| row.own_share).sum()
}
