//! From a byte offset to the field that lies there: `mm_struct` + 0x68 → `mmap_lock`.

use lockscope_ebpf::LockClass;

use super::{Btf, MAX_DEPTH, kind};

/// What kind of lock is looked for at an offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LockShape {
    /// A spinlock, perhaps inside a larger lock.
    Spin,
    /// A queued rwlock.
    Rwlock,
    /// A mutex or an rw_semaphore, or any part of one.
    Sleeping,
    /// Whatever lock comes first from outside.
    Any,
}

/// A lock inside an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockField {
    /// `mm_struct.mmap_lock`, `inode.i_rwsem`.
    pub path: String,
    /// Bytes from the object's start to the lock's.
    pub offset: u32,
}

/// A lock inside a per-CPU variable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PerCpuLock {
    /// The variable.
    pub variable: String,
    /// From the variable, or from a type on the way that begins a path.
    pub path: String,
    /// Bytes from the start of the per-CPU section to the lock.
    pub offset: u64,
}

/// Members of these types begin a path anew: `inode.i_rwsem`, whatever filesystem's inode it is in.
const ANCHORS: &[&str] =
    &["block_device", "inode", "lruvec", "per_cpu_pages", "sock", "socket", "super_block", "zone"];

const SPIN: &[&str] = &["spinlock", "raw_spinlock", "qspinlock"];
const SLEEPING: &[&str] = &["mutex", "rw_semaphore"];
const OTHERS: &[&str] =
    &["percpu_rw_semaphore", "qrwlock", "rt_mutex_base", "rwbase_rt", "rwlock_t", "semaphore"];

impl LockShape {
    /// What to look for at the address that a wait of this class tells.
    pub fn of(class: LockClass) -> LockShape {
        match class {
            // The osq is part of a mutex or an rw_semaphore, and is named for it.
            LockClass::Osq
            | LockClass::MutexOwner
            | LockClass::MutexSpin
            | LockClass::Mutex
            | LockClass::RwsemOwner
            | LockClass::Rwsem => LockShape::Sleeping,
            LockClass::Qspinlock | LockClass::Rq => LockShape::Spin,
            LockClass::Rwlock => LockShape::Rwlock,
            LockClass::PercpuRwsem | LockClass::RtMutex | LockClass::Semaphore => LockShape::Any,
        }
    }

    fn is(self, name: &str) -> bool {
        match self {
            LockShape::Spin => SPIN.contains(&name),
            LockShape::Rwlock => ["rwlock_t", "qrwlock"].contains(&name),
            LockShape::Sleeping => SLEEPING.contains(&name),
            LockShape::Any => [SPIN, SLEEPING, OTHERS].iter().any(|names| names.contains(&name)),
        }
    }
}

impl Btf {
    /// Type id of a struct.
    pub fn struct_id(&self, name: &str) -> Option<u32> {
        self.find(name, &[kind::STRUCT])
    }

    /// The lock of this shape around an offset in a struct.
    pub fn lock_at(&self, structure: &str, offset: u32, shape: LockShape) -> Option<LockField> {
        let id = self.struct_id(structure)?;
        self.lock_in(id, structure, offset, shape)
    }

    /// Bytes of the per-CPU section, if the kernel describes it.
    pub fn percpu_bytes(&self) -> Option<u64> {
        let section = self.head(self.find(".data..percpu", &[kind::DATASEC])?)?;
        let end = |index| {
            let entry = section.position + 12 + index * 12;
            Some(u64::from(self.u32_at(entry + 4)?) + u64::from(self.u32_at(entry + 8)?))
        };
        (0..section.len).filter_map(end).max()
    }

    /// The per-CPU variable around an offset in the per-CPU section, and the lock around it.
    pub fn percpu_lock_at(&self, offset: u64, shape: LockShape) -> Option<PerCpuLock> {
        let section = self.head(self.find(".data..percpu", &[kind::DATASEC])?)?;
        (0..section.len).find_map(|index| {
            let entry = section.position + 12 + index * 12;
            let start = u64::from(self.u32_at(entry + 4)?);
            let distance = offset.checked_sub(start)?;
            if distance >= u64::from(self.u32_at(entry + 8)?) {
                return None;
            }
            let variable = self.head(self.u32_at(entry)?)?;
            let name = String::from_utf8_lossy(self.string(variable.name)).into_owned();
            let distance = u32::try_from(distance).ok()?;
            let lock = self.lock_in(variable.word, &name, distance, shape)?;
            Some(PerCpuLock {
                offset: start + u64::from(lock.offset),
                path: lock.path,
                variable: name,
            })
        })
    }

