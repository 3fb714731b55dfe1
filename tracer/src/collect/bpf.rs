//! The few `bpf(2)` commands that aya does not offer: batched reads, and a program's run time.

use std::io;
use std::mem::{MaybeUninit, size_of};
use std::os::fd::{AsRawFd as _, BorrowedFd};

/// Types that any bytes the kernel wrote make a valid value of.
///
/// # Safety
/// `repr(C)`, no padding, every bit pattern valid.
pub(crate) unsafe trait Plain: Copy {}

// SAFETY: `repr(C)` integers without hidden padding (layout tests in tracer-ebpf).
unsafe impl Plain for lockscope_ebpf::TaskAccount {}
// SAFETY: as above.
unsafe impl Plain for lockscope_ebpf::CpuAccount {}
// SAFETY: as above.
unsafe impl Plain for lockscope_ebpf::WaitStats {}
// SAFETY: as above.
unsafe impl Plain for lockscope_ebpf::LockKey {}
// SAFETY: as above.
unsafe impl Plain for lockscope_ebpf::WaitSample {}
// SAFETY: as above.
unsafe impl Plain for lockscope_ebpf::WaitStack {}
// SAFETY: as above.
unsafe impl Plain for lockscope_ebpf::OpenFlush {}
// SAFETY: as above.
unsafe impl Plain for lockscope_ebpf::Gate {}
// SAFETY: as above.
unsafe impl Plain for lockscope_ebpf::LatencyBucket {}
// SAFETY: as above.
unsafe impl Plain for lockscope_ebpf::LockIdentity {}
// SAFETY: as above.
unsafe impl Plain for lockscope_ebpf::KernelLayout {}
// SAFETY: as above.
unsafe impl Plain for lockscope_ebpf::HolderKey {}
// SAFETY: as above.
unsafe impl Plain for lockscope_ebpf::HoldStats {}
// SAFETY: as above.
unsafe impl Plain for lockscope_ebpf::HolderName {}
// SAFETY: as above.
unsafe impl Plain for lockscope_ebpf::HolderStackKey {}
// SAFETY: as above.
unsafe impl Plain for lockscope_ebpf::HolderStack {}
// SAFETY: bytes.
unsafe impl Plain for [u8; lockscope_ebpf::CACHE_NAME_BYTES] {}
// SAFETY: an integer.
unsafe impl Plain for u32 {}
// SAFETY: an integer.
unsafe impl Plain for u64 {}

const BPF_MAP_LOOKUP_ELEM: libc::c_long = 1;
const BPF_MAP_UPDATE_ELEM: libc::c_long = 2;
const BPF_MAP_DELETE_ELEM: libc::c_long = 3;
const BPF_PROG_TEST_RUN: libc::c_long = 10;
/// Of an update: only where the key is not there yet.
const BPF_NOEXIST: u64 = 1;
const BPF_OBJ_GET_INFO_BY_FD: libc::c_long = 15;
const BPF_MAP_LOOKUP_BATCH: libc::c_long = 24;
const BATCH: usize = 256;

#[repr(C)]
struct ElementAttr {
    map_fd: u32,
    pad: u32,
    key: u64,
    value: u64,
    flags: u64,
}

#[repr(C)]
struct BatchAttr {
    in_batch: u64,
    out_batch: u64,
    keys: u64,
    values: u64,
    count: u32,
    map_fd: u32,
    elem_flags: u64,
    flags: u64,
}

#[repr(C)]
struct InfoAttr {
    fd: u32,
    info_len: u32,
    info: u64,
}

