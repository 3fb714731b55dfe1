//! Learns each CPU's run-queue address by running `learn_rq` once on it.

use std::io;
use std::os::fd::AsFd as _;

use aya::Ebpf;
use aya::programs::RawTracePoint;

use super::error::TraceError;
use super::tracer::map_fd;
use crate::collect::bpf;

/// Address of each possible CPU's run queue; 0 where it was not learnt: the CPU is offline, or this
/// kernel's BTF does not tell the way to it.
pub(super) fn run_queues(ebpf: &mut Ebpf, cpus: usize) -> Result<Vec<u64>, TraceError> {
    const PROGRAM: &str = "learn_rq";
    const MAP: &str = "LEARNT_RQ";
    let failed = |action| move |source| TraceError::Map { map: MAP, action, source };
    let program: &mut RawTracePoint = ebpf
        .program_mut(PROGRAM)
        .and_then(|program| program.try_into().ok())
        .ok_or(TraceError::MissingProgram(PROGRAM))?;
    let refused = |error| failed("filled")(io::Error::other(error));
    program.load().map_err(refused)?;
    let fd = program.fd().map_err(refused)?;
    let cpu_numbers = || 0..u32::try_from(cpus).unwrap_or(u32::MAX);
    for cpu in cpu_numbers() {
        match bpf::run_once(fd.as_fd(), cpu) {
            Err(error) if error.raw_os_error() == Some(libc::ENXIO) => {} // offline
            other => other.map_err(failed("filled"))?,
        }
    }
    let map = ebpf.map(MAP).and_then(map_fd).ok_or(TraceError::MissingMap(MAP))?;
    let learnt = |cpu| bpf::lookup::<u32, u64>(map, &cpu).map(Option::unwrap_or_default);
    cpu_numbers().map(learnt).collect::<io::Result<_>>().map_err(failed("read"))
}
