//! What is sampled and counted beside the tracing.

use clap::Args;

/// Sampling and counting by perf events.
#[derive(Clone, Copy, Debug, Args)]
#[command(next_help_heading = "Profile")]
pub struct ProfileArgs {
    /// Do not sample who is on a CPU, and in which function.
    #[arg(long)]
    pub no_profile: bool,
    /// Samples a second of each CPU.
    #[arg(short = 'F', long, value_name = "HZ", default_value = "199", conflicts_with = "no_profile",
          value_parser = clap::value_parser!(u64).range(1..=10_000))]
    pub frequency: u64,
    /// Do not count cycles, instructions, cache misses, switches and page faults.
    #[arg(long)]
    pub no_counters: bool,
}

impl ProfileArgs {
    /// The frequency, if anything is to be sampled.
    pub fn sampling_hz(&self) -> Option<u64> {
        (!self.no_profile).then_some(self.frequency)
    }
}