fn bpf<A>(command: libc::c_long, attr: &mut A) -> io::Result<()> {
    // SAFETY: `attr` is a `repr(C)` bpf_attr variant of the given size; the pointers in it are
    // valid for the sizes of the map's keys and values, which the callers' types fix.
    let ret = unsafe { libc::syscall(libc::SYS_bpf, command, &raw mut *attr, size_of::<A>()) };
    if ret < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

fn address<T>(value: &T) -> u64 {
    std::ptr::from_ref(value) as u64
}

fn fd_number(fd: BorrowedFd<'_>) -> u32 {
    u32::try_from(fd.as_raw_fd()).expect("a file descriptor is not negative")
}

/// Sets one element of a map.
pub(crate) fn update<K: Plain, V: Plain>(
    map: BorrowedFd<'_>,
    key: &K,
    value: &V,
) -> io::Result<()> {
    write(map, key, value, 0)
}

/// The same for a key that is not there yet; else the error is `EEXIST`.
pub(crate) fn insert<K: Plain, V: Plain>(
    map: BorrowedFd<'_>,
    key: &K,
    value: &V,
) -> io::Result<()> {
    write(map, key, value, BPF_NOEXIST)
}

fn write<K: Plain, V: Plain>(
    map: BorrowedFd<'_>,
    key: &K,
    value: &V,
    flags: u64,
) -> io::Result<()> {
    let mut attr = ElementAttr {
        map_fd: fd_number(map),
        pad: 0,
        key: address(key),
        value: address(value),
        flags,
    };
    bpf(BPF_MAP_UPDATE_ELEM, &mut attr)
}

/// Sets every CPU's copy of one element of a per-CPU map.
pub(crate) fn update_per_cpu<K: Plain, V: Plain>(
    map: BorrowedFd<'_>,
    key: &K,
    values: &[V],
) -> io::Result<()> {
    let mut attr = ElementAttr {
        map_fd: fd_number(map),
        pad: 0,
        key: address(key),
        value: values.as_ptr() as u64,
        flags: 0,
    };
    assert!(size_of::<V>().is_multiple_of(8), "per-CPU values are padded to 8 bytes");
    bpf(BPF_MAP_UPDATE_ELEM, &mut attr)
}

/// Deletes one element; one that is not there is not an error.
pub(crate) fn delete<K: Plain>(map: BorrowedFd<'_>, key: &K) -> io::Result<()> {
    let mut attr =
        ElementAttr { map_fd: fd_number(map), pad: 0, key: address(key), value: 0, flags: 0 };
    match bpf(BPF_MAP_DELETE_ELEM, &mut attr) {
        Err(error) if error.raw_os_error() == Some(libc::ENOENT) => Ok(()),
        other => other,
    }
}

/// Reads one element; `None` when it is not there.
pub(crate) fn lookup<K: Plain, V: Plain>(map: BorrowedFd<'_>, key: &K) -> io::Result<Option<V>> {
    Ok(lookup_per_cpu(map, key, 1)?.and_then(|values| values.first().copied()))
}

/// Reads every CPU's copy of one element; `cpus` is the number of *possible* CPUs.
pub(crate) fn lookup_per_cpu<K: Plain, V: Plain>(
    map: BorrowedFd<'_>,
    key: &K,
    cpus: usize,
) -> io::Result<Option<Vec<V>>> {
    let mut values: Vec<MaybeUninit<V>> = vec![MaybeUninit::zeroed(); cpus];
    let mut attr = ElementAttr {
        map_fd: fd_number(map),
        pad: 0,
        key: address(key),
        value: values.as_mut_ptr() as u64,
        flags: 0,
    };
    match bpf(BPF_MAP_LOOKUP_ELEM, &mut attr) {
        Ok(()) => Ok(Some(assume_init(values))),
        Err(error) if error.raw_os_error() == Some(libc::ENOENT) => Ok(None),
        Err(error) => Err(error),
    }
}

fn assume_init<V: Plain>(values: Vec<MaybeUninit<V>>) -> Vec<V> {
    // SAFETY: the vector was zeroed and the kernel wrote into it; `Plain` allows any bytes.
    values.into_iter().map(|value| unsafe { value.assume_init() }).collect()
}

/// Reads a whole hash map in batches: each key with its `copies` values (1, or one a possible CPU).
///
/// Elements that come or go meanwhile may or may not be among them.
pub(crate) fn lookup_all<K: Plain, V: Plain>(
    map: BorrowedFd<'_>,
    copies: usize,
    mut each: impl FnMut(K, &[V]),
) -> io::Result<()> {
    let mut capacity = BATCH;
    let mut keys: Vec<MaybeUninit<K>> = vec![MaybeUninit::zeroed(); capacity];
    let mut values: Vec<MaybeUninit<V>> = vec![MaybeUninit::zeroed(); capacity * copies];
    // The kernel's cursor: large enough for any key.
    let mut cursor = [0_u64; 8];
    let mut started = false;
    loop {
        let mut next = [0_u64; 8];
        let mut attr = BatchAttr {
            in_batch: if started { address(&cursor) } else { 0 },
            out_batch: next.as_mut_ptr() as u64,
            keys: keys.as_mut_ptr() as u64,
            values: values.as_mut_ptr() as u64,
            count: u32::try_from(capacity).expect("a batch is small"),
            map_fd: fd_number(map),
            elem_flags: 0,
            flags: 0,
        };
        let result = bpf(BPF_MAP_LOOKUP_BATCH, &mut attr);
        let last = match result {
            Ok(()) => false,
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) => true,
            // A hash bucket has more elements than the batch has room for.
            Err(error) if error.raw_os_error() == Some(libc::ENOSPC) && capacity < 1 << 16 => {
                capacity *= 2;
                keys.resize(capacity, MaybeUninit::zeroed());
                values.resize(capacity * copies, MaybeUninit::zeroed());
                continue;
            }
            Err(error) => return Err(error),
        };
        for index in 0..attr.count as usize {
            // SAFETY: zeroed, then written by the kernel; `Plain` allows any bytes.
            let key = unsafe { keys[index].assume_init() };
            let slice = &values[index * copies..(index + 1) * copies];
            // SAFETY: as above; `MaybeUninit<V>` has V's layout.
            let slice = unsafe { std::slice::from_raw_parts(slice.as_ptr().cast::<V>(), copies) };
            each(key, slice);
        }
        if last {
            return Ok(());
        }
        cursor = next;
        started = true;
    }
}

