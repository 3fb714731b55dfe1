//! From sleeps to the model's off-CPU table: kernel locks are told apart, places become functions.

use std::collections::HashMap;

use super::profile::{Frames, frame};
use crate::model::{OffCpu, OffCpuStack, ProfileFrame, SideOffCpu, Waker};
use crate::profile::{PlaceSleeps, Samples, SideSleeps, Sleeps, Where};
use crate::symbolize::{KernelNames, UserSymbolizer, is_lock_internal};

/// A run keeps so many places of a side, and wakers of a place.
const MOST_PLACES: usize = 100;
const MOST_WAKERS: usize = 5;
/// The scheduler's own frames say nothing of why a task sleeps.
const SCHEDULER: [&str; 9] = [
    "perf_",
    "__perf_event",
    "__schedule",
    "schedule",
    "preempt_schedule",
    "prepare_task_switch",
    "io_schedule",
    "__traceiter_",
    "trace_event_",
];
/// A waker's stack with one of these came from an interrupt.
const INTERRUPTS: [&str; 5] =
    ["asm_sysvec_", "asm_common_interrupt", "handle_softirqs", "__do_softirq", "hrtimer_interrupt"];

/// Names every place and sums up by side.
pub fn off_cpu(sleeps: &Sleeps, samples: &Samples, kernel: &KernelNames) -> OffCpu {
    let mut user = UserSymbolizer::new(&samples.objects);
    let mut namer = Namer { frames: Frames::default(), by_place: HashMap::new() };
    for number in numbers(sleeps) {
        let named = frame(samples.places[number as usize], kernel, &mut user);
        let named = namer.frames.number(named);
        namer.by_place.insert(number, named);
    }
    let sides = sleeps.sides.iter();
    let sides = sides.map(|(side, sleeps)| ((*side).to_owned(), namer.side(sleeps))).collect();
    OffCpu {
        sides,
        frames: namer.frames.list,
        lost_count: sleeps.lost_count,
        failed_count: sleeps.failed_count,
        lost_wakings_count: sleeps.lost_wakings_count,
        unwoken_count: sleeps.unwoken_count,
    }
}

/// The places that are met.
fn numbers(sleeps: &Sleeps) -> Vec<u32> {
    let places = sleeps.sides.values().flat_map(|side| &side.places);
    let mut numbers: Vec<u32> = places
        .flat_map(|(place, sum)| {
            let own: &[u32] = if let Where::Stack(stack) = place { stack } else { &[] };
            own.iter().chain(sum.wakers.keys().flat_map(|(_, stack)| stack)).copied()
        })
        .collect();
    numbers.sort_unstable();
    numbers.dedup();
    numbers
}

struct Namer {
    frames: Frames,
    by_place: HashMap<u32, u32>,
}

impl Namer {
    fn side(&mut self, sleeps: &SideSleeps) -> SideOffCpu {
        let windows = sleeps.windows_count.max(1) as f64;
        let mut side = SideOffCpu {
            windows_count: sleeps.windows_count,
            observed_ns: sleeps.observed_ns,
            ..SideOffCpu::default()
        };
        // Many addresses are one stack of functions.
        let mut stacks: HashMap<Vec<u32>, (f64, PlaceSleeps)> = HashMap::new();
        for (place, sum) in &sleeps.places {
            let frames = self.place(place);
            if self.is_lock(&frames) {
                side.lock_share += sum.shares / windows;
                continue;
            }
            let (share, all) = stacks.entry(frames).or_default();
            *share += sum.shares / windows;
            all.count += sum.count;
            all.total_ns += sum.total_ns;
            for (waker, count) in &sum.wakers {
                *all.wakers.entry(waker.clone()).or_default() += count;
            }
        }
        let stack = |(frames, (share, sum)): (Vec<u32>, (f64, PlaceSleeps))| OffCpuStack {
            share,
            sleeps_count: sum.count,
            mean_ns: sum.total_ns / sum.count.max(1),
            frames,
            wakers: self.wakers(&sum.wakers),
        };
        side.stacks = stacks.into_iter().map(stack).collect();
        side.stacks.sort_by(|left, right| {
            right.share.total_cmp(&left.share).then_with(|| left.frames.cmp(&right.frames))
        });
        side.stacks.truncate(MOST_PLACES);
        side
    }

