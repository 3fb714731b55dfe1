//! What a contended lock's address lies in.

/// Bytes kept of a slab cache's name, the terminating zero included.
pub const CACHE_NAME_BYTES: usize = 32;
/// Bytes kept of a filesystem's name, the terminating zero included.
pub const FILESYSTEM_NAME_BYTES: usize = 16;

/// An object that the current task points to.
#[repr(u8)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TaskObject {
    /// Its address space, `mm_struct`.
    Mm = 0,
    /// `signal_struct`: the process.
    Signal = 1,
    /// `sighand_struct`: its signal handlers.
    Sighand = 2,
    /// `files_struct`: its table of descriptors.
    Files = 3,
    /// `fs_struct`: its root and working directory.
    Fs = 4,
    /// The `task_struct` itself.
    Task = 5,
}

/// How many objects of the current task are looked at.
pub const TASK_OBJECT_COUNT: usize = 6;

impl TaskObject {
    /// Every object, in index order.
    pub const ALL: [TaskObject; TASK_OBJECT_COUNT] = [
        TaskObject::Mm,
        TaskObject::Signal,
        TaskObject::Sighand,
        TaskObject::Files,
        TaskObject::Fs,
        TaskObject::Task,
    ];

    /// The kernel's name of its type.
    pub fn type_name(self) -> &'static str {
        match self {
            TaskObject::Mm => "mm_struct",
            TaskObject::Signal => "signal_struct",
            TaskObject::Sighand => "sighand_struct",
            TaskObject::Files => "files_struct",
            TaskObject::Fs => "fs_struct",
            TaskObject::Task => "task_struct",
        }
    }
}

/// What a lock's address lies in, as found in the context of its first waiter.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LockIdentity {
    /// Start of the slab object around the lock; 0 = it lies in no slab, or that is not known.
    pub slab_object: u64,
    /// Bytes from there to the lock.
    pub slab_offset: u32,
    /// Size of the cache's objects.
    pub object_size: u32,
    /// Bytes from the start of the task's object to the lock.
    pub task_offset: u32,
    /// How many caches share the slab (merged ones: the name tells one of them); 1 = it is its own.
    pub cache_users: u32,
    /// 1 + the `TaskObject` of the waiter; 0 = none of them.
    pub task_object: u8,
    /// Explicit padding.
    pub pad: [u8; 7],
    /// Name of the slab cache, padded with zeros.
    pub cache: [u8; CACHE_NAME_BYTES],
    /// Name of the filesystem of the inode that the lock is in, padded with zeros.
    pub filesystem: [u8; FILESYSTEM_NAME_BYTES],
}

impl LockIdentity {
    /// Nothing known.
    pub const UNKNOWN: LockIdentity = LockIdentity {
        slab_object: 0,
        slab_offset: 0,
        object_size: 0,
        task_offset: 0,
        cache_users: 0,
        task_object: 0,
        pad: [0; 7],
        cache: [0; CACHE_NAME_BYTES],
        filesystem: [0; FILESYSTEM_NAME_BYTES],
    };
}

/// A pointer of `task_struct` and the size of what it points to.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TaskPointer {
    /// Byte offset of the pointer.
    pub offset: u32,
    /// Bytes of the object; 0 = this kernel does not have it.
    pub bytes: u32,
}

/// Where things lie in this kernel: what identifying a lock needs, one element of a map. Offsets
/// are bytes; each group is all zero where this kernel's BTF lacks one of its members.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KernelLayout {
    /// A page's address in the direct map; 0 = slabs cannot be found.
    pub direct_map: u64,
    /// Address of the same page's `struct page`.
    pub page_of_direct_map: u64,
    /// Size of `struct page`.
    pub page_bytes: u32,
    /// Of the word that leads from a tail page to its head.
    pub page_head: u32,
    /// Of the 32 bits of `struct page` that tell a slab's page.
    pub slab_test: u32,
    /// Of those, the bits that count.
    pub slab_test_mask: u32,
    /// A slab's page has these of them.
    pub slab_test_value: u32,
    /// Of the cache's pointer in a slab's first page.
    pub slab_cache: u32,
    /// `kmem_cache.name`.
    pub cache_name: u32,
    /// `kmem_cache.size`.
    pub cache_size: u32,
    /// `kmem_cache.object_size`.
    pub cache_object_size: u32,
    /// `kmem_cache.refcount`.
    pub cache_refcount: u32,
    /// `inode.i_sb`.
    pub inode_super: u32,
    /// `super_block.s_type`.
    pub super_type: u32,
    /// `file_system_type.name`.
    pub type_name: u32,
    /// `task_struct.comm`; 0 = not known.
    pub task_comm: u32,
    /// By `TaskObject`; the task itself has offset 0.
    pub task_objects: [TaskPointer; TASK_OBJECT_COUNT],
}
