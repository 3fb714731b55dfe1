//! Asking the kernel by trying: tiny programs and maps that are gone when the file closes.

use std::ffi::c_long;
use std::io;
use std::mem::size_of;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd, RawFd};

const BPF_MAP_CREATE: c_long = 0;
const BPF_PROG_LOAD: c_long = 5;
const BPF_RAW_TRACEPOINT_OPEN: c_long = 17;

const MAP_TYPE_RINGBUF: u32 = 27;
const PROG_TYPE_RAW_TRACEPOINT: u32 = 17;
const PROG_TYPE_TRACING: u32 = 26;
const ATTACH_TRACE_RAW_TP: u32 = 23;
const ATTACH_TRACE_FENTRY: u32 = 24;

const PERF_TYPE_SOFTWARE: u32 = 1;
const PERF_COUNT_SW_DUMMY: u64 = 9;
const PERF_FLAG_FD_CLOEXEC: u64 = 8;

/// `r0 = 0; exit`, in the kernel's instruction encoding.
const RETURN_ZERO: [u64; 2] = [0x0000_0000_0000_00b7, 0x0000_0000_0000_0095];
const LICENSE: &[u8] = b"GPL\0";

/// The part of `union bpf_attr` for `BPF_PROG_LOAD`, up to `attach_btf_id`.
#[repr(C)]
#[derive(Default)]
struct ProgLoad {
    prog_type: u32,
    insn_cnt: u32,
    insns: u64,
    license: u64,
    log_level: u32,
    log_size: u32,
    log_buf: u64,
    kern_version: u32,
    prog_flags: u32,
    prog_name: [u8; 16],
    prog_ifindex: u32,
    expected_attach_type: u32,
    prog_btf_fd: u32,
    func_info_rec_size: u32,
    func_info: u64,
    func_info_cnt: u32,
    line_info_rec_size: u32,
    line_info: u64,
    line_info_cnt: u32,
    attach_btf_id: u32,
}

/// The part of `union bpf_attr` for `BPF_MAP_CREATE` that a ring buffer needs.
#[repr(C)]
struct MapCreate {
    map_type: u32,
    key_size: u32,
    value_size: u32,
    max_entries: u32,
    map_flags: u32,
}

/// The part of `union bpf_attr` for `BPF_RAW_TRACEPOINT_OPEN`.
#[repr(C)]
struct RawTracepointOpen {
    name: u64,
    prog_fd: u32,
    padding: u32,
}

/// The first version of `struct perf_event_attr`, which every kernel takes.
#[repr(C)]
#[derive(Default)]
struct PerfEventAttr {
    kind: u32,
    size: u32,
    config: u64,
    rest: [u64; 6],
}

/// Loads a program for raw tracepoints: the least that tracing needs.
pub(super) fn load_raw_tracepoint() -> io::Result<()> {
    load_program(PROG_TYPE_RAW_TRACEPOINT, 0, 0).map(drop)
}

/// Loads a program for the BTF tracepoint whose `btf_trace_…` typedef has this id.
pub(super) fn load_btf_tracepoint(typedef_id: u32) -> io::Result<()> {
    load_program(PROG_TYPE_TRACING, ATTACH_TRACE_RAW_TP, typedef_id).map(drop)
}

/// Loads and attaches an fentry program to a function that only BPF's own self-test calls, and
/// detaches it at once.
pub(super) fn attach_fentry(function_id: u32) -> io::Result<()> {
    let program = load_program(PROG_TYPE_TRACING, ATTACH_TRACE_FENTRY, function_id)?;
    let prog_fd = u32::try_from(program.as_raw_fd()).map_err(io::Error::other)?;
    let mut attr = RawTracepointOpen { name: 0, prog_fd, padding: 0 };
    bpf(BPF_RAW_TRACEPOINT_OPEN, &mut attr).map(drop)
}

/// Makes a ring buffer of one page.
pub(super) fn create_ring_buffer() -> io::Result<()> {
    let page = nix::unistd::sysconf(nix::unistd::SysconfVar::PAGE_SIZE).ok().flatten();
    let max_entries = page.and_then(|size| u32::try_from(size).ok()).unwrap_or(4096);
    let mut attr = MapCreate {
        map_type: MAP_TYPE_RINGBUF,
        key_size: 0,
        value_size: 0,
        max_entries,
        map_flags: 0,
    };
    bpf(BPF_MAP_CREATE, &mut attr).map(drop)
}

/// Opens a perf event on CPU 0 for all tasks: what kprobes and classic tracepoints hang on.
pub(super) fn open_perf_event() -> io::Result<()> {
    let size = size_of::<PerfEventAttr>();
    let attr = PerfEventAttr {
        kind: PERF_TYPE_SOFTWARE,
        size: u32::try_from(size).map_err(io::Error::other)?,
        config: PERF_COUNT_SW_DUMMY,
        ..PerfEventAttr::default()
    };
    // SAFETY: `attr` is a valid perf_event_attr of the size it states and outlives the call.
    let result = unsafe {
        libc::syscall(libc::SYS_perf_event_open, &raw const attr, -1, 0, -1, PERF_FLAG_FD_CLOEXEC)
    };
    owned(result).map(drop)
}

fn load_program(prog_type: u32, expected_attach_type: u32, btf_id: u32) -> io::Result<OwnedFd> {
    let mut attr = ProgLoad {
        prog_type,
        insn_cnt: 2,
        insns: RETURN_ZERO.as_ptr().addr() as u64,
        license: LICENSE.as_ptr().addr() as u64,
        expected_attach_type,
        attach_btf_id: btf_id,
        ..ProgLoad::default()
    };
    attr.prog_name[..15].copy_from_slice(b"lockscope_probe");
    bpf(BPF_PROG_LOAD, &mut attr)
}

fn bpf<T>(command: c_long, attr: &mut T) -> io::Result<OwnedFd> {
    // SAFETY: `attr` is the prefix of `union bpf_attr` that `command` reads, of the size given;
    // the pointers inside it are to statics.
    let result =
        unsafe { libc::syscall(libc::SYS_bpf, command, std::ptr::from_mut(attr), size_of::<T>()) };
    owned(result)
}

fn owned(result: c_long) -> io::Result<OwnedFd> {
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    let fd = RawFd::try_from(result).map_err(io::Error::other)?;
    // SAFETY: the kernel just made this descriptor for us.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_have_the_kernel_layout() {
        assert_eq!(std::mem::offset_of!(ProgLoad, expected_attach_type), 68);
        assert_eq!(std::mem::offset_of!(ProgLoad, func_info), 80);
        assert_eq!(std::mem::offset_of!(ProgLoad, attach_btf_id), 108);
        assert_eq!(size_of::<ProgLoad>(), 112);
        assert_eq!(size_of::<PerfEventAttr>(), 64);
    }
}
