//! When the gate moves, and when BPF_ENABLE_STATS is on.
//!
//! The programs are off for a fifth of the time in slices of 200 ms, so that what they cost shows
//! as a difference within the run. The window with BPF_ENABLE_STATS lies in a slice of its own kind:
//! it costs two clock reads an event, so it is short and comes once.

/// A cycle: the programs on, then off.
const ON_NS: u64 = 800_000_000;
const OFF_NS: u64 = 200_000_000;
/// A run shorter than this has no time for slices.
const SHORTEST_CONTROLLED_NS: u64 = 2 * (ON_NS + OFF_NS);
const WINDOW_NS: u64 = 200_000_000;

/// The state of the schedule.
#[derive(Clone, Copy, Debug)]
pub(super) struct Schedule {
    next_gate_ns: u64,
    on: bool,
    window_from_ns: u64,
    window_to_ns: u64,
}

impl Default for Schedule {
    /// Nothing moves.
    fn default() -> Self {
        Schedule {
            next_gate_ns: u64::MAX,
            on: true,
            window_from_ns: u64::MAX,
            window_to_ns: u64::MAX,
        }
    }
}

impl Schedule {
    /// The gate was opened at `now_ns`. Without `control` it stays open.
    pub(super) fn new(now_ns: u64, duration_ns: Option<u64>, control: bool) -> Schedule {
        let long_enough = duration_ns.is_none_or(|duration| duration >= SHORTEST_CONTROLLED_NS);
        let next_gate_ns = if control && long_enough { now_ns + ON_NS } else { u64::MAX };
        // In the middle of the first stretch with the programs on, past the start's turbulence.
        let window_from_ns = now_ns + ON_NS / 2;
        Schedule {
            next_gate_ns,
            on: true,
            window_from_ns,
            window_to_ns: window_from_ns + WINDOW_NS,
        }
    }

    /// The next instant at which something is due.
    pub(super) fn next_ns(&self) -> u64 {
        self.next_gate_ns.min(self.window_from_ns).min(self.window_to_ns)
    }

    /// Whether the gate is to be moved now, and how.
    pub(super) fn gate_at(&mut self, now_ns: u64) -> Option<bool> {
        if now_ns < self.next_gate_ns {
            return None;
        }
        self.on = !self.on;
        self.next_gate_ns = now_ns + if self.on { ON_NS } else { OFF_NS };
        Some(self.on)
    }

    /// Whether the statistics window is to be opened (true) or closed (false) now.
    pub(super) fn window_at(&mut self, now_ns: u64) -> Option<bool> {
        if now_ns >= self.window_from_ns {
            self.window_from_ns = u64::MAX;
            return Some(true);
        }
        if now_ns >= self.window_to_ns && self.window_from_ns == u64::MAX {
            self.window_to_ns = u64::MAX;
            return Some(false);
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn moves(schedule: &mut Schedule, until_ns: u64) -> Vec<(u64, bool)> {
        (0..until_ns / 1_000_000)
            .map(|ms| ms * 1_000_000)
            .filter_map(|now| schedule.gate_at(now).map(|on| (now / 1_000_000, on)))
            .collect()
    }

    #[test]
    fn the_programs_are_off_a_fifth_of_the_time() {
        let mut schedule = Schedule::new(0, Some(10 * SECOND), true);
        assert_eq!(moves(&mut schedule, 2 * SECOND), [(800, false), (1000, true), (1800, false)]);
    }

    #[test]
    fn without_control_or_time_the_gate_stays_open() {
        for mut schedule in
            [Schedule::new(0, Some(10 * SECOND), false), Schedule::new(0, Some(SECOND), true)]
        {
            assert!(moves(&mut schedule, 5 * SECOND).is_empty());
        }
    }

    #[test]
    fn the_window_opens_and_closes_once() {
        let mut schedule = Schedule::new(0, Some(SECOND), false);
        let seen: Vec<_> = (0..2000)
            .filter_map(|ms| schedule.window_at(ms * 1_000_000).map(|open| (ms, open)))
            .collect();
        assert_eq!(seen, [(400, true), (600, false)]);
        assert_eq!(schedule.next_ns(), u64::MAX);
    }
}
