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
