//! Counters of the processor, and the kernel's own of its tasks.
//!
//! Counting a task costs it time at every switch. So the hardware events are counted in short windows,
//! for some tasks at a time, and ever more rarely the longer the run is; what they give are rates by the
//! CPU time that was counted too. The kernel's own counters cost nothing: they are read at the begin and
//! at the end.

mod events;
mod own;
mod speed;

use std::collections::BTreeMap;

pub use events::HardwareEvent;
use events::{Refusals, TaskCounters};
pub use own::{OwnCounters, between, read_all, read_own};
pub use speed::speed;

const NS: u64 = 1_000_000_000;
/// A window begins this long after the one before at least,
const PERIOD_NS: u64 = NS;
/// at most,
const LONGEST_PERIOD_NS: u64 = 20 * NS;
/// and else when this part of the time since the begin has passed anew.
const PERIOD_PART: u64 = 4;
/// And is at least this long.
const WINDOW_NS: u64 = NS / 10;
/// Tasks of a side in a window.
const TASKS: usize = 4;

/// One event of one task in one window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reading {
    /// What was counted.
    pub event: HardwareEvent,
    /// How often.
    pub count: u64,
    /// How long the task ran while it was to be counted.
    pub enabled_ns: u64,
    /// How long of that it was: groups that do not fit the PMU together take turns.
    pub running_ns: u64,
}

/// The readings of one side's tasks, summed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SideReadings {
    /// CPU time in the windows.
    pub task_clock_ns: u64,
    /// Windows, each of one task.
    pub windows_count: u64,
    /// By event: the count, scaled up for the time in which its group had no turn; and the times.
    pub events: BTreeMap<HardwareEvent, EventSum>,
}

/// One event's sum.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EventSum {
    /// Scaled.
    pub count: u64,
    /// See [`Reading::enabled_ns`].
    pub enabled_ns: u64,
    /// See [`Reading::running_ns`].
    pub running_ns: u64,
}

impl SideReadings {
    /// Adds a task's window. An event that had no turn at all in it leaves no number.
    pub fn add(&mut self, task_clock_ns: u64, readings: &[Reading]) {
        self.task_clock_ns += task_clock_ns;
        self.windows_count += 1;
        for reading in readings {
            let sum = self.events.entry(reading.event).or_default();
            sum.enabled_ns += reading.enabled_ns;
            sum.running_ns += reading.running_ns;
            if reading.running_ns > 0 {
                let enabled = u128::from(reading.count) * u128::from(reading.enabled_ns);
                let scaled = enabled / u128::from(reading.running_ns);
                sum.count += u64::try_from(scaled).unwrap_or(u64::MAX);
            }
        }
    }
}

/// Counting under way.
pub struct Counters {
    offered: Vec<HardwareEvent>,
    refused: Refusals,
    open: Vec<(&'static str, TaskCounters)>,
    open_since_ns: u64,
    begun_ns: u64,
    next_ns: u64,
    /// Windows so far: whose turn it is.
    turn: usize,
    sides: BTreeMap<&'static str, SideReadings>,
    failed_count: u64,
}

/// What was counted.
#[derive(Debug, Default)]
pub struct Counted {
    /// By side.
    pub sides: BTreeMap<&'static str, SideReadings>,
    /// Events that the machine does not offer, and why.
    pub missing: Vec<(HardwareEvent, String)>,
    /// Tasks that could not be counted in a window: gone, or no descriptor was left.
    pub failed_count: u64,
}

impl Counters {
    /// Finds out what the machine offers.
    pub fn find() -> Counters {
        let (offered, refused) = events::offered();
        Counters {
            offered,
            refused,
            open: Vec::new(),
            open_since_ns: 0,
            begun_ns: 0,
            next_ns: u64::MAX,
            turn: 0,
            sides: BTreeMap::new(),
            failed_count: 0,
        }
    }

    /// The first window comes soon, unless there is nothing to count in it.
    pub fn begin(&mut self, now_ns: u64) {
        self.begun_ns = now_ns;
        self.next_ns = if self.offered.is_empty() { u64::MAX } else { now_ns + WINDOW_NS };
    }