    fn place(&mut self, place: &Where) -> Vec<u32> {
        let frames: Vec<u32> = match place {
            Where::Stack(stack) => self.named(stack),
            Where::Kernel(names) => {
                let kernel = |name: &String| ProfileFrame {
                    symbol: name.clone(),
                    object: "[kernel]".to_owned(),
                    unknown: None,
                };
                names.iter().map(|name| self.frames.number(kernel(name))).collect()
            }
        };
        let outside = frames.iter().position(|frame| !starts_with(self.symbol(*frame), &SCHEDULER));
        frames[outside.unwrap_or(0)..].to_vec()
    }

    fn wakers(&self, wakers: &HashMap<(String, Vec<u32>), u64>) -> Vec<Waker> {
        let mut sums: HashMap<(String, Vec<u32>), u64> = HashMap::new();
        for ((command, stack), count) in wakers {
            let frames = self.named(stack);
            let is_interrupt =
                frames.iter().any(|frame| starts_with(self.symbol(*frame), &INTERRUPTS));
            let command = if is_interrupt { "[interrupt]".to_owned() } else { command.clone() };
            *sums.entry((command, frames)).or_default() += count;
        }
        let waker = |((command, frames), count)| Waker { command, count, frames };
        let mut wakers: Vec<Waker> = sums.into_iter().map(waker).collect();
        wakers.sort_by(|left, right| {
            right
                .count
                .cmp(&left.count)
                .then_with(|| left.command.cmp(&right.command))
                .then_with(|| left.frames.cmp(&right.frames))
        });
        wakers.truncate(MOST_WAKERS);
        wakers
    }

    fn named(&self, stack: &[u32]) -> Vec<u32> {
        stack.iter().filter_map(|place| self.by_place.get(place)).copied().collect()
    }

    fn symbol(&self, frame: u32) -> &str {
        self.frames.list.get(frame as usize).map_or("", |frame| frame.symbol.as_str())
    }

    /// Whether the first frame outside the scheduler is a sleeping lock's.
    fn is_lock(&self, frames: &[u32]) -> bool {
        let first = frames.first().and_then(|frame| self.frames.list.get(*frame as usize));
        first.is_some_and(|frame| frame.is_kernel() && is_lock_internal(&frame.symbol))
    }
}

fn starts_with(symbol: &str, prefixes: &[&str]) -> bool {
    prefixes.iter().any(|prefix| symbol.starts_with(prefix))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::profile::{Place, Trigger};
    use crate::symbolize::Symbol;

    #[test]
    fn locks_are_told_apart_and_wakers_named() {
        let names = [
            "__schedule",
            "rwsem_down_read_slowpath",
            "pipe_read",
            "pipe_write",
            "asm_sysvec_apic",
        ];
        let symbol = |(address, name): (u64, &&str)| {
            (address, Symbol { name: (*name).to_owned(), offset: 0 })
        };
        let kernel: KernelNames = (1..).zip(&names).map(symbol).collect();
        let samples = Samples {
            trigger: Trigger::CpuClock,
            no_cycles: None,
            frequency_hz: 199,
            places: (1..=5).map(Place::Kernel).collect(),
            objects: Vec::new(),
            samples: Vec::new(),
            lost_count: 0,
            throttled_count: 0,
            sleeps: None,
        };
        let sum = |count, shares, wakers: &[(&str, u32, u64)]| PlaceSleeps {
            count,
            total_ns: 100 * count,
            shares,
            wakers: wakers
                .iter()
                .map(|(name, frame, n)| (((*name).into(), vec![*frame]), *n))
                .collect(),
        };
        let places = BTreeMap::from([
            (Where::Stack(vec![0, 1]), sum(1, 0.5, &[])),
            (Where::Stack(vec![0, 2]), sum(3, 0.6, &[("writer", 3, 2), ("swapper", 4, 1)])),
            (Where::Kernel(vec!["pipe_read".into()]), sum(1, 0.2, &[("writer", 3, 1)])),
        ]);
        let side = SideSleeps { windows_count: 2, observed_ns: 2000, places };
        let sleeps = Sleeps { sides: BTreeMap::from([("server", side)]), ..Sleeps::default() };
        let found = off_cpu(&sleeps, &samples, &kernel);
        let server = &found.sides["server"];
        assert_eq!(server.lock_share, 0.25);
        assert_eq!(server.stacks.len(), 1, "one place, however it was found: {server:?}");
        let stack = &server.stacks[0];
        assert_eq!((stack.share, stack.sleeps_count, stack.mean_ns), (0.4, 4, 100));
        assert_eq!(found.frames[stack.frames[0] as usize].symbol, "pipe_read");
        let wakers: Vec<_> = stack.wakers.iter().map(|w| (w.command.as_str(), w.count)).collect();
        assert_eq!(wakers, [("writer", 3), ("[interrupt]", 1)]);
    }
}
