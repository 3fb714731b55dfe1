use super::tests::Writer;
use super::*;

const INT_BITS: u32 = 32;

/// A kernel in small: a spinlock, a mutex and an inode, and objects that hold them.
fn kernel() -> Writer {
    let mut w = Writer::new();
    let int = w.add("int", (kind::INT, false, 0), 4, &[INT_BITS]);
    let raw = w.sized("qspinlock", false, 4, &[("val", int, 0)]);
    let raw_spinlock = w.sized("raw_spinlock", false, 4, &[("raw_lock", raw, 0)]);
    let spinlock = w.sized("spinlock", false, 4, &[("rlock", raw_spinlock, 0)]);
    let spinlock_t = w.add("spinlock_t", (kind::TYPEDEF, false, 0), spinlock, &[]);
    let osq = w.sized("optimistic_spin_queue", false, 4, &[("tail", int, 0)]);
    let mutex = w.sized(
        "mutex",
        false,
        16,
        &[("owner", int, 0), ("wait_lock", raw_spinlock, 64), ("osq", osq, 96)],
    );
    let inode = w.sized("inode", false, 32, &[("i_lock", spinlock_t, 0), ("i_rwsem", mutex, 64)]);
    let anonymous = w.sized("", false, 20, &[("mmap_lock", mutex, 0), ("pages", int, 128)]);
    w.sized("mm_struct", false, 24, &[("users", int, 0), ("", anonymous, 32)]);
    let three = w.add("", (kind::ARRAY, false, 0), 0, &[mutex, int, 3]);
    w.sized("table", false, 52, &[("count", int, 0), ("locks", three, 32)]);
    let overlay = w.add("", (kind::UNION, false, 2), 16, &[0; 6]);
    // The union's members, written over the zeros: an int and a mutex at the same place.
    w.patch_members(&[("number", int, 0), ("lock", mutex, 0)]);
    w.sized("either", false, 16, &[("", overlay, 0)]);
    w.sized("fs_inode", false, 36, &[("flags", int, 0), ("vfs_inode", inode, 32)]);
    let variable = w.add("buckets", (kind::VAR, false, 0), three, &[1]);
    w.add(".data..percpu", (kind::DATASEC, false, 1), 8, &[variable, 4096, 48]);
    w.add("pagetype", (kind::ENUM, false, 2), 4, &[0, 0, 0, 0]);
    w.patch_enumerators(&[("PGTY_buddy", 240), ("PGTY_slab", 245)]);
    w
}

fn btf() -> Btf {
    Btf::from_bytes(kernel().finish(None)).unwrap()
}

fn path(object: &str, offset: u32, shape: LockShape) -> Option<(String, u32)> {
    btf().lock_at(object, offset, shape).map(|lock| (lock.path, lock.offset))
}

#[test]
fn an_offset_names_the_field_of_the_lock() {
    assert_eq!(
        path("mm_struct", 4, LockShape::Sleeping),
        Some(("mm_struct.mmap_lock".into(), 4)),
        "through the anonymous struct"
    );
    assert_eq!(path("mm_struct", 0, LockShape::Sleeping), None);
    assert_eq!(path("mm_struct", 200, LockShape::Any), None);
    assert_eq!(path("absent", 0, LockShape::Any), None);
}

#[test]
fn a_part_of_a_sleeping_lock_is_named_for_it_and_its_spinlock_for_itself() {
    let osq = 4 + 12;
    assert_eq!(
        path("mm_struct", osq, LockShape::Sleeping),
        Some(("mm_struct.mmap_lock".into(), 4))
    );
    let wait_lock = 4 + 8;
    assert_eq!(
        path("mm_struct", wait_lock, LockShape::Spin),
        Some(("mm_struct.mmap_lock.wait_lock".into(), wait_lock))
    );
}

