//! The lock table: each contended lock with its name, its waiters and its heaviest stack.

use std::cmp::Reverse;

use lockscope_ebpf::{LockClass, LockKey, Side, WaitStats};

use super::holds::HolderTable;
use super::stats::quantile_bound;
use crate::collect::{LockSamples, Locks, Samples};
use crate::model::Lock;
use crate::symbolize::{KernelSymbolizer, LockNamer};

/// Locks that a run keeps; the totals by class count all of them.
const KEPT_LOCKS: usize = 200;
/// Tids that a lock keeps.
const KEPT_TIDS: usize = 8;

/// The contended locks, largest total first.
pub fn lock_table(
    locks: &Locks,
    samples: &Samples,
    namer: &LockNamer,
    holders: &HolderTable<'_>,
    symbols: &mut KernelSymbolizer,
) -> Vec<Lock> {
    let mut sorted: Vec<(&LockKey, &WaitStats)> =
        locks.iter().filter(|(_, waits)| waits.end_count > 0).collect();
    sorted.sort_by_key(|(key, waits)| (Reverse(waits.total_ns), key.lock, key.class, key.side));
    sorted.truncate(KEPT_LOCKS);
    let row = |(key, waits): (&LockKey, &WaitStats)| {
        let mut lock = counted(key, waits)?;
        describe(&mut lock, key, samples, symbols);
        identify(&mut lock, key, namer, holders, symbols);
        Some(lock)
    };
    sorted.into_iter().filter_map(row).collect()
}

/// The exact part. `None` for a class this version does not know.
fn counted(key: &LockKey, waits: &WaitStats) -> Option<Lock> {
    let class = LockClass::from_index(key.class)?;
    let side = Side::ALL.get(usize::from(key.side))?;
    Some(Lock {
        class: class.name().to_owned(),
        address: (key.lock != 0).then(|| format!("{:#x}", key.lock)),
        side: side.name().to_owned(),
        count: waits.end_count,
        total_ns: waits.total_ns,
        mean_ns: waits.total_ns / waits.end_count.max(1),
        p99_ns: quantile_bound(&waits.histogram, 0.99, waits.max_ns).unwrap_or(waits.max_ns),
        max_ns: waits.max_ns,
        ..Lock::default()
    })
}

/// The estimated part, from samples.
fn describe(lock: &mut Lock, key: &LockKey, samples: &Samples, symbols: &mut KernelSymbolizer) {
    if let Some(sampled) = samples.lock(key) {
        waiters(lock, sampled);
        let heaviest =
            sampled.stacks.iter().max_by_key(|(stack, weight)| (weight.wait_ns, Reverse(**stack)));
        if let Some((stack, weight)) = heaviest {
            let frames = symbols.without_tracing(samples.frames(*stack));
            lock.stack = symbols.stack(frames);
            lock.caller = symbols.caller(frames);
            lock.stack_share = (sampled.sum.wait_ns > 0)
                .then(|| weight.wait_ns as f64 / sampled.sum.wait_ns as f64);
        }
    }
}

/// The name, and who held it.
fn identify(
    lock: &mut Lock,
    key: &LockKey,
    namer: &LockNamer,
    holders: &HolderTable<'_>,
    symbols: &mut KernelSymbolizer,
) {
    let Some(class) = LockClass::from_index(key.class) else { return };
    let name = namer.name(class, key.lock, lock.caller.as_deref());
    lock.name = name.name;
    lock.found_by = name.found_by.name().to_owned();
    lock.found_in = name.found_in;
    let mut starts = vec![name.start.unwrap_or(key.lock)];
    if class == LockClass::Osq {
        starts.extend(namer.osq_owners(key.lock));
    }
    let start = starts.into_iter().find(|start| holders.knows(*start));
    lock.holds = start.and_then(|start| holders.of(start, symbols));
    lock.owner = lock.holds.as_ref().and_then(|holds| holds.holders.first().cloned());
}

fn waiters(lock: &mut Lock, sampled: &LockSamples) {
    let mut tids: Vec<_> = sampled.tids.iter().collect();
    tids.sort_by_key(|(tid, weight)| (Reverse(weight.wait_ns), **tid));
    lock.tids = tids.iter().take(KEPT_TIDS).map(|(tid, _)| **tid).collect();
    lock.tids_count = tids.len() as u64;
    lock.samples_count = sampled.sum.samples_count;
}

#[cfg(test)]
mod tests {
    use lockscope_ebpf::HISTOGRAM_BUCKETS;

    use super::*;
    use crate::collect::Identities;

    fn waits(count: u64, total_ns: u64) -> WaitStats {
        let mut histogram = [0; HISTOGRAM_BUCKETS];
        histogram[9] = u32::try_from(count).unwrap();
        WaitStats { begin_count: count, end_count: count, total_ns, max_ns: 900, histogram }
    }

    #[test]
    fn the_largest_total_comes_first_and_open_waits_do_not_count() {
        let key = |lock| LockKey { lock, class: LockClass::Rq as u8, side: 1, pad: [0; 6] };
        let mut locks = Locks::new();
        locks.insert(key(0x10), waits(2, 1_000));
        locks.insert(key(0x20), waits(3, 2_400));
        locks.insert(key(0x30), WaitStats { begin_count: 1, ..WaitStats::ZERO });
        let namer = LockNamer::new(Default::default(), [(0x20, 3)], Default::default());
        let identities = Identities::default();
        let holders = HolderTable::new(&identities, []);
        let mut symbols = KernelSymbolizer::new();
        let table = lock_table(&locks, &Samples::default(), &namer, &holders, &mut symbols);
        assert_eq!(table.len(), 2);
        assert_eq!((table[0].name.as_str(), table[0].found_by.as_str()), ("rq[3].lock", "rq"));
        assert_eq!((table[0].count, table[0].mean_ns, table[0].p99_ns), (3, 800, 900));
        assert_eq!(table[1].address.as_deref(), Some("0x10"));
        assert_eq!(table[1].side, "server");
    }
}
