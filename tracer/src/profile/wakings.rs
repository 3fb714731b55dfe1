//! Who wakes the watched tasks: the tracepoint `sched:sched_waking` on every CPU, with a filter for those
//! tasks. (An event of the task alone sees whom the task wakes, not who wakes it.)

use std::ffi::CString;
use std::io;
use std::os::fd::AsRawFd as _;

use perf_event::events::Tracepoint;
use perf_event::{Builder, Clock, SampleFlag, Sampler};

use super::event::EventKind;
use super::rings::{enable_for, read_ring};

const RING_BYTES: usize = 512 << 10;
/// So many wakings are told on a CPU; of later sleeps the waker is not known. See `ENOUGH_SWITCHES`.
const ENOUGH_WAKINGS: u32 = 384;

/// What is known of the tracepoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WakingEvent {
    /// Its number.
    pub id: u32,
    /// Where its record holds the woken task, in bytes.
    pub pid_offset: u32,
}

/// Wakings of some tasks under way.
pub(super) struct Wakings {
    rings: Vec<Sampler>,
    pid_offset: usize,
}

/// One waking.
pub(super) struct Waking {
    pub(super) time_ns: u64,
    pub(super) woken: u32,
    /// The waker's process and thread; 0 for an idle CPU.
    pub(super) pid: u32,
    pub(super) tid: u32,
    pub(super) chain: Vec<u64>,
}

impl Wakings {
    /// Begins for these tasks.
    pub(super) fn open(
        event: WakingEvent,
        cpus: &[usize],
        tids: impl Iterator<Item = u32>,
    ) -> io::Result<Wakings> {
        let terms: Vec<String> = tids.map(|tid| format!("pid == {tid}")).collect();
        let filter = CString::new(terms.join(" || "))?;
        let ring = |cpu: &usize| {
            let counter = Builder::new(Tracepoint::with_id(u64::from(event.id)))
                .any_pid()
                .one_cpu(*cpu)
                .include_kernel()
                .sample_period(1)
                .sample(
                    SampleFlag::TID | SampleFlag::TIME | SampleFlag::CALLCHAIN | SampleFlag::RAW,
                )
                .sample_id_all(true)
                .clockid(Clock::MONOTONIC)
                .build()?;
            // SAFETY: the descriptor is an open perf event, and the text outlives the call.
            let done = unsafe { set_filter(counter.as_raw_fd(), filter.as_ptr()) };
            done?;
            let ring = counter.sampled(RING_BYTES)?;
            enable_for(&ring, ENOUGH_WAKINGS)?;
            Ok(ring)
        };
        let rings = cpus.iter().map(ring).collect::<io::Result<Vec<Sampler>>>()?;
        Ok(Wakings { rings, pid_offset: event.pid_offset as usize })
    }

    /// What has come since, and how many records were lost.
    pub(super) fn read(&mut self) -> (Vec<Waking>, u64) {
        let (mut wakings, mut lost_count) = (Vec::new(), 0);
        for ring in &mut self.rings {
            for event in read_ring(ring).0 {
                match event.kind {
                    EventKind::Sample { pid, tid, chain, raw, .. } => {
                        let field = raw.get(self.pid_offset..self.pid_offset + 4);
                        let field = field.and_then(|field| field.try_into().ok());
                        wakings.extend(field.map(|field| Waking {
                            time_ns: event.time_ns,
                            woken: u32::from_ne_bytes(field),
                            pid,
                            tid,
                            chain,
                        }));
                    }
                    EventKind::Lost(count) => lost_count += count,
                    _ => {}
                }
            }
        }
        (wakings, lost_count)
    }
}

// `PERF_EVENT_IOC_SET_FILTER`, an `_IOW` of a pointer to text.
nix::ioctl_write_ptr_bad!(
    set_filter,
    nix::request_code_write!(b'$', 6, size_of::<*const libc::c_char>()),
    libc::c_char
);
