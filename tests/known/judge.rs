//! Is what lockscope saw what the loads did?

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::Value;

use super::{Counts, Load, Lock, Seen, Totals, Who};
use crate::traced::Run;

/// lockscope may count fewer waits than bpftrace by these many, or this part of them.
const FEWER_COUNT: u64 = 3;
const FEWER_PART: u64 = 1000;
/// It may count more, by this part and what interrupts waited: bpftrace's programs leave out what
/// happens while one of them runs on the CPU.
const MORE_PART: u64 = 50;
/// Of spinlocks it may also count this part of all that bpftrace counted: each count updates a map of
/// bpftrace's, and its own waits for that map's locks are hidden from it.
const MORE_OF_ALL_PART: u64 = 100;
/// How far counts and times may be from perf's: this many, or this part.
const PERF_COUNT: u64 = 3;
const PERF_COUNT_PART: u64 = 100;
const PERF_TIME_PART: u64 = 33;
/// What the one's programs take within a wait as the other sees it, on emulated CPUs.
const PERF_EVENT_NS: u64 = 50_000;
/// How far the states' sum may be from the wall time: this part, and for the shortest lives this long.
const WALL_PART: u64 = 100;
const WALL_NS: u64 = 100_000;
/// What a hold is of its waiters' sleep, at least, in percent.
const HELD_PERCENT: u64 = 90;
/// Requests that a plug holds before the kernel flushes it: `BLK_MAX_REQUEST_COUNT`.
const PLUG_REQUESTS: u64 = 32;
/// Classes in which a task sleeps.
const SLEEPS: [&str; 5] = ["mutex", "rwsem", "percpu_rwsem", "rt_mutex", "semaphore"];

/// A load whose threads met too seldom to judge what lockscope makes of it.
#[derive(Debug, thiserror::Error)]
#[error("{count} waits in {class}, expected at least {at_least}")]
struct TooFew {
    count: u64,
    class: &'static str,
    at_least: u64,
}

/// Judges every load and the whole run; prints what was seen. Some loads' threads may have met too
/// seldom, which is the scheduler's affair: these are returned, to be run again.
///
/// # Errors
/// Every answer that is wrong, in one message.
pub fn judge(seen: &Seen) -> Result<Vec<&'static Load>> {
    let (mut wrong, mut again) = (Vec::new(), Vec::new());
    for (load, line) in &seen.lines {
        let loaded = Loaded { load, line, run: &seen.run };
        println!("{}: {line}\n  waits {:?}", load.name, loaded.waits());
        let agrees = |counts| loaded.agrees(counts);
        let agrees_with_perf = |totals| loaded.agrees_with_perf(totals);
        let references = seen
            .counts
            .as_ref()
            .map_or(Ok(()), agrees)
            .and_then(|()| seen.totals.as_ref().map_or(Ok(()), agrees_with_perf));
        match references.and_then(|()| loaded.judge()) {
            Err(error) if error.is::<TooFew>() => {
                println!("  {error:#}");
                again.push(*load);
            }
            Err(error) => wrong.push(format!("{}: {error:#}", load.name)),
            Ok(()) => {}
        }
    }
    let has_locks = again.is_empty() && seen.lines.iter().any(|(load, _)| !load.locks.is_empty());
    if let Err(error) = balances(&seen.run, has_locks) {
        wrong.push(format!("{error:#}"));
    }
    ensure!(wrong.is_empty(), "{}", wrong.join("\n"));
    Ok(again)
}

/// Begin = end + open + dropped, over all tasks and interrupts of the machine. Where no load contends
/// for a lock, nobody may.
fn balances(run: &Run, has_locks: bool) -> Result<()> {
    let balance = &run.0["wait_balance"];
    println!("balance: {balance}\nlosses: {}", run.0["losses"]);
    let count = |name: &str| balance[name].as_u64().with_context(|| format!("no {name}"));
    let begin = count("begin_count")?;
    let rest = count("end_count")? + count("open_count")? + count("dropped_count")?;
    ensure!(begin == rest, "begin {begin}, but end + open + dropped {rest}");
    ensure!(begin > 0 || !has_locks, "no wait was seen at all");
    Ok(())
}

/// A load that has run, and what was seen of it.
struct Loaded<'a> {
    load: &'static Load,
    line: &'a Value,
    run: &'a Run,
}