    /// Value of an enumerator of a named enum.
    pub fn enumerator(&self, name: &str, enumerator: &str) -> Option<u32> {
        let head = self.head(self.find(name, &[kind::ENUM])?)?;
        (0..head.len).find_map(|index| {
            let entry = head.position + 12 + index * 8;
            let found = self.string(self.u32_at(entry)?) == enumerator.as_bytes();
            if found { self.u32_at(entry + 4) } else { None }
        })
    }

    fn lock_in(&self, id: u32, name: &str, offset: u32, shape: LockShape) -> Option<LockField> {
        let mut path = vec![name.to_owned()];
        let start = self.descend(id, offset, shape, &mut path, 0)?;
        Some(LockField { path: path.join("."), offset: start })
    }

    /// Extends the path to the lock and returns where it starts, counted from this type's start.
    fn descend(
        &self,
        id: u32,
        offset: u32,
        shape: LockShape,
        path: &mut Vec<String>,
        depth: u32,
    ) -> Option<u32> {
        if depth > MAX_DEPTH {
            return None;
        }
        if self.is_lock(id, shape) {
            return Some(0);
        }
        let id = self.resolve(id)?;
        let head = self.head(id)?;
        match head.kind {
            kind::ARRAY => self.descend_array(id, offset, shape, path, depth),
            kind::STRUCT | kind::UNION => {
                // Members of a union overlap: the first that holds such a lock.
                (0..head.len).find_map(|index| {
                    let entry = (head.position + 12 + index * 12, head.kind_flag);
                    self.descend_member(entry, offset, shape, path, depth)
                })
            }
            _ => None,
        }
    }

    fn descend_array(
        &self,
        id: u32,
        offset: u32,
        shape: LockShape,
        path: &mut Vec<String>,
        depth: u32,
    ) -> Option<u32> {
        let head = self.head(id)?;
        let element = self.u32_at(head.position + 12)?;
        let bytes = self.size_of(element, 0).filter(|bytes| *bytes > 0)?;
        let index = offset / bytes;
        let last = path.last_mut()?;
        let length = last.len();
        last.push_str(&format!("[{index}]"));
        match self.descend(element, offset % bytes, shape, path, depth + 1) {
            Some(start) => Some(index * bytes + start),
            None => {
                path.last_mut()?.truncate(length);
                None
            }
        }
    }

    /// [`Btf::descend`] into a member: where it is described, and whether offsets hold bit fields.
    fn descend_member(
        &self,
        (entry, has_bit_fields): (usize, bool),
        offset: u32,
        shape: LockShape,
        path: &mut Vec<String>,
        depth: u32,
    ) -> Option<u32> {
        let (name, member, word) =
            (self.u32_at(entry)?, self.u32_at(entry + 4)?, self.u32_at(entry + 8)?);
        let start = if has_bit_fields { word & 0x00ff_ffff } else { word } / 8;
        let distance = offset.checked_sub(start)?;
        if distance >= self.size_of(member, 0)? {
            return None;
        }
        let before = path.clone();
        match self.name_of(member).filter(|name| ANCHORS.contains(name)) {
            Some(anchor) => *path = vec![anchor.to_owned()],
            None if name != 0 => path.push(String::from_utf8_lossy(self.string(name)).into_owned()),
            None => {}
        }
        let found = self.descend(member, distance, shape, path, depth + 1);
        if found.is_none() {
            *path = before;
        }
        Some(start + found?)
    }

    /// Whether a type, or one that it is another name of, is a lock of this shape.
    fn is_lock(&self, mut id: u32, shape: LockShape) -> bool {
        for _ in 0..MAX_DEPTH {
            let Some(head) = self.head(id) else { return false };
            if std::str::from_utf8(self.string(head.name)).is_ok_and(|name| shape.is(name)) {
                return true;
            }
            match head.kind {
                kind::TYPEDEF | kind::VOLATILE | kind::CONST | kind::TYPE_TAG => id = head.word,
                _ => return false,
            }
        }
        false
    }

    /// The name of a struct, behind typedefs and qualifiers.
    fn name_of(&self, id: u32) -> Option<&str> {
        let head = self.head(self.resolve(id)?)?;
        std::str::from_utf8(self.string(head.name)).ok().filter(|name| !name.is_empty())
    }
}
