//! What a contended lock's address lies in: an object of the current task, a slab object, an inode.
//!
//! Looked up once a lock, when its first wait ends: the waiter has it then, so its object lives.
//! Names of structs and fields are the user side's, which has BTF.

use aya_ebpf::helpers::generated::bpf_get_current_task;
use aya_ebpf::helpers::{bpf_probe_read_kernel, bpf_probe_read_kernel_str_bytes};
use aya_ebpf::macros::raw_tracepoint;
use aya_ebpf::programs::RawTracePointContext;
use tracer_ebpf::{KernelLayout, LockIdentity, TASK_OBJECT_COUNT, TaskObject};

use crate::maps::{IDENTITIES, IDENTITY, INODE_CACHES, LAYOUT, WORD};

const PAGE_SHIFT: u32 = 12;
/// A tail page's way to its head is a pointer, or (7.x) a mask: minus the bytes of the `struct page`s
/// of a folio. No folio has as many.
const LARGEST_MASK: i64 = -(1 << 30);

/// Remembers what a lock's address lies in, unless it is known already. `in_task`: the current task
/// is the waiter, not just whom an interrupt found.
#[inline(never)]
pub(crate) fn describe(lock: u64, in_task: u64) {
    // SAFETY: the value is only tested for being there.
    if lock == 0 || unsafe { IDENTITIES.get(lock) }.is_some() {
        return;
    }
    let Some(layout) = LAYOUT.get(0) else { return };
    let Some(identity) = IDENTITY.get_ptr_mut(0) else { return };
    // SAFETY: this CPU's scratch value; `busy` keeps other programs of ours out.
    let identity = unsafe { &mut *identity };
    *identity = LockIdentity::UNKNOWN;
    if in_task != 0 {
        find_task_object(lock, layout, identity);
    }
    find_slab(lock, layout, identity);
    find_filesystem(layout, identity);
    // There is room: the table is as large as that of the locks.
    let _ = IDENTITIES.insert(lock, &*identity, 0);
}

/// Not attached to anything: run once, to check that the layout finds the current task's own slab. Its
/// answer is the identity of lock 0.
#[raw_tracepoint]
fn learn_memory(_ctx: RawTracePointContext) -> i32 {
    let Some(layout) = LAYOUT.get(0) else { return 0 };
    let Some(identity) = IDENTITY.get_ptr_mut(0) else { return 0 };
    // SAFETY: this CPU's scratch value; nothing is attached yet.
    let identity = unsafe { &mut *identity };
    *identity = LockIdentity::UNKNOWN;
    find_slab(current_task(), layout, identity);
    let _ = IDENTITIES.insert(0, &*identity, 0);
    0
}

/// Not attached to anything: run once a word, to follow pointers at the start. Answers the word at the
/// address in `WORD`, or the current task's own address for 0.
#[raw_tracepoint]
fn learn_word(_ctx: RawTracePointContext) -> i32 {
    let Some(word) = WORD.get_ptr_mut(0) else { return 0 };
    // SAFETY: a map value, valid while the program runs.
    let word = unsafe { &mut *word };
    *word = if *word == 0 { current_task() } else { read(*word, 0).unwrap_or(0) };
    0
}

#[inline(always)]
pub(crate) fn current_task() -> u64 {
    // SAFETY: a helper without preconditions.
    unsafe { bpf_get_current_task() }
}

#[inline(always)]
pub(crate) fn read<T>(base: u64, offset: u32) -> Option<T> {
    // SAFETY: the helper checks the address and fails instead of faulting.
    unsafe { bpf_probe_read_kernel((base + u64::from(offset)) as *const T) }.ok()
}

#[inline(always)]
fn find_task_object(lock: u64, layout: &KernelLayout, identity: &mut LockIdentity) {
    let task = current_task();
    for index in 0..TASK_OBJECT_COUNT {
        let field = layout.task_objects[index];
        let object = match index == TaskObject::Task as usize {
            true => task,
            false => read::<u64>(task, field.offset).unwrap_or(0),
        };
        let distance = lock.wrapping_sub(object);
        if distance < u64::from(field.bytes) {
            identity.task_object = index as u8 + 1;
            identity.task_offset = distance as u32;
        }
    }
}

#[inline(always)]
fn find_slab(address: u64, layout: &KernelLayout, identity: &mut LockIdentity) {
    let page_bytes = u64::from(layout.page_bytes);
    if layout.direct_map == 0 || page_bytes == 0 {
        return;
    }
    let pages = (address.wrapping_sub(layout.direct_map) as i64) >> PAGE_SHIFT;
    let page = layout.page_of_direct_map.wrapping_add((pages as u64).wrapping_mul(page_bytes));
    let Some(head) = head_of(page, layout) else { return };
    let Some(test) = read::<u32>(head, layout.slab_test) else { return };
    if test & layout.slab_test_mask != layout.slab_test_value {
        return;
    }
    let Some(cache) = read::<u64>(head, layout.slab_cache) else { return };
    let Some(size) = read::<u32>(cache, layout.cache_size) else { return };
    if size == 0 {
        return;
    }
    let tail_pages = page.wrapping_sub(head) / page_bytes;
    let slab = (address >> PAGE_SHIFT << PAGE_SHIFT).wrapping_sub(tail_pages << PAGE_SHIFT);
    let offset = (address.wrapping_sub(slab) % u64::from(size)) as u32;
    identity.slab_object = address - u64::from(offset);
    identity.slab_offset = offset;
    identity.object_size = read::<u32>(cache, layout.cache_object_size).unwrap_or(0);
    identity.cache_users = read::<u32>(cache, layout.cache_refcount).unwrap_or(0);
    read_name(read::<u64>(cache, layout.cache_name), &mut identity.cache);
}

#[inline(always)]
fn head_of(page: u64, layout: &KernelLayout) -> Option<u64> {
    let word = read::<u64>(page, layout.page_head)?;
    Some(match (word & 1 != 0, (word as i64) > LARGEST_MASK) {
        (false, _) => page,
        (true, true) => page & word,
        (true, false) => word - 1,
    })
}

#[inline(always)]
fn find_filesystem(layout: &KernelLayout, identity: &mut LockIdentity) {
    if identity.slab_object == 0 || layout.inode_super == 0 {
        return;
    }
    // SAFETY: the value is copied at once.
    let Some(inode) = (unsafe { INODE_CACHES.get(identity.cache) }).copied() else { return };
    let inode = identity.slab_object + u64::from(inode);
    let name = read::<u64>(inode, layout.inode_super)
        .and_then(|superblock| read::<u64>(superblock, layout.super_type))
        .and_then(|kind| read::<u64>(kind, layout.type_name));
    read_name(name, &mut identity.filesystem);
}

/// The rest of the buffer stays zero: it was, and the helper writes no further than the string.
#[inline(always)]
fn read_name(address: Option<u64>, name: &mut [u8]) {
    if let Some(address) = address {
        // SAFETY: the helper checks the address and fails instead of faulting.
        let _ = unsafe { bpf_probe_read_kernel_str_bytes(address as *const u8, name) };
    }
}
