//! The perf events themselves: one sampling event a CPU, and its ring.

use std::io;
use std::os::fd::AsRawFd as _;

use perf_event::events::{Hardware, Software};
use perf_event::{Builder, Clock, SampleFlag, Sampler};

use super::event::{Event, parse};

/// Bytes of a ring: half a second of the deepest stacks at 1000 Hz.
const RING_BYTES: usize = 512 << 10;
const NS: u64 = 1_000_000_000;

/// What triggers the samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trigger {
    /// The CPU's cycle counter.
    Cycles,
    /// A timer: blind where interrupts are off, such samples land behind the place.
    CpuClock,
}

impl Trigger {
    /// As perf calls it.
    pub fn name(self) -> &'static str {
        match self {
            Trigger::Cycles => "cycles",
            Trigger::CpuClock => "cpu-clock",
        }
    }
}

/// Sampling cannot be had.
#[derive(Debug, thiserror::Error)]
#[error("perf_event_open refused {} on CPU {cpu}: {source}", trigger.name())]
pub struct ProfileError {
    trigger: Trigger,
    cpu: usize,
    source: io::Error,
}

/// One ring a CPU that is online.
pub(super) struct Rings {
    samplers: Vec<Sampler>,
    pub(super) trigger: Trigger,
    /// Why the cycle counter was not used.
    pub(super) no_cycles: Option<String>,
}

impl Rings {
    /// Opens them, not yet counting: by cycles, else by a timer.
    pub(super) fn open(frequency_hz: u64, cpus: &[usize]) -> Result<Rings, ProfileError> {
        let (trigger, no_cycles) = match open_all(Trigger::Cycles, frequency_hz, cpus) {
            Ok(samplers) => {
                return Ok(Rings { samplers, trigger: Trigger::Cycles, no_cycles: None });
            }
            Err(error) => (Trigger::CpuClock, Some(why(&error.source))),
        };
        let samplers = open_all(trigger, frequency_hz, cpus)?;
        Ok(Rings { samplers, trigger, no_cycles })
    }

    pub(super) fn enable(&mut self) -> io::Result<()> {
        self.samplers.iter_mut().try_for_each(|sampler| sampler.enable())
    }

    pub(super) fn disable(&mut self) -> io::Result<()> {
        self.samplers.iter_mut().try_for_each(|sampler| sampler.disable())
    }

    /// What has come since, in the order in which it happened, and how many records could not be
    /// read.
    pub(super) fn drain(&mut self) -> (Vec<Event>, u64) {
        let mut events = Vec::new();
        let mut unreadable_count = 0;
        for sampler in &mut self.samplers {
            let (read, unreadable) = read_ring(sampler);
            events.extend(read);
            unreadable_count += unreadable;
        }
        events.sort_by_key(|event| event.time_ns);
        (events, unreadable_count)
    }
}

/// What has come in one ring since, and how many records could not be read.
pub(super) fn read_ring(ring: &mut Sampler) -> (Vec<Event>, u64) {
    let (mut events, mut unreadable_count) = (Vec::new(), 0);
    let config = ring.config().clone();
    while let Some(record) = ring.next_record() {
        match parse(record.ty(), record.misc(), &record.to_contiguous(), &config) {
            Some(event) => events.push(event),
            None => unreadable_count += 1,
        }
    }
    (events, unreadable_count)
}

/// Enables an event until it has sampled `count` times.
pub(super) fn enable_for(ring: &Sampler, count: u32) -> io::Result<()> {
    let count = i32::try_from(count).unwrap_or(i32::MAX);
    // SAFETY: the descriptor is an open perf event, and the call takes a number.
    unsafe { refresh(ring.as_raw_fd(), count) }?;
    Ok(())
}

// `PERF_EVENT_IOC_REFRESH`.
nix::ioctl_write_int_bad!(refresh, nix::request_code_none!(b'$', 2));

fn open_all(
    trigger: Trigger,
    frequency_hz: u64,
    cpus: &[usize],
) -> Result<Vec<Sampler>, ProfileError> {
    let open = |cpu: &usize| {
        open(trigger, frequency_hz, *cpu).map_err(|source| ProfileError {
            trigger,
            cpu: *cpu,
            source,
        })
    };
    cpus.iter().map(open).collect()
}

fn open(trigger: Trigger, frequency_hz: u64, cpu: usize) -> io::Result<Sampler> {
    let mut builder = match trigger {
        Trigger::Cycles => Builder::new(Hardware::CPU_CYCLES),
        Trigger::CpuClock => Builder::new(Software::CPU_CLOCK),
    };
    match trigger {
        Trigger::Cycles => builder.sample_frequency(frequency_hz),
        // A timer's period is the same all the time.
        Trigger::CpuClock => builder.sample_period(NS / frequency_hz.max(1)),
    };
    builder
        .any_pid()
        .one_cpu(cpu)
        .include_kernel()
        .exclude_idle(true)
        .sample(SampleFlag::TID | SampleFlag::TIME | SampleFlag::CALLCHAIN | SampleFlag::PERIOD)
        .sample_id_all(true)
        .clockid(Clock::MONOTONIC)
        .mmap(true)
        .mmap2(true)
        .comm(true)
        .comm_exec(true)
        .task(true);
    builder.build()?.sampled(RING_BYTES)
}

/// Why an event is refused.
pub(crate) fn why(error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(libc::ENOENT | libc::ENODEV | libc::EOPNOTSUPP) => {
            "this machine offers no such hardware counter (a virtual machine without a PMU?)".into()
        }
        Some(libc::EACCES | libc::EPERM) => {
            "not permitted (CAP_PERFMON, or kernel.perf_event_paranoid)".into()
        }
        Some(libc::EMFILE | libc::ENFILE) => "no file descriptor is left (ulimit -n)".into(),
        Some(libc::EBUSY) => "another user has the PMU for itself".into(),
        _ => error.to_string(),
    }
}
