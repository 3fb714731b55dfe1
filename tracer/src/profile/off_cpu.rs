//! Where tasks sleep: some tasks at a time are watched at each of their switches and wakings, the
//! others not at all, so that the cost does not grow with the load.

use std::collections::{BTreeMap, HashMap};
use std::io;

use perf_event::events::Software;
use perf_event::{Builder, Clock, SampleFlag, Sampler};

use super::event::EventKind;
use super::rings::{enable_for, read_ring};
use super::sleeps::{Sleep, Step, Where, sleeps};
use super::stacks::Stacks;
use super::wakings::{WakingEvent, Wakings};
use crate::kernel::task;

const NS: u64 = 1_000_000_000;
/// Windows begin this long after one another.
const PERIOD_NS: u64 = NS;
/// A window ends when so many switches were seen, or with the next one's begin. The kernel itself stops
/// there: each costs the task a walk of its stack, microseconds, and a busy one switches 50,000 times a
/// second.
const ENOUGH_SWITCHES: u32 = 96;
/// Tasks of a side in a window; each needs a descriptor a CPU.
const TASKS: usize = 2;
const MANY_CPUS: usize = 32;
/// Room for that many of the deepest stacks.
const SWITCH_RING_BYTES: usize = 256 << 10;

/// A task that may be watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WatchedTask {
    /// `server`, `client`, `other`.
    pub side: &'static str,
    /// Thread id.
    pub tid: u32,
}

/// The sleeps of one side's tasks at one place.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PlaceSleeps {
    /// Sleeps that ended there, or were cut by the window's end.
    pub count: u64,
    /// Their time.
    pub total_ns: u64,
    /// Sum over windows of the share of the window: the estimate of all time.
    pub shares: f64,
    /// By waker (its task's name and stack): sleeps that it ended.
    pub wakers: HashMap<(String, Vec<u32>), u64>,
}

/// One side's.
#[derive(Clone, Debug, Default)]
pub struct SideSleeps {
    /// Windows, each of one task.
    pub windows_count: u64,
    /// Their time.
    pub observed_ns: u64,
    /// By place.
    pub places: BTreeMap<Where, PlaceSleeps>,
}

/// What was seen.
#[derive(Debug, Default)]
pub struct Sleeps {
    /// By side.
    pub sides: BTreeMap<&'static str, SideSleeps>,
    /// Records that the rings had no room for; a window ends with the first.
    pub lost_count: u64,
    /// Tasks that could not be watched: gone, or no descriptor was left.
    pub failed_count: u64,
    /// Wakings that the rings had no room for: the sleeps end when the task runs again.
    pub lost_wakings_count: u64,
    /// Times that wakings could not be watched at all.
    pub unwoken_count: u64,
}

/// Watching under way.
pub(super) struct OffCpu {
    cpus: Vec<usize>,
    waking_event: WakingEvent,
    open: Vec<Window>,
    wakings: Option<Wakings>,
    next_ns: u64,
    turn: usize,
    sleeps: Sleeps,
}

/// A task that is watched now.
struct Window {
    task: WatchedTask,
    begin_ns: u64,
    /// Switches seen.
    switches_count: u32,
    /// When the last of them was that the kernel tells.
    enough_ns: Option<u64>,
    /// When the first record was lost.
    lost_ns: Option<u64>,
    asleep: Option<Vec<String>>,
    switches: Sampler,
    steps: Vec<(u64, Step)>,
}

impl OffCpu {
    pub(super) fn new(cpus: &[usize], waking_event: WakingEvent) -> OffCpu {
        OffCpu {
            cpus: cpus.to_vec(),
            waking_event,
            open: Vec::new(),
            wakings: None,
            next_ns: u64::MAX,
            turn: 0,
            sleeps: Sleeps::default(),
        }
    }

    pub(super) fn begin(&mut self, now_ns: u64) {
        self.next_ns = now_ns + PERIOD_NS / 5;
    }

