//! Block plug counters, as the model has them.

use lockscope_ebpf::{PLUG_OWNER_COUNT, PLUG_OWNER_KWORKER, PlugStats, Side};

use crate::collect::Machine;
use crate::model::{Plug, PlugOwner};

/// Which plug probes are attached: what is not measured stays absent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PlugProbes {
    /// `block_plug` and `block_unplug`.
    pub events: bool,
    /// The events come from classic tracepoints, whose record does not tell implicit unplugs.
    pub events_without_cause: bool,
    /// `blk_start_plug` and `blk_finish_plug`.
    pub calls: bool,
    /// The flush function, entry and return.
    pub flush: bool,
    /// `blk_plug.rq_count` is known, so that empty flushes are told apart.
    pub flush_empties: bool,
}

/// The plug table over `transactions`; `None` when no plug probe is attached.
pub fn plug(machine: &Machine, probes: PlugProbes, transactions: u64) -> Option<Plug> {
    if !(probes.events || probes.calls || probes.flush) {
        return None;
    }
    let mut sum = PlugStats::default();
    machine.plug.iter().for_each(|stats| sum.add(stats));
    let per_transaction =
        |count: u64| (transactions > 0).then(|| count as f64 / transactions as f64);
    let flushes = if probes.flush {
        sum.flush_count.saturating_sub(sum.empty_flush_count)
    } else {
        sum.unplug_count
    };
    Some(Plug {
        flushes_per_transaction: (probes.flush || probes.events)
            .then(|| per_transaction(flushes))
            .flatten(),
        requests_per_flush: (probes.events && sum.unplug_count > 0)
            .then(|| sum.unplugged_requests_count as f64 / sum.unplug_count as f64),
        flush_ns_per_transaction: probes.flush.then(|| per_transaction(sum.flush_ns)).flatten(),
        by_owner: (0..PLUG_OWNER_COUNT)
            .map(|index| (owner_name(index).to_owned(), owner(&machine.plug[index], probes)))
            .collect(),
    })
}

fn owner_name(index: usize) -> &'static str {
    if index == PLUG_OWNER_KWORKER { "kworker" } else { Side::ALL[index].name() }
}

fn owner(stats: &PlugStats, probes: PlugProbes) -> PlugOwner {
    PlugOwner {
        start_count: probes.calls.then_some(stats.start_count),
        finish_count: probes.calls.then_some(stats.finish_count),
        plug_count: probes.events.then_some(stats.plug_count),
        unplug_count: probes.events.then_some(stats.unplug_count),
        requests_count: probes.events.then_some(stats.unplugged_requests_count),
        implicit_unplug_count: (probes.events && !probes.events_without_cause)
            .then_some(stats.implicit_unplug_count),
        flush_count: probes.flush.then_some(stats.flush_count),
        empty_flush_count: (probes.flush && probes.flush_empties)
            .then_some(stats.empty_flush_count),
        schedule_flush_count: probes.flush.then_some(stats.schedule_flush_count),
        flush_ns: probes.flush.then_some(stats.flush_ns),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine() -> Machine {
        let mut machine = Machine::default();
        machine.plug[Side::Server as usize] = PlugStats {
            unplug_count: 10,
            unplugged_requests_count: 40,
            flush_count: 30,
            empty_flush_count: 20,
            flush_ns: 500,
            ..PlugStats::default()
        };
        machine
    }

    #[test]
    fn without_a_probe_there_is_no_table() {
        assert_eq!(plug(&machine(), PlugProbes::default(), 5), None);
    }

    #[test]
    fn what_is_not_probed_is_absent() {
        let probes = PlugProbes { events: true, ..PlugProbes::default() };
        let table = plug(&machine(), probes, 5).unwrap();
        assert_eq!(table.flushes_per_transaction, Some(2.0));
        assert_eq!(table.requests_per_flush, Some(4.0));
        assert_eq!(table.flush_ns_per_transaction, None);
        assert_eq!(table.by_owner["server"].flush_count, None);
        assert_eq!(table.by_owner["kworker"].unplug_count, Some(0));
    }

    #[test]
    fn empty_flushes_are_no_flushes() {
        let probes =
            PlugProbes { events: true, flush: true, flush_empties: true, ..PlugProbes::default() };
        let table = plug(&machine(), probes, 5).unwrap();
        assert_eq!(table.flushes_per_transaction, Some(2.0));
        assert_eq!(table.flush_ns_per_transaction, Some(100.0));
    }
}
