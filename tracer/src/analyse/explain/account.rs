//! What one run says, in sentences: the verdict, then whatever takes most of the time.

use std::collections::BTreeMap;

use super::sides::client_time_ns;
use crate::analyse::compare::{LockIdentity, per_transaction};
use crate::analyse::profile_table::{SideProfile, side_profile};
use crate::analyse::units::{duration, percent, plural, rate, significant};
use crate::model::{Run, Sentence};

/// A state is worth a sentence from this share of the mean latency on.
const STATE: f64 = 0.05;
/// A lock is.
const LOCK: f64 = 0.02;
/// Functions with less of a side's CPU time are not named.
const FUNCTION: f64 = 0.05;
/// Sleeping there for a smaller share of the time is not named.
const SLEEP: f64 = 0.05;
/// Sentences of each kind.
const EACH: usize = 4;
/// Frames of a stack that are named.
const FRAMES: usize = 3;

/// The sentences, those about most of the latency first.
pub(super) fn account(run: &Run) -> Vec<Sentence> {
    let mut first = vec![result(run)];
    first.extend(verdict(run));
    first.extend(client_locks(run));
    let mut rest = [states(run), locks(run), functions(run), sleeps(run)].concat();
    rest.sort_by(|left, right| right.share.unwrap_or(0.0).total_cmp(&left.share.unwrap_or(0.0)));
    first.into_iter().chain(rest).chain(counters(run)).chain(plugs(run)).collect()
}

fn say(about: &str, text: String, share: Option<f64>) -> Sentence {
    Sentence { about: about.to_owned(), text, share }
}

fn result(run: &Run) -> Sentence {
    let counted = &run.throughput;
    let latency = run.latency_ns.as_ref().map_or_else(String::new, |latency| {
        format!(
            ", mean latency {}, p99 {}",
            duration(latency.mean as f64),
            duration(latency.p99 as f64)
        )
    });
    let text = format!(
        "{}, {} a second{latency}.",
        plural(counted.transactions_count, "transaction"),
        rate(counted.tps)
    );
    say("result", text, None)
}

fn verdict(run: &Run) -> Option<Sentence> {
    let verdict = run.verdict.as_ref()?;
    let evidence: Vec<&str> = verdict.evidence.iter().map(|e| e.text.as_str()).collect();
    let text = match evidence.is_empty() {
        true => format!("{}.", verdict.text),
        false => format!("{} ({}).", verdict.text, evidence.join("; ")),
    };
    Some(say("verdict", text, None))
}

fn states(run: &Run) -> Vec<Sentence> {
    let (Some(server), Some(mean_ns)) = (&run.ledger.server, run.traced_latency_ns()) else {
        return Vec::new();
    };
    let account = &server.per_transaction_ns;
    let rest = [
        ("client and transport", account.client_and_transport),
        ("what depth locks does not split", account.not_split),
    ];
    let rest = rest.into_iter().filter_map(|(name, ns)| Some((name.to_owned(), ns?)));
    let named = account.states().into_iter().map(|(state, ns)| (words(&state), ns)).chain(rest);
    let mut large: Vec<(String, f64)> = named.filter(|(_, ns)| *ns >= STATE * mean_ns).collect();
    large.sort_by(|(_, left), (_, right)| right.total_cmp(left));
    large
        .into_iter()
        .take(EACH)
        .map(|(state, ns)| {
            let share = ns / mean_ns;
            let text = format!(
                "A transaction spends {} of its {} ({}) in {state}.",
                duration(ns),
                duration(mean_ns),
                percent(share)
            );
            say("state", text, Some(share))
        })
        .collect()
}

/// A state as a sentence says it.
fn words(state: &str) -> String {
    match state.split_once('.') {
        Some(("spin", class)) => format!("spinning ({class})"),
        Some(("lock_sleep", class)) => format!("sleeping in a kernel lock ({class})"),
        Some(("runq", "queued")) => "waiting for a CPU behind other tasks".to_owned(),
        Some(("runq", "wakeup")) => "waiting for an idle CPU to wake up".to_owned(),
        Some(("runq", "throttled")) => "waiting while its CPU bandwidth is used up".to_owned(),
        Some(("wait", class)) => format!("Postgres's {class} waits"),
        _ => match state {
            "cpu" => "CPU time of the server".to_owned(),
            "io" => "waiting for I/O".to_owned(),
            "irq" => "spins of interrupts".to_owned(),
            "idle_in_transaction" => "waiting for the client inside the transaction".to_owned(),
            _ => state.to_owned(),
        },
    }
}