    /// Reads what has come, ends the windows that have seen enough, and begins others.
    pub(super) fn tick(
        &mut self,
        now_ns: u64,
        stacks: &mut Stacks,
        tasks: impl FnOnce() -> Vec<WatchedTask>,
    ) {
        let is_over = now_ns >= self.next_ns;
        self.read(stacks);
        for window in std::mem::take(&mut self.open) {
            if is_over || window.enough_ns.is_some() || window.lost_ns.is_some() {
                self.sleeps.add(window, now_ns, stacks);
            } else {
                self.open.push(window);
            }
        }
        if self.open.is_empty() {
            self.wakings = None;
        }
        if !is_over {
            return;
        }
        self.next_ns = now_ns + PERIOD_NS;
        let most = if self.cpus.len() > MANY_CPUS { 1 } else { TASKS };
        let tasks = whose_turn(tasks(), self.turn, most);
        let tids = tasks.iter().map(|task| task.tid);
        self.wakings = Wakings::open(self.waking_event, &self.cpus, tids)
            .inspect_err(|error| log::debug!("cannot watch wakings: {error}"))
            .ok();
        self.sleeps.unwoken_count += u64::from(self.wakings.is_none() && !tasks.is_empty());
        for task in tasks {
            match Window::open(task, now_ns) {
                Ok(window) => self.open.push(window),
                Err(error) => {
                    log::debug!("cannot watch task {}: {error}", task.tid);
                    self.sleeps.failed_count += 1;
                }
            }
        }
        self.turn += 1;
    }

    /// Ends.
    pub(super) fn stop(&mut self, now_ns: u64, stacks: &mut Stacks) {
        self.next_ns = u64::MAX;
        self.read(stacks);
        for window in std::mem::take(&mut self.open) {
            self.sleeps.add(window, now_ns, stacks);
        }
        self.wakings = None;
    }

    fn read(&mut self, stacks: &mut Stacks) {
        for window in &mut self.open {
            window.read(stacks);
        }
        let Some(wakings) = &mut self.wakings else { return };
        let (wakings, lost_count) = wakings.read();
        self.sleeps.lost_wakings_count += lost_count;
        for waking in wakings {
            let mut open = self.open.iter_mut();
            let Some(window) = open.find(|window| window.task.tid == waking.woken) else {
                continue;
            };
            stacks.meet(waking.pid, waking.tid);
            let stack = stacks.stack(waking.pid, &waking.chain);
            window.steps.push((waking.time_ns, Step::Waking { waker: waking.tid, stack }));
        }
    }

    pub(super) fn finish(self) -> Sleeps {
        self.sleeps
    }
}

impl Sleeps {
    fn add(&mut self, mut window: Window, now_ns: u64, stacks: &mut Stacks) {
        window.steps.sort_by_key(|(at_ns, _)| *at_ns);
        let end_ns = window.lost_ns.or(window.enough_ns).unwrap_or(now_ns);
        let length_ns = end_ns.saturating_sub(window.begin_ns);
        self.lost_count += u64::from(window.lost_ns.is_some());
        if length_ns == 0 {
            return;
        }
        let steps = window.steps.iter().take_while(|(at_ns, _)| *at_ns <= end_ns);
        let steps: Vec<(u64, Step)> = steps.cloned().collect();
        let side = self.sides.entry(window.task.side).or_default();
        side.windows_count += 1;
        side.observed_ns += length_ns;
        for sleep in sleeps(window.begin_ns, end_ns, window.asleep.take(), &steps) {
            let Sleep { place, duration_ns, waker } = sleep;
            let sum = side.places.entry(place).or_default();
            sum.count += 1;
            sum.total_ns += duration_ns;
            sum.shares += duration_ns as f64 / length_ns as f64;
            if let Some((waker, stack)) = waker {
                *sum.wakers.entry((stacks.name(waker), stack)).or_default() += 1;
            }
        }
    }
}

