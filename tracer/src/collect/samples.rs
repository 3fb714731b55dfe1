//! Sampled waits, folded as they arrive: per lock, which stacks and tids waited.

use std::collections::HashMap;

use lockscope_ebpf::{LockKey, WaitSample};

/// Distinct stacks that are kept; samples with further ones are counted as losses.
const MAX_STACKS: usize = 20_000;

/// An interned kernel stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StackId(u32);

/// Weighted waiting time and the samples behind it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Weight {
    /// Nanoseconds of wait that the samples stand for: an estimate.
    pub wait_ns: u64,
    /// Samples.
    pub samples_count: u64,
}

impl Weight {
    fn add(&mut self, wait_ns: u64) {
        self.wait_ns += wait_ns;
        self.samples_count += 1;
    }
}

/// The samples of one lock.
#[derive(Clone, Debug, Default)]
pub struct LockSamples {
    /// All of them.
    pub sum: Weight,
    /// By stack.
    pub stacks: HashMap<StackId, Weight>,
    /// By waiting tid.
    pub tids: HashMap<u32, Weight>,
}

/// All samples of a run.
#[derive(Clone, Debug, Default)]
pub struct Samples {
    ids: HashMap<Box<[u64]>, StackId>,
    stacks: Vec<Box<[u64]>>,
    locks: HashMap<LockKey, LockSamples>,
    dropped_stacks_count: u64,
}

impl Samples {
    /// Folds one sample in.
    pub fn add(&mut self, sample: &WaitSample) {
        let key =
            LockKey { lock: sample.lock, class: sample.class, side: sample.side, pad: [0; 6] };
        let frames = sample.stack.get(..usize::from(sample.stack_len)).unwrap_or(&sample.stack);
        let stack = self.intern(frames);
        let wait_ns = sample.wait_ns.saturating_mul(u64::from(sample.weight));
        let lock = self.locks.entry(key).or_default();
        lock.sum.add(wait_ns);
        lock.tids.entry(sample.tid).or_default().add(wait_ns);
        match stack {
            Some(stack) => lock.stacks.entry(stack).or_default().add(wait_ns),
            None => self.dropped_stacks_count += 1,
        }
    }

    fn intern(&mut self, frames: &[u64]) -> Option<StackId> {
        if let Some(id) = self.ids.get(frames) {
            return Some(*id);
        }
        if self.stacks.len() >= MAX_STACKS {
            return None;
        }
        let id = StackId(u32::try_from(self.stacks.len()).ok()?);
        self.stacks.push(frames.into());
        self.ids.insert(frames.into(), id);
        Some(id)
    }

    /// The samples of a lock, if there are any.
    pub fn lock(&self, key: &LockKey) -> Option<&LockSamples> {
        self.locks.get(key)
    }

    /// The return addresses of a stack, innermost first.
    pub fn frames(&self, stack: StackId) -> &[u64] {
        self.stacks.get(stack.0 as usize).map_or(&[], |frames| frames)
    }

    /// Samples whose stack was one too many.
    pub fn dropped_stacks_count(&self) -> u64 {
        self.dropped_stacks_count
    }
}

#[cfg(test)]
mod tests {
    use lockscope_ebpf::STACK_DEPTH;

    use super::*;

    fn sample(lock: u64, tid: u32, wait_ns: u64, weight: u32, frame: u64) -> WaitSample {
        let mut stack = [0; STACK_DEPTH];
        stack[0] = frame;
        WaitSample {
            end_ns: 0,
            wait_ns,
            lock,
            tid,
            tgid: tid,
            weight,
            class: 4,
            side: 1,
            stack_len: 1,
            pad: 0,
            stack,
        }
    }

    #[test]
    fn samples_are_weighted_and_stacks_shared() {
        let mut samples = Samples::default();
        samples.add(&sample(0x10, 1, 100, 16, 0xa));
        samples.add(&sample(0x10, 2, 5_000, 1, 0xa));
        samples.add(&sample(0x20, 1, 7, 1, 0xb));
        let key = LockKey { lock: 0x10, class: 4, side: 1, pad: [0; 6] };
        let lock = samples.lock(&key).unwrap();
        assert_eq!(lock.sum, Weight { wait_ns: 6_600, samples_count: 2 });
        assert_eq!(lock.tids[&1].wait_ns, 1_600);
        let (stack, weight) = lock.stacks.iter().next().unwrap();
        assert_eq!(weight.samples_count, 2);
        assert_eq!(samples.frames(*stack), [0xa]);
    }

    #[test]
    fn stacks_beyond_the_limit_are_counted_not_kept() {
        let mut samples = Samples::default();
        for frame in 0..MAX_STACKS as u64 + 5 {
            samples.add(&sample(0x10, 1, 1, 1, frame));
        }
        assert_eq!(samples.dropped_stacks_count(), 5);
        assert_eq!(samples.stacks.len(), MAX_STACKS);
    }
}