    /// Ends a window, or begins one with some of the `tasks` (side and tid).
    pub fn tick(&mut self, now_ns: u64, tasks: impl FnOnce() -> Vec<(&'static str, u32)>) {
        if !self.open.is_empty() {
            if now_ns >= self.open_since_ns + WINDOW_NS {
                self.close();
            }
            return;
        }
        if now_ns < self.next_ns {
            return;
        }
        let period_ns = (now_ns - self.begun_ns) / PERIOD_PART;
        self.next_ns = now_ns + period_ns.clamp(PERIOD_NS, LONGEST_PERIOD_NS);
        for (side, tid) in whose_turn(&tasks(), self.turn) {
            match TaskCounters::open(tid, &self.offered) {
                Ok(counters) => self.open.push((side, counters)),
                Err(_) => self.failed_count += 1,
            }
        }
        self.turn += 1;
        self.open_since_ns = now_ns;
    }

    fn close(&mut self) {
        for (side, mut counters) in self.open.drain(..) {
            match counters.read() {
                Ok((clock_ns, readings)) => {
                    self.sides.entry(side).or_default().add(clock_ns, &readings);
                }
                Err(_) => self.failed_count += 1,
            }
        }
    }

    /// Ends.
    pub fn stop(&mut self) {
        self.close();
        self.next_ns = u64::MAX;
    }

    /// Hands over what was counted.
    pub fn finish(self) -> Counted {
        let why =
            |(event, error): (HardwareEvent, std::io::Error)| (event, crate::profile::why(&error));
        Counted {
            sides: self.sides,
            missing: self.refused.into_iter().map(why).collect(),
            failed_count: self.failed_count,
        }
    }
}

/// Some tasks of each side, others every time.
fn whose_turn(tasks: &[(&'static str, u32)], turn: usize) -> Vec<(&'static str, u32)> {
    let mut by_side: BTreeMap<&'static str, Vec<u32>> = BTreeMap::new();
    for (side, tid) in tasks {
        by_side.entry(side).or_default().push(*tid);
    }
    let mut chosen = Vec::new();
    for (side, mut tids) in by_side {
        tids.sort_unstable();
        let first = turn * TASKS % tids.len();
        let turned = tids.iter().cycle().skip(first).take(TASKS.min(tids.len()));
        chosen.extend(turned.map(|tid| (side, *tid)));
    }
    chosen
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// Every task has its turn, and none has two in one window.
    #[test]
    fn the_turns_go_round() {
        let tasks: Vec<_> = (1..=10).map(|tid| ("server", tid)).chain([("client", 99)]).collect();
        let mut seen = BTreeSet::new();
        for turn in 0..5 {
            let chosen = whose_turn(&tasks, turn);
            let distinct: BTreeSet<_> = chosen.iter().copied().collect();
            assert_eq!((distinct.len(), chosen.len()), (5, 5));
            seen.extend(chosen);
        }
        assert_eq!(seen.len(), 11);
        assert_eq!(whose_turn(&[], 3), []);
    }

    /// Readings as a PMU gives them whose groups take turns.
    #[test]
    fn counts_are_scaled_by_the_time_without_a_turn() {
        let reading =
            |event, count, running_ns| Reading { event, count, enabled_ns: 90_000_000, running_ns };
        let mut side = SideReadings::default();
        side.add(
            90_000_000,
            &[
                reading(HardwareEvent::Cycles, 100_000_000, 45_000_000),
                reading(HardwareEvent::Instructions, 80_000_000, 45_000_000),
                reading(HardwareEvent::LlcLoads, 0, 0),
            ],
        );
        side.add(90_000_000, &[reading(HardwareEvent::Cycles, 270_000_000, 90_000_000)]);
        assert_eq!((side.task_clock_ns, side.windows_count), (180_000_000, 2));
        let cycles =
            EventSum { count: 470_000_000, enabled_ns: 180_000_000, running_ns: 135_000_000 };
        assert_eq!(side.events[&HardwareEvent::Cycles], cycles);
        assert_eq!(side.events[&HardwareEvent::Instructions].count, 160_000_000);
        assert_eq!(side.events[&HardwareEvent::LlcLoads].running_ns, 0);
    }

    fn window_begins(offered: Vec<HardwareEvent>, seconds: u64) -> Vec<u64> {
        let mut counters = Counters { offered, ..Counters::find() };
        let mut begins = Vec::new();
        counters.begin(7);
        for now_ns in (0..=seconds * 20).map(|step| 7 + step * NS / 20) {
            counters.tick(now_ns, || {
                begins.push(now_ns - 7);
                Vec::new()
            });
        }
        begins
    }

    /// A long run's windows cost it nothing that could be measured.
    #[test]
    fn windows_become_rarer() {
        let begins = window_begins(vec![HardwareEvent::Cycles], 3600);
        let tenths: Vec<u64> = begins.iter().map(|begin_ns| begin_ns / (NS / 10)).collect();
        assert_eq!(tenths[..6], [1, 11, 21, 31, 41, 51]);
        let last = begins.windows(2).last().unwrap();
        assert_eq!(last[1] - last[0], LONGEST_PERIOD_NS);
        assert!((180..220).contains(&begins.len()), "{}", begins.len());
    }

    #[test]
    fn nothing_to_count_opens_no_window() {
        assert!(window_begins(Vec::new(), 60).is_empty());
    }

    /// On this very thread: the CPU time of a window is what the kernel charges it.
    #[test]
    fn a_window_counts_the_cpu_time_of_a_task() {
        let tid = nix::unistd::gettid().as_raw() as u32;
        let mut counters = Counters::find();
        counters.begin(0);
        // Without a PMU too.
        counters.next_ns = WINDOW_NS;
        counters.tick(WINDOW_NS, || vec![("other", tid)]);
        let begun = read_own(tid, std::process::id()).unwrap_or_default().task_clock_ns;
        let mut sum = 0_u64;
        let pid = std::process::id();
        while read_own(tid, pid).unwrap_or_default().task_clock_ns < begun + 20_000_000 {
            sum = std::hint::black_box(sum + 1);
        }
        counters.stop();
        let counted = counters.finish();
        if counted.failed_count == 1 {
            let paranoid = std::fs::read_to_string("/proc/sys/kernel/perf_event_paranoid").unwrap();
            assert!(paranoid.trim().parse::<i32>().unwrap() > 1, "own events are permitted here");
            return;
        }
        let other = &counted.sides["other"];
        assert!(other.task_clock_ns >= 20_000_000, "{other:?}");
        assert_eq!(other.events.len() + counted.missing.len(), 10);
    }
}
