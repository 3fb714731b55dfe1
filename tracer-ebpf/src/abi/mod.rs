//! Layouts of map keys, map values and ring-buffer records.
//!
//! All times are nanoseconds of CLOCK_MONOTONIC (`bpf_ktime_get_ns`), all counts are events.

mod bucket;
mod class;
mod clock;
mod cpu;
mod hold;
mod identity;
mod lock;
mod loss;
mod plug;
mod sample;
mod side;
mod state;
mod task;
mod transaction;
mod waits;

pub use bucket::*;
pub use class::*;
pub use clock::*;
pub use cpu::*;
pub use hold::*;
pub use identity::*;
pub use lock::*;
pub use loss::*;
pub use plug::*;
pub use sample::*;
pub use side::*;
pub use state::*;
pub use task::*;
pub use transaction::*;
pub use waits::*;

#[cfg(test)]
mod tests {
    use core::mem::{align_of, size_of};

    use super::*;

    /// Sizes are part of the ABI: a change here is a change on both sides.
    #[test]
    fn layouts_have_no_hidden_padding() {
        assert_eq!(size_of::<WaitStats>(), 32 + 4 * HISTOGRAM_BUCKETS);
        assert_eq!(size_of::<Gate>(), 16);
        assert_eq!(size_of::<TaskClock>(), 24 + 8 * STATE_COUNT + size_of::<Transaction>());
        assert_eq!(size_of::<Transaction>(), 32 + 8 * STATE_COUNT);
        assert_eq!(size_of::<LatencyBucket>(), 16 + 8 * STATE_COUNT);
        assert_eq!(size_of::<Frame>(), 32);
        assert_eq!(size_of::<WaitStack>(), 8 + WAIT_DEPTH * size_of::<Frame>());
        assert_eq!(
            size_of::<TaskAccount>(),
            8 + 8 * 10
                + 48
                + size_of::<TaskClock>()
                + CLASS_COUNT * size_of::<WaitStats>()
                + size_of::<WaitStack>()
        );
        assert_eq!(
            size_of::<CpuAccount>(),
            24 + (1 + IRQ_LEVELS) * size_of::<WaitStack>()
                + CLASS_COUNT * size_of::<WaitStats>()
                + 40
                + PLUG_OWNER_COUNT * size_of::<PlugStats>()
                + 8 * LOSS_COUNT
        );
        assert_eq!(size_of::<LockKey>(), 16);
        assert_eq!(size_of::<WaitSample>(), 40 + 8 * STACK_DEPTH);
        assert_eq!(size_of::<PlugStats>(), 80);
        assert_eq!(size_of::<LockIdentity>(), 32 + CACHE_NAME_BYTES + FILESYSTEM_NAME_BYTES);
        assert_eq!(size_of::<KernelLayout>(), 16 + 14 * 4 + TASK_OBJECT_COUNT * 8);
        assert_eq!(size_of::<Held>(), 32);
        assert_eq!(size_of::<HolderKey>(), 16);
        assert_eq!(size_of::<HoldStats>(), 32);
        assert_eq!(size_of::<HolderName>(), 4 + COMM_BYTES);
        assert_eq!(size_of::<HolderStackKey>(), 16);
        assert_eq!(size_of::<HolderStack>(), 16 + 8 * STACK_DEPTH);
        assert_eq!(size_of::<Mark>(), 16);
        assert_eq!(align_of::<TaskAccount>(), 8);
    }

    #[test]
    fn class_and_loss_indices_match_their_order() {
        for (index, class) in LockClass::ALL.iter().enumerate() {
            assert_eq!(*class as usize, index);
        }
        for (index, loss) in Loss::ALL.iter().enumerate() {
            assert_eq!(*loss as usize, index);
        }
        for (index, object) in TaskObject::ALL.iter().enumerate() {
            assert_eq!(*object as usize, index);
        }
        for (index, side) in Side::ALL.iter().enumerate() {
            assert_eq!(*side as usize, index);
        }
    }
}