fn locks(run: &Run) -> Vec<Sentence> {
    let Some(mean_ns) = run.traced_latency_ns() else { return Vec::new() };
    let mut locks = locks_in_transactions(run);
    locks.retain(|(_, ns)| *ns >= LOCK * mean_ns);
    locks.sort_by(|(_, left), (_, right)| right.total_cmp(left));
    locks
        .into_iter()
        .take(EACH)
        .map(|(lock, ns)| {
            let share = ns / mean_ns;
            let text = format!(
                "Backends wait {} a transaction ({} of the latency) for {} ({}){}.",
                duration(ns),
                percent(share),
                lock.place(),
                lock.class,
                holder(run, &lock.class, lock.caller.as_deref())
            );
            say("lock", text, Some(share))
        })
        .collect()
}

/// The server's locks and their time in a transaction. The lock table has the waits of all of the server's
/// processes, at all times; the ledger says how much of each class lies in transactions.
fn locks_in_transactions(run: &Run) -> Vec<(LockIdentity, f64)> {
    let account = run.ledger.server.as_ref().map(|server| &server.per_transaction_ns);
    let told = |class: &str| {
        let account = account?;
        account.spin.get(class).or_else(|| account.lock_sleep.get(class)).copied()
    };
    let mut locks: Vec<_> = per_transaction(run).into_iter().collect();
    locks.retain(|(lock, _)| lock.side == "server");
    let mut in_all: BTreeMap<String, f64> = BTreeMap::new();
    for (lock, ns) in &locks {
        *in_all.entry(lock.class.clone()).or_default() += ns;
    }
    for (lock, ns) in &mut locks {
        if let Some(told_ns) = told(&lock.class) {
            *ns *= (told_ns / in_all[&lock.class].max(f64::MIN_POSITIVE)).min(1.0);
        }
    }
    locks
}

/// Who held it while others waited.
fn holder(run: &Run, class: &str, caller: Option<&str>) -> String {
    let of_lock = run.locks.iter().filter(|lock| {
        lock.side == "server" && lock.class == class && lock.caller.as_deref() == caller
    });
    let Some(owner) = of_lock.filter_map(|lock| lock.owner.as_ref()).max_by_key(|o| o.total_ns)
    else {
        return String::new();
    };
    let place = owner.caller.as_ref().map_or_else(String::new, |caller| format!(" in {caller}"));
    format!(
        ", which {}{place} held longest, {} in all",
        owner.role.as_deref().unwrap_or(&owner.comm),
        duration(owner.total_ns as f64)
    )
}

/// Only where they are more than the server's: the client is part of the benchmark, not of the server.
fn client_locks(run: &Run) -> Option<Sentence> {
    let lock_ns = |side: &Option<crate::model::SideLedger>| {
        side.as_ref().map_or(0.0, |side| side.per_transaction_ns.lock_ns())
    };
    let (server_ns, client_ns) = (lock_ns(&run.ledger.server), lock_ns(&run.ledger.client));
    let share = client_ns / client_time_ns(run)?;
    if client_ns <= server_ns || share < LOCK {
        return None;
    }
    let text = format!(
        "The load generator's own threads wait {} a transaction for kernel locks ({} of these threads' time), the server's {}: this contention is the client's.",
        duration(client_ns),
        percent(share),
        duration(server_ns)
    );
    // A share of the threads' time: it does not rank among the latency's.
    Some(say("client", text, None))
}

fn functions(run: &Run) -> Vec<Sentence> {
    let Some(server) = run.profile.as_ref().and_then(|profile| side_profile(profile, "server"))
    else {
        return Vec::new();
    };
    let on_cpu = on_cpu_share(run);
    let SideProfile { rows, samples_count, .. } = server;
    rows.iter()
        .filter(|row| row.own_share >= FUNCTION)
        .take(EACH)
        .map(|row| {
            let text = format!(
                "Of the backends' CPU time, {} is in {} ({}) itself ({}).",
                percent(row.own_share),
                row.frame.symbol,
                row.frame.object,
                plural(samples_count, "sample")
            );
            say("function", text, on_cpu.map(|on_cpu| row.own_share * on_cpu))
        })
        .collect()
}

/// Share of the latency that the server is on a CPU.
fn on_cpu_share(run: &Run) -> Option<f64> {
    let account = &run.ledger.server.as_ref()?.per_transaction_ns;
    let on_cpu = account.cpu? + account.spin_ns() + account.irq.unwrap_or(0.0);
    Some(on_cpu / run.traced_latency_ns()?)
}

