//! What the kernel side found about contended locks and their holders.

use std::collections::HashMap;
use std::io;
use std::os::fd::BorrowedFd;

use lockscope_ebpf::{HoldStats, HolderKey, HolderName, HolderStack, HolderStackKey, LockIdentity};

use super::bpf::{Plain, lookup_all};
use crate::probe::TraceError;

/// By lock address (and holder), over the whole run.
#[derive(Clone, Debug, Default)]
pub struct Identities {
    /// What a lock's address lies in.
    pub locks: HashMap<u64, LockIdentity>,
    /// Holds while others waited, summed over the CPUs.
    pub holders: HashMap<HolderKey, HoldStats>,
    /// Who the holders are.
    pub names: HashMap<u32, HolderName>,
    /// The holders' own stacks.
    pub stacks: HashMap<HolderStackKey, HolderStack>,
}

impl Identities {
    /// Reads the maps. `cpus` is the number of possible CPUs.
    pub(crate) fn read<'a>(
        map: impl Fn(&'static str) -> Result<BorrowedFd<'a>, TraceError>,
        cpus: usize,
    ) -> Result<Identities, TraceError> {
        let failed =
            |name| move |source: io::Error| TraceError::Map { map: name, action: "read", source };
        let mut holders = HashMap::new();
        lookup_all(map("HOLDERS")?, cpus, |key: HolderKey, copies: &[HoldStats]| {
            let sum: &mut HoldStats = holders.entry(key).or_default();
            copies.iter().for_each(|copy| add_holds(sum, copy));
        })
        .map_err(failed("HOLDERS"))?;
        Ok(Identities {
            locks: entries(map("IDENTITIES")?).map_err(failed("IDENTITIES"))?,
            names: entries(map("HOLDER_NAMES")?).map_err(failed("HOLDER_NAMES"))?,
            stacks: entries(map("HOLDER_STACKS")?).map_err(failed("HOLDER_STACKS"))?,
            holders,
        })
    }
}

fn entries<K: Plain + Eq + std::hash::Hash, V: Plain>(
    map: BorrowedFd<'_>,
) -> io::Result<HashMap<K, V>> {
    let mut found = HashMap::new();
    lookup_all(map, 1, |key: K, values: &[V]| {
        found.extend(values.first().map(|value| (key, *value)));
    })?;
    Ok(found)
}

/// Adds holds of the same lock; the maximum is the larger one.
pub fn add_holds(sum: &mut HoldStats, more: &HoldStats) {
    sum.count += more.count;
    sum.total_ns += more.total_ns;
    sum.max_ns = sum.max_ns.max(more.max_ns);
    sum.released_count += more.released_count;
}