impl Loaded<'_> {
    fn judge(&self) -> Result<()> {
        self.adds_up()?;
        match self.load.plugged_requests {
            Some(requests) => self.is_plugged(requests)?,
            None if self.load.locks.is_empty() => self.is_lock_free()?,
            None => {}
        }
        self.load.locks.iter().try_for_each(|known| self.is_contended(known))
    }

    fn pid(&self) -> u32 {
        self.line["pid"].as_u64().and_then(|pid| u32::try_from(pid).ok()).unwrap_or(0)
    }

    /// Rows of its threads, those that prepared it included.
    fn tasks(&self) -> Vec<&Value> {
        let tasks = self.run.list("backends");
        tasks.into_iter().filter(|task| task["pid"] == self.pid()).collect()
    }

    fn waits(&self) -> BTreeMap<String, u64> {
        let mut sum = BTreeMap::new();
        for task in self.tasks() {
            for (class, count) in task["wait_counts"].as_object().into_iter().flatten() {
                *sum.entry(class.clone()).or_insert(0) += count.as_u64().unwrap_or(0);
            }
            *sum.entry("irq".to_owned()).or_insert(0) += task["irq_count"].as_u64().unwrap_or(0);
        }
        sum
    }

    fn waits_in(&self, class: &str) -> u64 {
        self.waits().get(class).copied().unwrap_or(0)
    }

    fn tids(&self) -> BTreeSet<u64> {
        self.tasks().iter().filter_map(|task| task["tid"].as_u64()).collect()
    }

    /// The most contended lock of the class for which its threads waited.
    fn lock(&self, class: &str) -> Result<&Value> {
        let tids = self.tids();
        let locks = self.run.list("locks").into_iter().filter(|lock| {
            lock["class"] == class && waiters(lock).iter().any(|tid| tids.contains(tid))
        });
        let count = |lock: &&Value| lock["count"].as_u64();
        locks.max_by_key(count).with_context(|| format!("no lock of class {class} is its own"))
    }

    fn is_contended(&self, known: &Lock) -> Result<()> {
        let &Lock { class, names, at_least, who } = known;
        let count = self.waits_in(class);
        ensure!(count >= at_least, TooFew { count, class, at_least });
        let lock = self.lock(class)?;
        println!("  {class}: {lock}");
        let name = lock["name"].as_str().unwrap_or_default();
        let is_known = names.iter().any(|known| name.starts_with(known));
        ensure!(is_known, "the lock is called {name}, expected one of {names:?}");
        let has_stack = lock["stack"].as_array().is_some_and(|stack| !stack.is_empty());
        ensure!(has_stack, "no stack leads to {name}");
        self.waits_for(lock, who)?;
        self.is_held(lock)
    }

    /// Its waiters are the stressor's threads, or above all they.
    fn waits_for(&self, lock: &Value, who: Who) -> Result<()> {
        let (tids, waiters) = (self.tids(), waiters(lock));
        let strangers: Vec<_> = waiters.iter().filter(|tid| !tids.contains(tid)).collect();
        match who {
            Who::Own => ensure!(strangers.is_empty(), "{strangers:?} are not of {tids:?}"),
            Who::Anybody => {
                let first = waiters.first().context("nobody waited")?;
                ensure!(tids.contains(first), "{first} waited most, not one of {tids:?}");
            }
        }
        Ok(())
    }

    /// In each round every waiter waited once, and slept as long as the lock was held.
    fn is_held(&self, lock: &Value) -> Result<()> {
        let Some(rounds) = self.line["rounds_count"].as_u64() else { return Ok(()) };
        let sleepers = self.line["tids"].as_array().map_or(0, Vec::len) as u64;
        let seen = lock["count"].as_u64().context("no count")?;
        let waits = rounds * sleepers;
        let most = waits + rounds * self.load.beside_rounds.unwrap_or(0);
        ensure!(seen >= waits, "{seen} waits for it, but {rounds} rounds had {waits}");
        let is_exact = self.load.beside_rounds.is_some();
        ensure!(seen <= most || !is_exact, "{seen} waits for it, but {rounds} rounds had {most}");
        let held_ns = self.line["held_ns"].as_u64().context("no held_ns")?;
        let state = format!("lock_sleep.{}", lock["class"].as_str().unwrap_or_default());
        let sleepers: Vec<_> = self.line["tids"].as_array().into_iter().flatten().collect();
        for task in self.tasks().into_iter().filter(|task| sleepers.contains(&&task["tid"])) {
            let slept_ns = task["states_ns"][&state].as_u64().unwrap_or(0);
            let enough = slept_ns >= held_ns / 100 * HELD_PERCENT;
            ensure!(enough, "{slept_ns} ns in {state}, but the lock was held {held_ns} ns: {task}");
        }
        Ok(())
    }

    /// The states of each task sum to the time that it was traced.
    fn adds_up(&self) -> Result<()> {
        for task in self.tasks() {
            let states = task["states_ns"].as_object().into_iter().flatten();
            let sum_ns: u64 = states.filter_map(|(_, ns)| ns.as_u64()).sum();
            let wall_ns = task["wall_ns"].as_u64().context("no wall_ns")?;
            let is_close = sum_ns.abs_diff(wall_ns) <= wall_ns / WALL_PART + WALL_NS;
            ensure!(is_close, "{sum_ns} ns in all states, but {wall_ns} ns of wall time: {task}");
        }
        Ok(())
    }

    /// All requests that the disk completed are counted, and nearly all batches went as one: now and
    /// then a batch is on two CPUs' queues, because the thread was moved meanwhile, and the kernel
    /// flushes a plug that is full.
    fn is_plugged(&self, blocks: u64) -> Result<()> {
        let plug = &self.run.0["plug"];
        println!("  plug {plug}");
        let other = &plug["by_owner"]["other"];
        let count = |name: &str| other[name].as_u64().with_context(|| format!("no {name}"));
        let (batches, seen) = (count("unplug_count")?, count("requests_count")?);
        let own = |name: &str| self.line[name].as_u64().with_context(|| format!("no {name}"));
        let (operations, completed) = (own("operations_count")?, own("disk_writes_count")?);
        let blocks_count = operations * blocks;
        ensure!(completed >= blocks_count, "{completed} requests for {blocks_count} blocks");
        // Of the disk's writes, flushes and what kworkers wrote are not in the stressor's plugs.
        let least = (completed - operations).max(blocks_count);
        let least = least.saturating_sub(3 + least / 100);
        ensure!(seen >= least, "{seen} requests, but the disk completed {completed}");
        ensure!(seen <= completed + 3, "{seen} requests, but the disk completed {completed}");
        let full = operations * completed.div_ceil(operations.max(1)).div_ceil(PLUG_REQUESTS);
        let most = full + 3 + full / 5;
        ensure!(batches + 3 >= operations, "{batches} batches, but {operations} were made");
        ensure!(batches <= most, "{batches} batches, expected at most {most}");
        Ok(())
    }

    /// It waits for no lock but those that threads meet when they come and go, and when they are
    /// scheduled: far less often than it does its work.
    fn is_lock_free(&self) -> Result<()> {
        let waits = self.waits();
        let sleeps: u64 = SLEEPS.iter().map(|class| self.waits_in(class)).sum();
        let tasks_count = self.tasks().len() as u64;
        ensure!(sleeps <= 2 * tasks_count, "{tasks_count} tasks slept in locks: {waits:?}");
        let operations = self.line["operations_count"].as_u64().context("no operations_count")?;
        let all: u64 = waits.values().sum();
        ensure!(all <= operations / 10 + 50, "{operations} operations: {waits:?}");
        Ok(())
    }

    /// bpftrace counted the same.
    fn agrees(&self, counts: &Counts) -> Result<()> {
        let waits = self.waits();
        let mut wrong = Vec::new();
        let groups = counts.of(self.pid());
        let all: u64 = groups.values().sum();
        for (classes, reference) in groups {
            let seen: u64 = classes.iter().filter_map(|class| waits.get(*class)).sum();
            // To bpftrace, interrupts' waits are waits of whoever was current.
            let (in_interrupts, own) = match classes.contains(&"qspinlock") {
                true => (self.waits_in("irq"), all / MORE_OF_ALL_PART),
                false => (0, 0),
            };
            if seen + in_interrupts + reference == 0 {
                continue;
            }
            println!("  {classes:?}: lockscope {seen} + {in_interrupts}, bpftrace {reference}");
            let fewest = reference - FEWER_COUNT.max(reference / FEWER_PART).min(reference);
            let most = reference + FEWER_COUNT.max(reference / MORE_PART).max(own);
            if seen + in_interrupts < fewest || seen > most {
                wrong.push(format!("{classes:?}: lockscope {seen}, bpftrace {reference}"));
            }
        }
        if !wrong.is_empty() {
            bail!("{}", wrong.join(", "));
        }
        Ok(())
    }
}

