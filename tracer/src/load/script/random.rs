//! Streams of random numbers: pgbench's generator, seeded and drawn in pgbench's order.
//!
//! The same seed gives the same values as pgbench 15 and later, client by client. Which script a
//! client runs next is drawn from a stream of its own here and from its thread's there: with
//! several scripts the choices agree where every client has its own thread.

use rand_xoshiro::Xoroshiro128StarStar;
use rand_xoshiro::rand_core::{Rng as _, SeedableRng as _};

/// Bits of a double's fraction that are drawn.
const DOUBLE_BITS: u32 = 52;

/// A stream; its copy repeats what the original will give.
#[derive(Clone, Debug)]
pub struct Random(Xoroshiro128StarStar);

impl Random {
    /// The stream of this seed.
    pub fn new(seed: u64) -> Self {
        Self(Xoroshiro128StarStar::seed_from_u64(seed))
    }

    /// Any 64 bits.
    #[inline]
    pub fn bits(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// At most `last`, all equally likely.
    #[inline]
    pub fn up_to(&mut self, last: u64) -> u64 {
        if last == 0 {
            return 0;
        }
        let shift = last.leading_zeros();
        loop {
            let value = self.bits() >> shift;
            if value <= last {
                return value;
            }
        }
    }

    /// At least 0 and less than 1.
    #[inline]
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> (64 - DOUBLE_BITS)) as f64 / (1_u64 << DOUBLE_BITS) as f64
    }

    /// More than 0 and at most 1.
    #[inline]
    pub fn positive_unit(&mut self) -> f64 {
        1.0 - self.unit()
    }

    /// Normally distributed with mean 0 and standard deviation 1.
    pub fn normal(&mut self) -> f64 {
        let radius = (-2.0 * self.positive_unit().ln()).sqrt();
        radius * (std::f64::consts::TAU * self.positive_unit()).sin()
    }

    fn child(&mut self) -> Self {
        Self::new(self.bits())
    }
}

/// The streams of one client.
#[derive(Clone, Debug)]
pub struct ClientStreams {
    /// For the functions of its scripts.
    pub functions: Random,
    /// For which script comes next.
    pub choice: Random,
    /// For the schedule of a rate limit.
    pub schedule: Random,
    /// For which transactions are logged.
    pub sampling: Random,
}

/// Everything that is drawn from the seed of a run.
#[derive(Clone, Debug)]
pub struct Streams {
    /// By client.
    pub clients: Vec<ClientStreams>,
    /// What `:default_seed` is, unless the user defines it.
    pub default_seed: i64,
}

impl Streams {
    /// Draws for `clients` clients; `seed_is_defined`: the user defines `default_seed` (`-D`), so
    /// that none is drawn.
    pub fn new(seed: u64, clients: u32, seed_is_defined: bool) -> Self {
        let mut source = Random::new(seed);
        let functions: Vec<Random> = (0..clients).map(|_| source.child()).collect();
        let default_seed = if seed_is_defined { 0 } else { source.bits().cast_signed() };
        let clients = functions
            .into_iter()
            .map(|functions| ClientStreams {
                functions,
                choice: source.child(),
                schedule: source.child(),
                sampling: source.child(),
            })
            .collect();
        Self { clients, default_seed }
    }
}
