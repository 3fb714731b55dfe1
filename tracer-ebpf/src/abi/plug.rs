//! Block-plug counters.

use super::SIDE_COUNT;

/// Block-plug counters of one side, one set a CPU.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PlugStats {
    /// `blk_start_plug` calls (function probe).
    pub start_count: u64,
    /// `blk_finish_plug` calls (function probe).
    pub finish_count: u64,
    /// `block_plug` events: a first request entered an empty plug.
    pub plug_count: u64,
    /// `block_unplug` events: a queue's share of a plug list was handed to the driver.
    pub unplug_count: u64,
    /// Requests in those, the sum of the event's depth.
    pub unplugged_requests_count: u64,
    /// `block_unplug` events that were implicit (from the scheduler, or because the plug was full).
    pub implicit_unplug_count: u64,
    /// Calls of `__blk_flush_plug` (`blk_flush_plug_list` before 5.16).
    pub flush_count: u64,
    /// Those with no request in the plug.
    pub empty_flush_count: u64,
    /// Those from the scheduler (`from_schedule`).
    pub schedule_flush_count: u64,
    /// Nanoseconds in flush calls, less nothing: plug time is not a ledger state.
    pub flush_ns: u64,
}

/// Who a plug event is charged to: the sides, then kworkers apart from the other tasks.
pub const PLUG_OWNER_COUNT: usize = SIDE_COUNT + 1;

/// Index of kworkers among the plug owners.
pub const PLUG_OWNER_KWORKER: usize = SIDE_COUNT;

impl PlugStats {
    /// Adds the counters of another CPU.
    pub fn add(&mut self, more: &PlugStats) {
        self.start_count += more.start_count;
        self.finish_count += more.finish_count;
        self.plug_count += more.plug_count;
        self.unplug_count += more.unplug_count;
        self.unplugged_requests_count += more.unplugged_requests_count;
        self.implicit_unplug_count += more.implicit_unplug_count;
        self.flush_count += more.flush_count;
        self.empty_flush_count += more.empty_flush_count;
        self.schedule_flush_count += more.schedule_flush_count;
        self.flush_ns += more.flush_ns;
    }
}
