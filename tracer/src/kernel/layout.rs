//! Where identifying a lock finds things in this kernel: `tracer_ebpf::KernelLayout` from BTF.

use lockscope_ebpf::{CACHE_NAME_BYTES, KernelLayout, TaskObject, TaskPointer};

use super::btf::Btf;

/// The variables that lead to the kernel's pages and memory nodes, where kallsyms lists them.
pub const MEMORY_SYMBOLS: [&str; 3] = ["page_offset_base", "vmemmap_base", "node_data"];

/// Slab caches of inodes: the cache, its objects' type, the inode in it, the module that knows it.
pub const INODE_CACHES: &[(&str, &str, &str, Option<&str>)] = &[
    ("bdev_cache", "bdev_inode", "vfs_inode", None),
    ("btrfs_inode", "btrfs_inode", "vfs_inode", Some("btrfs")),
    ("cifs_inode_cache", "cifsInodeInfo", "netfs", Some("cifs")),
    ("ext2_inode_cache", "ext2_inode_info", "vfs_inode", Some("ext2")),
    ("ext4_inode_cache", "ext4_inode_info", "vfs_inode", Some("ext4")),
    ("f2fs_inode_cache", "f2fs_inode_info", "vfs_inode", Some("f2fs")),
    ("fat_inode_cache", "msdos_inode_info", "vfs_inode", Some("fat")),
    ("fuse_inode", "fuse_inode", "inode", Some("fuse")),
    ("hugetlbfs_inode_cache", "hugetlbfs_inode_info", "vfs_inode", None),
    ("inode_cache", "inode", "", None),
    ("isofs_inode_cache", "iso_inode_info", "vfs_inode", Some("isofs")),
    ("mqueue_inode_cache", "mqueue_inode_info", "vfs_inode", None),
    ("nfs_inode_cache", "nfs_inode", "vfs_inode", Some("nfs")),
    ("ovl_inode", "ovl_inode", "vfs_inode", Some("overlay")),
    ("proc_inode_cache", "proc_inode", "vfs_inode", None),
    ("shmem_inode_cache", "shmem_inode_info", "vfs_inode", None),
    ("sock_inode_cache", "socket_alloc", "vfs_inode", None),
    ("v9fs_inode_cache", "v9fs_inode", "netfs", Some("9p")),
    ("xfs_inode", "xfs_inode", "i_vnode", Some("xfs")),
];

/// Name of a slab cache as the kernel side has it.
pub fn cache_key(name: &str) -> [u8; CACHE_NAME_BYTES] {
    let mut key = [0; CACHE_NAME_BYTES];
    // The kernel's copy of a longer name is cut, too, and keeps its terminating zero.
    let length = name.len().min(CACHE_NAME_BYTES - 1);
    key[..length].copy_from_slice(&name.as_bytes()[..length]);
    key
}

/// The offset of the inode in each cache's objects, for those whose type is known.
pub fn inode_offsets(btf: &Btf) -> Vec<([u8; CACHE_NAME_BYTES], u32)> {
    let offset = |(cache, object, member, module): &(&str, &str, &str, Option<&str>)| {
        let path = match member.is_empty() {
            true => (*object).to_owned(),
            false => format!("{object}.{member}"),
        };
        let offset = btf.offset(&path).ok().or_else(|| {
            // Built as a module, if at all; one that is not loaded has no inodes.
            btf.with_module((*module)?)?.offset(&path).ok()
        })?;
        Some((cache_key(cache), offset))
    };
    INODE_CACHES.iter().filter_map(offset).collect()
}

/// Everything but the places of memory (`direct_map`, `page_of_direct_map`), which differ at every boot.
pub fn layout(btf: &Btf) -> KernelLayout {
    let mut layout = KernelLayout {
        task_comm: btf.offset("task_struct.comm").unwrap_or(0),
        task_objects: TaskObject::ALL.map(|object| task_pointer(btf, object)),
        ..KernelLayout::default()
    };
    // Nothing of a group where one of it is missing: half of it leads nowhere.
    let _ = slabs(btf, &mut layout);
    let _ = filesystems(btf, &mut layout);
    layout
}

fn task_pointer(btf: &Btf, object: TaskObject) -> TaskPointer {
    let bytes = btf.struct_size(object.type_name()).unwrap_or(0);
    let member = match object {
        TaskObject::Mm => "task_struct.mm",
        TaskObject::Signal => "task_struct.signal",
        TaskObject::Sighand => "task_struct.sighand",
        TaskObject::Files => "task_struct.files",
        TaskObject::Fs => "task_struct.fs",
        TaskObject::Task => return TaskPointer { offset: 0, bytes },
    };
    btf.offset(member).map_or(TaskPointer::default(), |offset| TaskPointer { offset, bytes })
}

fn slabs(btf: &Btf, layout: &mut KernelLayout) -> Option<()> {
    let offset = |path| btf.offset(path).ok();
    let (slab_test, slab_test_mask, slab_test_value) = slab_test(btf)?;
    let filled = KernelLayout {
        page_bytes: btf.struct_size("page")?,
        page_head: offset("page.compound_head").or_else(|| offset("page.compound_info"))?,
        slab_test,
        slab_test_mask,
        slab_test_value,
        slab_cache: offset("slab.slab_cache").or_else(|| offset("page.slab_cache"))?,
        cache_name: offset("kmem_cache.name")?,
        cache_size: offset("kmem_cache.size")?,
        cache_object_size: offset("kmem_cache.object_size")?,
        cache_refcount: offset("kmem_cache.refcount")?,
        ..*layout
    };
    *layout = filled;
    Some(())
}

/// How a page tells that it is a slab's: offset in `struct page`, mask, value. A flag up to 6.9, a bit
/// of the inverted page type up to 6.11, a page type of its own since.
fn slab_test(btf: &Btf) -> Option<(u32, u32, u32)> {
    const PAGE_TYPE_BASE: u32 = 0xf000_0000;
    if let Some(bit) = btf.enumerator("pageflags", "PG_slab") {
        let flag = 1_u32.checked_shl(bit)?;
        return Some((btf.offset("page.flags").ok()?, flag, flag));
    }
    let page_type = btf.offset("page.page_type").ok()?;
    if let Some(bit) = btf.enumerator("pagetype", "PG_slab") {
        return Some((page_type, PAGE_TYPE_BASE | bit, PAGE_TYPE_BASE));
    }
    let kind = btf.enumerator("pagetype", "PGTY_slab")?;
    Some((page_type, 0xff00_0000, kind << 24))
}

fn filesystems(btf: &Btf, layout: &mut KernelLayout) -> Option<()> {
    let filled = KernelLayout {
        inode_super: btf.offset("inode.i_sb").ok()?,
        super_type: btf.offset("super_block.s_type").ok()?,
        type_name: btf.offset("file_system_type.name").ok()?,
        ..*layout
    };
    *layout = filled;
    Some(())
}
