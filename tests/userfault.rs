//! Memory whose first touch sleeps until somebody gives it a page: whoever touches it in the kernel
//! sleeps there with all the locks that it holds.

use std::fs::File;
use std::io::Read as _;
use std::os::fd::{AsRawFd as _, FromRawFd as _};
use std::ptr;

use anyhow::{Context as _, Result, bail};

/// Bytes of the memory: one page.
pub const PAGE_BYTES: usize = 4096;

// From linux/userfaultfd.h.
const API: u64 = 0xAA;
const REGISTER_MODE_MISSING: u64 = 1;
const EVENT_PAGEFAULT: u8 = 0x12;
const MESSAGE_BYTES: usize = 32;

#[repr(C)]
struct ApiRequest {
    api: u64,
    features: u64,
    ioctls: u64,
}

#[repr(C)]
struct RegisterRequest {
    start: u64,
    len: u64,
    mode: u64,
    ioctls: u64,
}

#[repr(C)]
struct ZeropageRequest {
    start: u64,
    len: u64,
    mode: u64,
    zeropage: i64,
}

mod ioctl {
    //! The three requests that are needed.
    use super::{ApiRequest, RegisterRequest, ZeropageRequest};

    nix::ioctl_readwrite! {
        /// Agrees on the interface's version.
        uffdio_api, 0xAA, 0x3F, ApiRequest
    }
    nix::ioctl_readwrite! {
        /// Wants to be told of touches of a range.
        uffdio_register, 0xAA, 0x00, RegisterRequest
    }
    nix::ioctl_readwrite! {
        /// Gives a range pages of zeros, and wakes whoever waits for them.
        uffdio_zeropage, 0xAA, 0x04, ZeropageRequest
    }
}

/// One page of such memory.
#[derive(Debug)]
pub struct Page {
    faults: File,
    address: *mut libc::c_void,
}

// SAFETY: the address is a mapping that lives as long as the page; nothing in it is shared state.
unsafe impl Send for Page {}
// SAFETY: as above; all methods but `drop` only make system calls.
unsafe impl Sync for Page {}

impl Page {
    /// Maps it.
    ///
    /// # Errors
    /// When the kernel has no userfaultfd, or not for this user.
    pub fn map() -> Result<Self> {
        // SAFETY: takes a number and returns a descriptor or an error.
        let descriptor = unsafe { libc::syscall(libc::SYS_userfaultfd, libc::O_CLOEXEC) };
        let error = std::io::Error::last_os_error();
        let descriptor = i32::try_from(descriptor)?;
        if descriptor < 0 {
            bail!("userfaultfd: {error}; it needs root");
        }
        // SAFETY: a new descriptor that nobody else owns.
        let faults = unsafe { File::from_raw_fd(descriptor) };
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: a new anonymous mapping at an address of the kernel's choice aliases nothing.
        let address = unsafe { libc::mmap(ptr::null_mut(), PAGE_BYTES, protection, flags, -1, 0) };
        if address == libc::MAP_FAILED {
            bail!("mmap: {}", std::io::Error::last_os_error());
        }
        let page = Self { faults, address };
        let mut api = ApiRequest { api: API, features: 0, ioctls: 0 };
        // SAFETY: the structure is what the kernel expects, and lives through the call.
        unsafe { ioctl::uffdio_api(descriptor, &raw mut api) }.context("UFFDIO_API")?;
        let (start, len) = page.range();
        let mut range = RegisterRequest { start, len, mode: REGISTER_MODE_MISSING, ioctls: 0 };
        // SAFETY: as above.
        unsafe { ioctl::uffdio_register(descriptor, &raw mut range) }.context("UFFDIO_REGISTER")?;
        Ok(page)
    }

    /// Writes the page's bytes to a file: sleeps in the kernel until the page is provided.
    ///
    /// # Errors
    /// The file's.
    pub fn write_to(&self, file: &File) -> Result<()> {
        // SAFETY: the range is mapped as long as the page lives; only the kernel reads it.
        let written = unsafe { libc::write(file.as_raw_fd(), self.address, PAGE_BYTES) };
        if usize::try_from(written) != Ok(PAGE_BYTES) {
            bail!("write: {}", std::io::Error::last_os_error());
        }
        Ok(())
    }

    /// Has the kernel write a directory's first names to the page: sleeps until the page is provided.
    ///
    /// # Errors
    /// The directory's.
    pub fn list(&self, directory: &File) -> Result<()> {
        // SAFETY: the range is mapped as long as the page lives, and nothing of Rust's is in it.
        let listed = unsafe {
            let descriptor = directory.as_raw_fd();
            libc::syscall(libc::SYS_getdents64, descriptor, self.address, PAGE_BYTES)
        };
        if listed < 0 {
            bail!("getdents64: {}", std::io::Error::last_os_error());
        }
        Ok(())
    }

    /// Waits until somebody has touched the page.
    ///
    /// # Errors
    /// When the kernel says something else.
    pub fn wait_for_touch(&self) -> Result<()> {
        let mut message = [0; MESSAGE_BYTES];
        (&self.faults).read_exact(&mut message).context("cannot read the fault")?;
        if message[0] != EVENT_PAGEFAULT {
            bail!("userfaultfd: event {:#x} is no page fault", message[0]);
        }
        Ok(())
    }

    /// Gives whoever touched it a page of zeros.
    ///
    /// # Errors
    /// The kernel's.
    pub fn provide(&self) -> Result<()> {
        let (start, len) = self.range();
        let mut request = ZeropageRequest { start, len, mode: 0, zeropage: 0 };
        // SAFETY: the structure is what the kernel expects, and lives through the call.
        unsafe { ioctl::uffdio_zeropage(self.faults.as_raw_fd(), &raw mut request) }
            .context("UFFDIO_ZEROPAGE")?;
        Ok(())
    }

    /// Takes the page away: the next touch sleeps again.
    ///
    /// # Errors
    /// The kernel's.
    pub fn withdraw(&self) -> Result<()> {
        // SAFETY: the mapping is this page's own, and nothing of Rust's is in it.
        if unsafe { libc::madvise(self.address, PAGE_BYTES, libc::MADV_DONTNEED) } != 0 {
            bail!("madvise: {}", std::io::Error::last_os_error());
        }
        Ok(())
    }

    fn range(&self) -> (u64, u64) {
        (self.address as u64, PAGE_BYTES as u64)
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        // SAFETY: exactly the mapping that `map` made; nothing points into it any more.
        unsafe { libc::munmap(self.address, PAGE_BYTES) };
    }
}
