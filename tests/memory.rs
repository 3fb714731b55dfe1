//! Memory that is mapped, touched and unmapped: `mmap_lock` taken for writing and for page faults.

use std::ptr;

use anyhow::{Result, bail};

const PAGE_BYTES: usize = 4096;
const LENGTH_BYTES: usize = 16 * PAGE_BYTES;

/// Does it once.
///
/// # Errors
/// The kernel's.
pub fn map_touch_unmap() -> Result<()> {
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: a new anonymous mapping at an address of the kernel's choice aliases nothing.
    let area = unsafe { libc::mmap(ptr::null_mut(), LENGTH_BYTES, protection, flags, -1, 0) };
    if area == libc::MAP_FAILED {
        bail!("mmap: {}", std::io::Error::last_os_error());
    }
    for offset in (0..LENGTH_BYTES).step_by(PAGE_BYTES) {
        // SAFETY: the offset is inside the mapping, which only this thread knows.
        let byte = unsafe { area.byte_add(offset) };
        // SAFETY: the mapping is writable and lives until the munmap below.
        unsafe { byte.cast::<u8>().write_volatile(1) };
    }
    // SAFETY: exactly the mapping made above; nothing points into it any more.
    if unsafe { libc::munmap(area, LENGTH_BYTES) } != 0 {
        bail!("munmap: {}", std::io::Error::last_os_error());
    }
    Ok(())
}
