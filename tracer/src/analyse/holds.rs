//! Who held a contended lock while others waited, and for how long.

use std::cmp::Reverse;
use std::collections::HashMap;

use lockscope_ebpf::{HoldStats, HolderAt, HolderStackKey};

use crate::collect::{Identities, add_holds};
use crate::model::{Holder, Holds};
use crate::symbolize::KernelSymbolizer;

/// Holders that a lock keeps.
const KEPT_HOLDERS: usize = 8;

/// The holders by lock.
pub struct HolderTable<'a> {
    identities: &'a Identities,
    by_lock: HashMap<u64, Vec<(u32, HoldStats)>>,
    /// What the traced tasks are for.
    roles: HashMap<u32, &'a str>,
}

impl<'a> HolderTable<'a> {
    /// `roles`: by tid, of the tasks that have one.
    pub fn new(
        identities: &'a Identities,
        roles: impl IntoIterator<Item = (u32, &'a str)>,
    ) -> Self {
        let mut by_lock: HashMap<u64, Vec<(u32, HoldStats)>> = HashMap::new();
        for (key, stats) in identities.holders.iter().filter(|(_, stats)| stats.count > 0) {
            by_lock.entry(key.lock).or_default().push((key.tid, *stats));
        }
        for holders in by_lock.values_mut() {
            holders.sort_by_key(|(tid, stats)| (Reverse(stats.total_ns), *tid));
        }
        HolderTable { identities, by_lock, roles: roles.into_iter().collect() }
    }

    /// Whether any hold of the lock was seen.
    pub fn knows(&self, lock: u64) -> bool {
        self.by_lock.contains_key(&lock)
    }

    /// The holds of a lock; `None` where none was seen.
    pub fn of(&self, lock: u64, symbols: &mut KernelSymbolizer) -> Option<Holds> {
        let holders = self.by_lock.get(&lock)?;
        let mut sum = HoldStats::default();
        holders.iter().for_each(|(_, stats)| add_holds(&mut sum, stats));
        Some(Holds {
            count: sum.count,
            total_ns: sum.total_ns,
            mean_ns: sum.total_ns / sum.count.max(1),
            max_ns: sum.max_ns,
            released_count: sum.released_count,
            holders_count: holders.len() as u64,
            holders: holders
                .iter()
                .take(KEPT_HOLDERS)
                .map(|(tid, stats)| self.holder(lock, *tid, stats, symbols))
                .collect(),
        })
    }

    fn holder(
        &self,
        lock: u64,
        tid: u32,
        stats: &HoldStats,
        symbols: &mut KernelSymbolizer,
    ) -> Holder {
        let name = self.identities.names.get(&tid);
        let mut holder = Holder {
            tid: (tid != 0).then_some(tid),
            pid: name.map(|name| name.tgid).filter(|tgid| *tgid != 0),
            comm: match (tid, name) {
                (0, _) => "readers".to_owned(),
                (_, Some(name)) => text(&name.comm),
                (_, None) => String::new(),
            },
            role: self.roles.get(&tid).map(|role| (*role).to_owned()),
            count: stats.count,
            total_ns: stats.total_ns,
            max_ns: stats.max_ns,
            ..Holder::default()
        };
        self.add_stack(&mut holder, lock, tid, symbols);
        holder
    }

    /// Where it released the lock, or else where it lost its CPU with the lock held.
    fn add_stack(&self, holder: &mut Holder, lock: u64, tid: u32, symbols: &mut KernelSymbolizer) {
        let stack = |at| {
            let key = HolderStackKey { lock, tid, at: at as u8, pad: [0; 3] };
            self.identities.stacks.get(&key).map(|stack| (at, stack))
        };
        let Some((at, stack)) = stack(HolderAt::Release).or_else(|| stack(HolderAt::Switch)) else {
            return;
        };
        let length = usize::try_from(stack.stack_len).unwrap_or(usize::MAX).min(stack.stack.len());
        let frames = symbols.without_tracing(&stack.stack[..length]);
        holder.stack = symbols.stack(frames);
        holder.caller = symbols.caller(frames);
        holder.stack_at = Some(
            match at {
                HolderAt::Release => "release",
                HolderAt::Switch => "switch",
            }
            .to_owned(),
        );
    }
}

/// A name padded with zeros.
fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}

#[cfg(test)]
mod tests {
    use lockscope_ebpf::{HolderKey, HolderName, HolderStack, STACK_DEPTH};

    use super::*;

    fn identities() -> Identities {
        let mut found = Identities::default();
        let mut hold = |lock, tid, count, total_ns, released_count| {
            let stats = HoldStats { count, total_ns, max_ns: total_ns / 2, released_count };
            found.holders.insert(HolderKey { lock, tid, pad: 0 }, stats);
        };
        hold(0x10, 7, 3, 600, 3);
        hold(0x10, 8, 1, 900, 0);
        hold(0x10, 0, 2, 300, 1);
        hold(0x20, 7, 0, 0, 0);
        found.names.insert(8, HolderName { tgid: 80, comm: *b"postgres\0\0\0\0\0\0\0\0" });
        found
    }

    #[test]
    fn holders_come_by_their_total_and_add_up() {
        let found = identities();
        let table = HolderTable::new(&found, [(8, "client backend")]);
        let holds = table.of(0x10, &mut KernelSymbolizer::new()).unwrap();
        assert_eq!((holds.count, holds.total_ns, holds.mean_ns), (6, 1_800, 300));
        assert_eq!((holds.max_ns, holds.released_count, holds.holders_count), (450, 4, 3));
        let tids: Vec<_> = holds.holders.iter().map(|holder| holder.tid).collect();
        assert_eq!(tids, [Some(8), Some(7), None]);
        let first = &holds.holders[0];
        assert_eq!((first.comm.as_str(), first.pid), ("postgres", Some(80)));
        assert_eq!(first.role.as_deref(), Some("client backend"));
        assert_eq!(holds.holders[1].comm, "", "a holder whose name was not read has none");
        assert_eq!(holds.holders[2].comm, "readers");
    }

    #[test]
    fn a_lock_that_nobody_held_up_has_no_holds() {
        let found = identities();
        let table = HolderTable::new(&found, []);
        assert!(table.knows(0x10) && !table.knows(0x20));
        assert_eq!(table.of(0x20, &mut KernelSymbolizer::new()), None);
    }

    #[test]
    fn the_stack_at_the_release_goes_before_that_of_a_switch() {
        let mut found = identities();
        let mut add = |at, frame| {
            let mut stack = [0; STACK_DEPTH];
            stack[0] = frame;
            let key = HolderStackKey { lock: 0x10, tid: 8, at: at as u8, pad: [0; 3] };
            found.stacks.insert(key, HolderStack { hold_ns: 1, stack_len: 1, pad: 0, stack });
        };
        add(HolderAt::Switch, 0x1000);
        add(HolderAt::Release, 0x2000);
        let table = HolderTable::new(&found, []);
        let mut symbols = KernelSymbolizer::from_kallsyms("/nonexistent/kallsyms".into());
        let holds = table.of(0x10, &mut symbols).unwrap();
        assert_eq!(holds.holders[0].stack_at.as_deref(), Some("release"));
    }
}