impl Window {
    fn open(task: WatchedTask, now_ns: u64) -> io::Result<Window> {
        let switches = Builder::new(Software::CONTEXT_SWITCHES)
            .observe_pid(i32::try_from(task.tid).map_err(io::Error::other)?)
            .any_cpu()
            .include_kernel()
            .enabled(false)
            .sample_period(1)
            .sample(SampleFlag::TID | SampleFlag::TIME | SampleFlag::CALLCHAIN)
            .sample_id_all(true)
            .clockid(Clock::MONOTONIC)
            .context_switch(true)
            .build()?
            .sampled(SWITCH_RING_BYTES)?;
        enable_for(&switches, ENOUGH_SWITCHES)?;
        Ok(Window {
            task,
            begin_ns: now_ns,
            switches_count: 0,
            enough_ns: None,
            lost_ns: None,
            asleep: asleep(task.tid),
            switches,
            steps: Vec::new(),
        })
    }

    fn read(&mut self, stacks: &mut Stacks) {
        let mut events = read_ring(&mut self.switches).0;
        events.sort_by_key(|event| event.time_ns);
        for event in events {
            let step = match event.kind {
                EventKind::Sample { pid, chain, .. } => {
                    self.switches_count += 1;
                    if self.switches_count == ENOUGH_SWITCHES {
                        self.enough_ns = Some(event.time_ns);
                    }
                    Step::Stack(stacks.stack(pid, &chain))
                }
                EventKind::Switch { out: true, preempted } => Step::Out { preempted },
                EventKind::Switch { out: false, .. } => Step::In,
                EventKind::Lost(_) => {
                    // It is written with the first record that has room again.
                    let before = self.steps.last().map_or(self.begin_ns, |(at_ns, _)| *at_ns);
                    self.lost_ns.get_or_insert(before);
                    continue;
                }
                _ => continue,
            };
            self.steps.push((event.time_ns, step));
        }
    }
}

/// Where a task sleeps now, by the kernel's own words; `None` when it runs, or they are withheld.
fn asleep(tid: u32) -> Option<Vec<String>> {
    if task::stat(tid)?.state == 'R' {
        return None;
    }
    let text = task::read_text(format!("/proc/{tid}/stack")).ok()?;
    let frames = kernel_frames(&text);
    (!frames.is_empty()).then_some(frames)
}

/// `[<0>] pipe_read+0x1b2/0x4a0`.
fn kernel_frames(text: &str) -> Vec<String> {
    let frame = |line: &str| {
        let name = line.strip_prefix("[<0>] ")?.split(['+', ' ']).next()?;
        (!name.is_empty()).then(|| name.to_owned())
    };
    text.lines().filter_map(frame).collect()
}

/// Some tasks of each side, others every time.
fn whose_turn(tasks: Vec<WatchedTask>, turn: usize, most: usize) -> Vec<WatchedTask> {
    let mut by_side: BTreeMap<&str, Vec<WatchedTask>> = BTreeMap::new();
    for task in tasks {
        by_side.entry(task.side).or_default().push(task);
    }
    let mut chosen = Vec::new();
    for tasks in by_side.values_mut() {
        tasks.sort_unstable_by_key(|task| task.tid);
        let first = turn * most % tasks.len();
        chosen.extend(tasks.iter().cycle().skip(first).take(most.min(tasks.len())));
    }
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_words_become_names() {
        let text = "[<0>] pipe_read+0x1b2/0x4a0\n[<0>] vfs_read+0x1/0x2 [xfs]\n[<0>] 0xffff\nx\n";
        assert_eq!(kernel_frames(text), ["pipe_read", "vfs_read", "0xffff"]);
    }

    #[test]
    fn every_side_has_its_turn() {
        let task = |side, tid| WatchedTask { side, tid };
        let tasks: Vec<_> =
            (1..=5).map(|tid| task("server", tid)).chain([task("client", 9)]).collect();
        let tids = |turn| -> Vec<u32> {
            whose_turn(tasks.clone(), turn, 2).iter().map(|task| task.tid).collect()
        };
        assert_eq!((tids(0), tids(1), tids(2)), (vec![9, 1, 2], vec![9, 3, 4], vec![9, 5, 1]));
    }
}
