//! The profile: who was on a CPU, and where in its code, by samples of perf events.
//!
//! One event a CPU samples whoever runs there, so that the cost is bounded by the frequency and not
//! by the number of tasks. Addresses become places in files as they come, while their processes live.

mod event;
mod objects;
mod off_cpu;
mod rings;
mod sleeps;
mod spaces;
mod stacks;
mod wakings;

use std::io;

pub use objects::ObjectFile;
use off_cpu::OffCpu;
pub use off_cpu::{PlaceSleeps, SideSleeps, Sleeps, WatchedTask};
use rings::Rings;
pub(crate) use rings::why;
pub use rings::{ProfileError, Trigger};
pub use sleeps::Where;
use stacks::Stacks;
pub use stacks::{Place, StackSamples};
pub use wakings::WakingEvent;

/// Sampling under way.
pub struct Profiler {
    rings: Rings,
    stacks: Stacks,
    frequency_hz: u64,
    unreadable_count: u64,
    off_cpu: Option<OffCpu>,
}

/// What was sampled; names are looked up later.
#[derive(Debug)]
pub struct Samples {
    /// What triggered them.
    pub trigger: Trigger,
    /// Why the cycle counter was not used.
    pub no_cycles: Option<String>,
    /// Samples a second and CPU that were asked for.
    pub frequency_hz: u64,
    /// The places that the stacks' numbers mean.
    pub places: Vec<Place>,
    /// The files that the places' numbers mean.
    pub objects: Vec<ObjectFile>,
    /// Samples by task and stack, in no order.
    pub samples: Vec<StackSamples>,
    /// Records that were lost or not understood.
    pub lost_count: u64,
    /// How often the kernel paused the sampling.
    pub throttled_count: u64,
    /// Where tasks slept; `None` where it cannot be had.
    pub sleeps: Option<Sleeps>,
}

impl Profiler {
    /// Opens an event on each of the CPUs, not yet sampling. `waking` is the
    /// tracepoint `sched:sched_waking`; without it sleeps are not watched.
    ///
    /// # Errors
    /// The kernel refuses the timer too.
    pub fn open(
        frequency_hz: u64,
        cpus: &[usize],
        waking: Option<WakingEvent>,
    ) -> Result<Profiler, ProfileError> {
        let rings = Rings::open(frequency_hz, cpus)?;
        let off_cpu = waking.map(|event| OffCpu::new(cpus, event));
        let stacks = Stacks::default();
        Ok(Profiler { rings, stacks, frequency_hz, unreadable_count: 0, off_cpu })
    }

    /// Begins.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn begin(&mut self, now_ns: u64) -> io::Result<()> {
        if let Some(off_cpu) = &mut self.off_cpu {
            off_cpu.begin(now_ns);
        }
        self.rings.enable()
    }

    /// Takes what has come. Call it at least every 100 ms: what is mapped by short-lived processes is
    /// looked at here. `tasks` are those whose sleeps may be watched.
    pub fn tick(&mut self, now_ns: u64, tasks: impl FnOnce() -> Vec<WatchedTask>) {
        self.drain();
        if let Some(off_cpu) = &mut self.off_cpu {
            off_cpu.tick(now_ns, &mut self.stacks, tasks);
        }
    }

    fn drain(&mut self) {
        let (events, unreadable_count) = self.rings.drain();
        self.unreadable_count += unreadable_count;
        events.into_iter().for_each(|event| self.stacks.add(event));
    }

    /// Ends.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn stop(&mut self, now_ns: u64) -> io::Result<()> {
        if let Some(off_cpu) = &mut self.off_cpu {
            off_cpu.stop(now_ns, &mut self.stacks);
        }
        self.rings.disable()?;
        self.drain();
        Ok(())
    }

    /// Hands over what was sampled.
    pub fn finish(self) -> Samples {
        let lost_count = self.stacks.lost_count + self.unreadable_count;
        let throttled_count = self.stacks.throttled_count;
        let sleeps = self.off_cpu.map(OffCpu::finish);
        let (places, objects, samples) = self.stacks.into_parts();
        Samples {
            trigger: self.rings.trigger,
            no_cycles: self.rings.no_cycles,
            frequency_hz: self.frequency_hz,
            places,
            objects,
            samples,
            lost_count,
            throttled_count,
            sleeps,
        }
    }
}
