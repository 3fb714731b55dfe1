//! The profile: who was on a CPU, and where in its code, by samples of perf events.
//!
//! One event a CPU samples whoever runs there, so that the cost is bounded by the frequency and not
//! by the number of tasks. Addresses become places in files as they come, while their processes live.

mod event;
mod objects;
mod rings;
mod spaces;
mod stacks;

use std::io;

pub use objects::ObjectFile;
use rings::Rings;
pub use rings::{ProfileError, Trigger};
use stacks::Stacks;
pub use stacks::{Place, StackSamples};

/// Sampling under way.
pub struct Profiler {
    rings: Rings,
    stacks: Stacks,
    frequency_hz: u64,
    unreadable_count: u64,
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
}

impl Profiler {
    /// Opens an event on each of the CPUs, not yet sampling.
    ///
    /// # Errors
    /// The kernel refuses the timer too.
    pub fn open(frequency_hz: u64, cpus: &[usize]) -> Result<Profiler, ProfileError> {
        let rings = Rings::open(frequency_hz, cpus)?;
        Ok(Profiler { rings, stacks: Stacks::default(), frequency_hz, unreadable_count: 0 })
    }

    /// Begins.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn begin(&mut self) -> io::Result<()> {
        self.rings.enable()
    }

    /// Takes what has come. Call it at least every 100 ms: what is mapped by short-lived processes is
    /// looked at here.
    pub fn drain(&mut self) {
        let (events, unreadable_count) = self.rings.drain();
        self.unreadable_count += unreadable_count;
        events.into_iter().for_each(|event| self.stacks.add(event));
    }

    /// Ends.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn stop(&mut self) -> io::Result<()> {
        self.rings.disable()?;
        self.drain();
        Ok(())
    }

    /// Hands over what was sampled.
    pub fn finish(self) -> Samples {
        let lost_count = self.stacks.lost_count + self.unreadable_count;
        let throttled_count = self.stacks.throttled_count;
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
        }
    }
}