fn sleeps(run: &Run) -> Vec<Sentence> {
    let Some(off_cpu) = &run.off_cpu else { return Vec::new() };
    let Some(server) = off_cpu.sides.get("server") else { return Vec::new() };
    let stacks = server.stacks.iter().filter(|stack| stack.share >= SLEEP);
    stacks
        .take(EACH)
        .map(|stack| {
            let frames = stack.frames.iter().filter_map(|n| off_cpu.frames.get(*n as usize));
            let names: Vec<&str> = frames.map(|frame| frame.symbol.as_str()).take(FRAMES).collect();
            let waker = stack
                .wakers
                .first()
                .map_or_else(String::new, |waker| format!(", woken by {}", waker.command));
            let text = format!(
                "Backends sleep {} of their time in {}, {} at a time{waker}.",
                percent(stack.share),
                names.join(" <- "),
                duration(stack.mean_ns as f64)
            );
            // A share of the tasks' time, idle time included: it does not rank among the latency's.
            say("sleep", text, None)
        })
        .collect()
}

fn counters(run: &Run) -> Option<Sentence> {
    let side = run.counters.as_ref()?.sides.get("server")?;
    let ipc = side.instructions_per_cycle()?;
    let mut text = format!("The backends retire {} instructions a cycle", rate(ipc));
    let ratios = [
        ("L1d", side.ratio("L1-dcache-load-misses", "L1-dcache-loads")),
        ("last-level cache", side.ratio("LLC-load-misses", "LLC-loads")),
    ];
    for (name, ratio) in ratios {
        text += &ratio.map_or_else(String::new, |ratio| {
            format!(", {} of their loads miss the {name}", percent(ratio))
        });
    }
    Some(say("counters", text + ".", None))
}

fn plugs(run: &Run) -> Option<Sentence> {
    let plug = run.plug.as_ref()?;
    let flushes = plug.flushes_per_transaction.filter(|flushes| *flushes >= 0.1)?;
    let requests = plug.requests_per_flush.map_or_else(String::new, |requests| {
        format!(", with {} requests in one that is not empty", significant(requests))
    });
    let text =
        format!("Block plugs are flushed {} times a transaction{requests}.", significant(flushes));
    Some(say("plug", text, None))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Latency, Lock, PerTransaction, SideLedger};

    /// 1 ms of latency, 300 us of it on one class of locks; the client's threads wait as well.
    fn run() -> Run {
        let side = |class: &str, ns: f64, wall_ns: Option<u64>| SideLedger {
            per_transaction_ns: PerTransaction {
                spin: [(class.to_owned(), ns)].into(),
                ..PerTransaction::default()
            },
            wall_ns,
            ..SideLedger::default()
        };
        let mut run = Run::new();
        run.throughput.traced_transactions_count = 10;
        run.latency_ns = Some(Latency { mean: 1_000_000, ..Latency::default() });
        run.ledger.server = Some(side("osq", 300_000.0, None));
        run.ledger.client = Some(side("qspinlock", 3_000_000.0, Some(40_000_000)));
        run
    }

    #[test]
    fn a_lock_s_share_is_of_what_transactions_waited() {
        let mut run = run();
        // Three times as much as transactions waited: the checkpointer's, and between transactions.
        run.locks = [("a.lock", 10_000_000), ("b.lock", 5_000_000)]
            .map(|(name, total_ns)| Lock {
                class: "osq".to_owned(),
                side: "server".to_owned(),
                name: name.to_owned(),
                total_ns,
                ..Lock::default()
            })
            .into();
        let told = locks(&run);
        assert!(told[0].text.contains("200 us a transaction (20.0 % of the latency)"), "{told:?}");
        assert_eq!(told.len(), 2);
        assert!(told.iter().filter_map(|sentence| sentence.share).sum::<f64>() <= 0.3 + 1e-9);
    }

    #[test]
    fn the_client_s_waits_are_a_share_of_its_threads_time() {
        let told = client_locks(&run()).unwrap();
        assert!(told.text.contains("3.00 ms a transaction"), "{told:?}");
        assert!(told.text.contains("(75.0 % of these threads' time)"), "{told:?}");
        assert_eq!(told.share, None, "no share of the latency, of which it is three times as much");
        assert_eq!(client_locks(&Run::new()), None);
    }
}