impl Loaded<'_> {
    /// perf saw as many waits, and as much time in them. A wait of a mutex is one to perf, whatever
    /// its phases; what nests in it perf counts twice, which is no more than its spins.
    fn agrees_with_perf(&self, totals: &Totals) -> Result<()> {
        let tids = self.tids();
        let (count, total_ns) = totals.of(tids.iter().copied());
        let waits = self.waits();
        let phases = waits.get("mutex").copied().unwrap_or(0);
        let of_tracepoint = |class: &&String| {
            !["osq", "mutex_owner", "rwsem_owner", "mutex"].contains(&class.as_str())
        };
        let seen: u64 = waits.keys().filter(of_tracepoint).map(|class| waits[class]).sum();
        let ns =
            |task: &&Value| ["spin_ns", "lock_sleep_ns", "irq_ns"].map(|name| task[name].as_u64());
        let seen_ns: u64 = self.tasks().iter().flat_map(ns).flatten().sum();
        println!("  lockscope {seen} waits (and {phases} phases), {seen_ns} ns");
        println!("  perf      {count} waits, {total_ns} ns");
        let tolerance = PERF_COUNT.max(count / PERF_COUNT_PART);
        ensure!(seen.abs_diff(count) <= tolerance, "{seen} waits, but perf saw {count}");
        let tolerance_ns = total_ns / PERF_TIME_PART + count * PERF_EVENT_NS;
        ensure!(seen_ns.abs_diff(total_ns) <= tolerance_ns, "{seen_ns} ns, perf has {total_ns}");
        Ok(())
    }
}

/// Sampled waiters, most waiting time first.
fn waiters(lock: &Value) -> Vec<u64> {
    lock["tids"].as_array().into_iter().flatten().filter_map(Value::as_u64).collect()
}
