//! Buffers that the kernel picks from: a ring of them, shared with it.
//!
//! A multishot receive takes the next buffer for each arrival; whoever has read it gives it back.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::io;
use std::sync::atomic::{AtomicU16, Ordering};

use io_uring::Submitter;
use io_uring::types::BufRingEntry;

/// The ring's place must be page-aligned, and pages are at most this large.
const RING_ALIGN: usize = 65_536;
const BUFFER_BYTES: usize = 8192;
/// Beginnings of buffers would all share a few lines of the CPU's cache at a power of two.
const STRIDE_BYTES: usize = BUFFER_BYTES + 64;
/// Group number; a driver has one group.
pub(super) const GROUP: u16 = 0;

pub(super) struct Buffers {
    /// What the kernel and we both see.
    ring: *mut BufRingEntry,
    layout: Layout,
    bytes: Vec<u8>,
    mask: u16,
    tail: u16,
}

impl Buffers {
    /// `count` buffers, a power of two up to 32768.
    pub(super) fn new(count: u16) -> io::Result<Self> {
        let size = usize::from(count) * size_of::<BufRingEntry>();
        let layout = Layout::from_size_align(size, RING_ALIGN).map_err(io::Error::other)?;
        // SAFETY: the layout's size is not zero, for `count` is not.
        let ring = unsafe { alloc_zeroed(layout) }.cast::<BufRingEntry>();
        if ring.is_null() {
            handle_alloc_error(layout);
        }
        let bytes = vec![0; usize::from(count) * STRIDE_BYTES];
        let mut buffers = Self { ring, layout, bytes, mask: count - 1, tail: 0 };
        for id in 0..count {
            buffers.give_back(id);
        }
        Ok(buffers)
    }

    /// Shows them to the kernel, which uses them until the ring of `submitter` is gone.
    ///
    /// # Safety
    /// `self` must outlive that ring.
    pub(super) unsafe fn register(&self, submitter: &Submitter<'_>) -> io::Result<()> {
        let (address, count) = (self.ring.addr() as u64, self.mask + 1);
        // SAFETY: the memory is as long as said, and lives long enough, as the caller promises.
        unsafe { submitter.register_buf_ring_with_flags(address, count, GROUP, 0) }
    }

    /// What the kernel wrote into buffer `id`; `length` is what it said.
    pub(super) fn read(&self, id: u16, length: usize) -> &[u8] {
        let start = usize::from(id & self.mask) * STRIDE_BYTES;
        &self.bytes[start..start + length.min(BUFFER_BYTES)]
    }

    /// The kernel may write into buffer `id` again.
    pub(super) fn give_back(&mut self, id: u16) {
        let start = usize::from(id & self.mask) * STRIDE_BYTES;
        let address = self.bytes[start..].as_mut_ptr();
        // SAFETY: the index is below the number of entries that `ring` was allocated for.
        let entry = unsafe { self.ring.add(usize::from(self.tail & self.mask)) };
        // SAFETY: it is initialized, all zeroes at first, and the kernel only reads it.
        let entry = unsafe { &mut *entry };
        entry.set_addr(address.expose_provenance() as u64);
        entry.set_len(BUFFER_BYTES as u32);
        entry.set_bid(id & self.mask);
        self.tail = self.tail.wrapping_add(1);
        // SAFETY: the ring's first entry is initialized, and the tail lies in it.
        let tail = unsafe { BufRingEntry::tail(self.ring) }.cast_mut();
        // SAFETY: the field is aligned and valid; kernel and we access it atomically.
        unsafe { AtomicU16::from_ptr(tail) }.store(self.tail, Ordering::Release);
    }
}

impl Drop for Buffers {
    fn drop(&mut self) {
        // SAFETY: allocated in `new` with this layout.
        unsafe { dealloc(self.ring.cast(), self.layout) };
    }
}
