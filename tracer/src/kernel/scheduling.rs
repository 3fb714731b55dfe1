//! Where the scheduler keeps what a switch and a waking must tell.

use super::btf::Btf;

/// Offsets and abilities; what this kernel's BTF does not tell is absent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SchedulingLayout {
    /// Whether `sched_switch` passes the state of the task that leaves (5.18+).
    pub switch_tells_state: bool,
    /// Byte offset of `task_struct.__state` (`state` before 5.14).
    pub task_state: Option<u32>,
    /// Byte offset of `task_struct.on_rq`.
    pub task_on_rq: Option<u32>,
    /// Byte offset of `task_struct.se.sched_delayed` (6.12+).
    pub task_sched_delayed: Option<u32>,
    /// Byte offset of `task_struct.in_iowait`, a bit field, and its bit in that byte.
    pub task_in_iowait: Option<(u32, u8)>,
    /// Byte offset of `cfs_rq.throttle_count` (with `CONFIG_CFS_BANDWIDTH`).
    pub cfs_rq_throttle_count: Option<u32>,
}

/// Arguments of `sched_switch` from 5.18 on, the tracepoint's own `void *` included:
/// preempt, prev, next, prev_state.
const SWITCH_ARGUMENTS: usize = 5;

impl SchedulingLayout {
    /// Reads the offsets.
    pub fn from_btf(btf: &Btf) -> Self {
        let arguments = btf.parameter_count("btf_trace_sched_switch");
        let in_iowait = btf.member("task_struct.in_iowait").ok();
        SchedulingLayout {
            switch_tells_state: arguments == Some(SWITCH_ARGUMENTS),
            task_state: btf
                .offset("task_struct.__state")
                .or_else(|_| btf.offset("task_struct.state"))
                .ok(),
            task_on_rq: btf.offset("task_struct.on_rq").ok(),
            task_sched_delayed: btf.offset("task_struct.se.sched_delayed").ok(),
            // x86 and arm64 count the bits of a bit field from the lowest of the lowest byte.
            task_in_iowait: in_iowait.map(|bit| (bit.byte_offset(), 1 << (bit.bit_offset % 8))),
            cfs_rq_throttle_count: btf.offset("cfs_rq.throttle_count").ok(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::btf::BtfError;

    #[test]
    fn the_running_kernel_tells_what_a_switch_needs() {
        let btf = match Btf::of_running_kernel() {
            Ok(btf) => btf,
            Err(BtfError::Read { .. }) => return eprintln!("skipped: this kernel has no BTF"),
            Err(error) => panic!("{error}"),
        };
        let layout = SchedulingLayout::from_btf(&btf);
        assert!(layout.task_state.is_some() && layout.task_on_rq.is_some(), "{layout:?}");
        let (_, mask) = layout.task_in_iowait.unwrap();
        assert_eq!(mask.count_ones(), 1);
    }
}