#[test]
fn an_inode_begins_a_path_whatever_it_is_in() {
    assert_eq!(path("fs_inode", 4 + 8, LockShape::Sleeping), Some(("inode.i_rwsem".into(), 12)));
    assert_eq!(path("fs_inode", 4, LockShape::Spin), Some(("inode.i_lock".into(), 4)));
}

#[test]
fn elements_of_arrays_have_their_index_and_unions_the_member_that_is_a_lock() {
    assert_eq!(
        path("table", 4 + 16 + 12, LockShape::Sleeping),
        Some(("table.locks[1]".into(), 20))
    );
    assert_eq!(path("either", 12, LockShape::Sleeping), Some(("either.lock".into(), 0)));
}

#[test]
fn a_per_cpu_variable_is_found_around_an_offset() {
    let lock = btf().percpu_lock_at(4096 + 32 + 8, LockShape::Spin).unwrap();
    assert_eq!((lock.path.as_str(), lock.offset), ("buckets[2].wait_lock", 4096 + 40));
    assert_eq!(lock.variable, "buckets");
    assert_eq!(btf().percpu_bytes(), Some(4096 + 48));
    assert_eq!(btf().percpu_lock_at(4095, LockShape::Any), None);
}

#[test]
fn enumerators_have_their_values() {
    assert_eq!(btf().enumerator("pagetype", "PGTY_slab"), Some(245));
    assert_eq!(btf().enumerator("pagetype", "PGTY_absent"), None);
}

/// A module's types follow the kernel's, and refer to them.
#[test]
fn a_modules_types_go_on_behind_the_kernels() {
    let base = kernel();
    let kernel_types = Btf::from_bytes(kernel().finish(None)).unwrap();
    let inode = kernel_types.struct_id("inode").unwrap();
    let mut module = base.split();
    module.sized("ext_inode_info", false, 40, &[("vfs_inode", inode, 64)]);
    let both = kernel_types.with_split(&module.finish(None)).unwrap();
    let lock = both.lock_at("ext_inode_info", 16, LockShape::Sleeping).unwrap();
    assert_eq!((lock.path.as_str(), lock.offset), ("inode.i_rwsem", 16));
    assert_eq!(both.offset("ext_inode_info.vfs_inode").unwrap(), 8);
    assert_eq!(both.offset("mm_struct.mmap_lock").unwrap(), 4, "the kernel's are still there");
    assert!(kernel_types.with_split(b"nothing").is_none());
}

/// What every supported kernel has, at the offset that the same BTF tells by name.
#[test]
fn the_running_kernel_names_its_locks() {
    let btf = match Btf::of_running_kernel() {
        Ok(btf) => btf,
        Err(BtfError::Read { .. }) => return eprintln!("skipped: this kernel has no BTF"),
        Err(error) => panic!("{error}"),
    };
    if btf.offset("rw_semaphore.owner").is_err() {
        return eprintln!("skipped: PREEMPT_RT builds its locks otherwise");
    }
    for (object, field, shape) in [
        ("mm_struct", "mmap_lock", LockShape::Sleeping),
        ("mm_struct", "page_table_lock", LockShape::Spin),
        ("files_struct", "file_lock", LockShape::Spin),
        ("sighand_struct", "siglock", LockShape::Spin),
        ("inode", "i_rwsem", LockShape::Sleeping),
        ("file", "f_pos_lock", LockShape::Sleeping),
        ("pipe_inode_info", "mutex", LockShape::Sleeping),
        ("task_struct", "pi_lock", LockShape::Spin),
    ] {
        let path = format!("{object}.{field}");
        let offset = btf.offset(&path).unwrap();
        let lock = btf.lock_at(object, offset, shape);
        assert_eq!(lock, Some(LockField { path, offset }));
    }
    let osq = btf.offset("file.f_pos_lock.osq").unwrap();
    let lock = btf.lock_at("file", osq, LockShape::Sleeping).unwrap();
    assert_eq!(lock.path, "file.f_pos_lock");
}