/// `BPF_PROG_TEST_RUN` of a raw tracepoint program without arguments, on a CPU, as whatever task
/// runs there (5.10+). ENXIO when the CPU is offline.
pub(crate) fn run_once(program: BorrowedFd<'_>, cpu: u32) -> io::Result<()> {
    const BPF_F_TEST_RUN_ON_CPU: u32 = 1;
    test_run(program, BPF_F_TEST_RUN_ON_CPU, cpu)
}

/// [`run_once`] as the current task.
pub(crate) fn run_here(program: BorrowedFd<'_>) -> io::Result<()> {
    test_run(program, 0, 0)
}

fn test_run(program: BorrowedFd<'_>, flags: u32, cpu: u32) -> io::Result<()> {
    // The `test` variant of bpf_attr, up to batch_size.
    #[repr(C)]
    struct TestRunAttr {
        prog_fd: u32,
        retval: u32,
        data_size_in: u32,
        data_size_out: u32,
        data_in: u64,
        data_out: u64,
        repeat: u32,
        duration: u32,
        ctx_size_in: u32,
        ctx_size_out: u32,
        ctx_in: u64,
        ctx_out: u64,
        flags: u32,
        cpu: u32,
    }
    let mut attr = TestRunAttr {
        prog_fd: fd_number(program),
        retval: 0,
        data_size_in: 0,
        data_size_out: 0,
        data_in: 0,
        data_out: 0,
        repeat: 0,
        duration: 0,
        ctx_size_in: 0,
        ctx_size_out: 0,
        ctx_in: 0,
        ctx_out: 0,
        flags,
        cpu,
    };
    bpf(BPF_PROG_TEST_RUN, &mut attr)
}

/// What the kernel counts of a program itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ProgramCounters {
    /// How long it ran while BPF_ENABLE_STATS was on.
    pub(crate) run_ns: u64,
    /// How often, likewise.
    pub(crate) run_count: u64,
    /// Events it did not see because it was running on that CPU already (5.12+), always counted.
    pub(crate) recursion_misses: u64,
}

/// Reads `run_time_ns`, `run_cnt` and `recursion_misses` of `struct bpf_prog_info`.
pub(crate) fn program_counters(program: BorrowedFd<'_>) -> io::Result<ProgramCounters> {
    // struct bpf_prog_info up to recursion_misses; an older kernel leaves what it lacks at 0.
    const INFO_BYTES: u32 = 216;
    const RUN_TIME_NS: usize = 192;
    const RUN_COUNT: usize = 200;
    const RECURSION_MISSES: usize = 208;
    let mut info = [0_u64; INFO_BYTES as usize / 8];
    let mut attr =
        InfoAttr { fd: fd_number(program), info_len: INFO_BYTES, info: info.as_mut_ptr() as u64 };
    bpf(BPF_OBJ_GET_INFO_BY_FD, &mut attr)?;
    Ok(ProgramCounters {
        run_ns: info[RUN_TIME_NS / 8],
        run_count: info[RUN_COUNT / 8],
        recursion_misses: info[RECURSION_MISSES / 8],
    })
}

/// What the kernel counts as a map's memory, from the `memlock` line of its fdinfo.
pub(crate) fn map_memlock_bytes(map: BorrowedFd<'_>) -> io::Result<u64> {
    let path = format!("/proc/self/fdinfo/{}", map.as_raw_fd());
    let text = std::fs::read_to_string(&path)?;
    text.lines()
        .find_map(|line| line.strip_prefix("memlock:")?.trim().parse().ok())
        .ok_or_else(|| io::Error::other(format!("{path} has no memlock line")))
}

/// A record of the ring buffer; `None` when it is shorter than the type.
pub(crate) fn from_bytes<T: Plain>(bytes: &[u8]) -> Option<T> {
    if bytes.len() < size_of::<T>() {
        return None;
    }
    // SAFETY: long enough, and `Plain` allows any bytes; the copy needs no alignment.
    Some(unsafe { bytes.as_ptr().cast::<T>().read_unaligned() })
}
