//! What a lock's address lies in, by name: a field of the waiter's own objects, of a slab object, of a
//! per-CPU variable, of a memory node.

use std::collections::HashMap;

use lockscope_ebpf::{LockClass, LockIdentity, TaskObject};

use super::caches::{Cache, cache};
use crate::kernel::btf::{Btf, LockShape};

/// A lock that was recognised by where it lies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FoundObject {
    /// `mm_struct.mmap_lock`, `inode.i_rwsem (ext4)`.
    pub(super) name: String,
    /// What it was found in: `mm_struct`, `ext4_inode_cache`, `node_data[0]`.
    pub(super) inside: String,
    /// Where the lock starts: an osq's address lies inside it.
    pub(super) start: u64,
    pub(super) place: Place,
}

/// What kind of thing the address lies in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    PerCpu,
    Node,
    Task,
    Slab,
}

/// Knows the kernel's objects by address.
#[derive(Default)]
pub struct KernelObjects {
    btf: Option<Btf>,
    /// Of modules whose types occur.
    modules: HashMap<&'static str, Btf>,
    identities: HashMap<u64, LockIdentity>,
    /// Where each CPU's per-CPU variables begin.
    per_cpu: Vec<(usize, u64)>,
    /// Where each memory node's `pglist_data` is.
    nodes: Vec<u64>,
}

impl KernelObjects {
    /// `identities`: by lock address. `run_queues`: address of each CPU's run queue, 0 = not known.
    pub fn new(
        btf: Option<Btf>,
        identities: HashMap<u64, LockIdentity>,
        run_queues: &[u64],
        nodes: Vec<u64>,
    ) -> Self {
        let start = btf.as_ref().and_then(|btf| btf.percpu_offset("runqueues"));
        let known = run_queues.iter().enumerate().filter(|(_, rq)| **rq != 0);
        let per_cpu = start
            .into_iter()
            .flat_map(|start| known.clone().map(move |(cpu, rq)| (cpu, rq.wrapping_sub(start))));
        let per_cpu = per_cpu.collect();
        let mut objects =
            KernelObjects { btf, modules: HashMap::new(), identities, per_cpu, nodes };
        objects.load_modules();
        objects
    }

    fn load_modules(&mut self) {
        let Some(btf) = &self.btf else { return };
        let wanted = self.identities.values().filter_map(|identity| cache(&cache_name(identity)));
        for module in wanted.filter_map(|cache| cache.module) {
            if !self.modules.contains_key(module)
                && let Some(types) = btf.with_module(module)
            {
                self.modules.insert(module, types);
            }
        }
    }

    /// Kernel types, where the kernel tells them.
    pub(super) fn btf(&self) -> Option<&Btf> {
        self.btf.as_ref()
    }

    /// The object that a lock lies in, best evidence first.
    pub(super) fn find(&self, class: LockClass, address: u64) -> Option<FoundObject> {
        let shape = LockShape::of(class);
        let identity = self.identities.get(&address);
        self.in_per_cpu(shape, address)
            .or_else(|| self.in_node(shape, address))
            .or_else(|| self.in_task(shape, address, identity?))
            .or_else(|| self.in_slab(shape, address, identity?))
    }

    fn in_per_cpu(&self, shape: LockShape, address: u64) -> Option<FoundObject> {
        let btf = self.btf.as_ref()?;
        let bytes = btf.percpu_bytes()?;
        let (cpu, distance) = self.per_cpu.iter().find_map(|(cpu, base)| {
            let distance = address.checked_sub(*base)?;
            (distance < bytes).then_some((*cpu, distance))
        })?;
        let lock = btf.percpu_lock_at(distance, shape)?;
        // One variable a CPU; a path that begins with another type says which CPU's behind it.
        let name = match lock.path.strip_prefix(&lock.variable) {
            Some(field) => format!("{}[cpu {cpu}]{field}", lock.variable),
            None => format!("{} (cpu {cpu})", lock.path),
        };
        Some(FoundObject {
            name,
            inside: lock.variable,
            start: address - distance + lock.offset,
            place: Place::PerCpu,
        })
    }

    fn in_node(&self, shape: LockShape, address: u64) -> Option<FoundObject> {
        let btf = self.btf.as_ref()?;
        let bytes = u64::from(btf.struct_size("pglist_data")?);
        self.nodes.iter().enumerate().find_map(|(node, start)| {
            let distance = address.checked_sub(*start).filter(|distance| *distance < bytes)?;
            let lock = btf.lock_at("pglist_data", u32::try_from(distance).ok()?, shape)?;
            Some(FoundObject {
                name: format!("{} (node {node})", lock.path),
                inside: format!("node_data[{node}]"),
                start: start + u64::from(lock.offset),
                place: Place::Node,
            })
        })
    }

    fn in_task(
        &self,
        shape: LockShape,
        address: u64,
        identity: &LockIdentity,
    ) -> Option<FoundObject> {
        let index = usize::from(identity.task_object).checked_sub(1)?;
        let object = TaskObject::ALL.get(index)?;
        let lock = self.btf.as_ref()?.lock_at(object.type_name(), identity.task_offset, shape)?;
        Some(FoundObject {
            name: lock.path,
            inside: object.type_name().to_owned(),
            start: address - u64::from(identity.task_offset) + u64::from(lock.offset),
            place: Place::Task,
        })
    }

    fn in_slab(
        &self,
        shape: LockShape,
        address: u64,
        identity: &LockIdentity,
    ) -> Option<FoundObject> {
        let name = cache_name(identity);
        // Merged caches: the name is that of one of them.
        if identity.slab_object == 0 || identity.cache_users != 1 {
            return None;
        }
        let known = cache(&name).unwrap_or(Cache { object: &name, module: None });
        let btf = known.module.and_then(|module| self.modules.get(module)).or(self.btf.as_ref())?;
        if btf.struct_size(known.object)? > identity.object_size {
            return None;
        }
        let lock = btf.lock_at(known.object, identity.slab_offset, shape)?;
        let filesystem = text(&identity.filesystem);
        let suffix = match lock.path.split('.').next() {
            Some("inode" | "address_space") if !filesystem.is_empty() => format!(" ({filesystem})"),
            Some("sock") => format!(" ({name})"),
            _ => String::new(),
        };
        Some(FoundObject {
            name: lock.path + &suffix,
            start: address - u64::from(identity.slab_offset) + u64::from(lock.offset),
            inside: name,
            place: Place::Slab,
        })
    }
}

fn cache_name(identity: &LockIdentity) -> String {
    text(&identity.cache)
}

/// A name as the kernel side keeps it.
fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::layout::cache_key;

    const LOCK: u64 = 0xffff_8880_0000_1234;

    /// By the running kernel's types; `None` where it does not publish them or builds its locks
    /// otherwise (PREEMPT_RT).
    fn find(class: LockClass, identity: impl Fn(&Btf) -> LockIdentity) -> Option<FoundObject> {
        let btf = Btf::of_running_kernel().ok()?;
        btf.offset("mutex.owner").ok()?;
        let identities = HashMap::from([(LOCK, identity(&btf))]);
        let objects = KernelObjects::new(Some(btf), identities, &[], Vec::new());
        Some(objects.find(class, LOCK).unwrap_or_else(nothing))
    }

    fn nothing() -> FoundObject {
        FoundObject { name: "-".into(), inside: "-".into(), start: 0, place: Place::Node }
    }

    fn in_cache(btf: &Btf, cache: &str, object: &str, field: &str, users: u32) -> LockIdentity {
        let offset = btf.offset(&format!("{object}.{field}")).unwrap();
        LockIdentity {
            slab_object: LOCK - u64::from(offset),
            slab_offset: offset,
            object_size: btf.struct_size(object).unwrap(),
            cache_users: users,
            cache: cache_key(cache),
            ..LockIdentity::UNKNOWN
        }
    }

    #[test]
    fn a_part_of_a_lock_in_a_slab_leads_to_the_lock() {
        let identity = |btf: &Btf| in_cache(btf, "filp", "file", "f_pos_lock.osq", 1);
        let Some(found) = find(LockClass::Osq, identity) else { return };
        assert_eq!((found.name.as_str(), found.inside.as_str()), ("file.f_pos_lock", "filp"));
        let osq = Btf::of_running_kernel().unwrap().offset("mutex.osq").unwrap();
        assert_eq!(found.start, LOCK - u64::from(osq));
    }

    #[test]
    fn an_inode_has_its_filesystem() {
        let identity = |btf: &Btf| LockIdentity {
            filesystem: *b"pipefs\0\0\0\0\0\0\0\0\0\0",
            ..in_cache(btf, "inode_cache", "inode", "i_rwsem", 1)
        };
        let Some(found) = find(LockClass::Rwsem, identity) else { return };
        assert_eq!((found.name.as_str(), found.place), ("inode.i_rwsem (pipefs)", Place::Slab));
    }

    #[test]
    fn a_shared_or_foreign_cache_tells_nothing() {
        let shared = |btf: &Btf| in_cache(btf, "filp", "file", "f_pos_lock", 2);
        let kmalloc = |btf: &Btf| in_cache(btf, "kmalloc-256", "file", "f_pos_lock", 1);
        // Objects smaller than the type: the name means something else here.
        let small = |btf: &Btf| LockIdentity {
            object_size: 8,
            ..in_cache(btf, "filp", "file", "f_pos_lock", 1)
        };
        for identity in [&shared as &dyn Fn(&Btf) -> LockIdentity, &kmalloc, &small] {
            let Some(found) = find(LockClass::Mutex, identity) else { return };
            assert_eq!(found, nothing());
        }
    }

    #[test]
    fn the_waiters_own_object_goes_before_its_slab() {
        let identity = |btf: &Btf| LockIdentity {
            task_object: 1 + TaskObject::Mm as u8,
            task_offset: btf.offset("mm_struct.mmap_lock").unwrap(),
            ..in_cache(btf, "mm_struct", "mm_struct", "mmap_lock", 1)
        };
        let Some(found) = find(LockClass::Rwsem, identity) else { return };
        assert_eq!((found.name.as_str(), found.place), ("mm_struct.mmap_lock", Place::Task));
        assert_eq!(found.start, LOCK);
    }

    #[test]
    fn a_cpus_variable_is_found_by_its_run_queue() {
        let Ok(btf) = Btf::of_running_kernel() else { return };
        let Some(runqueues) = btf.percpu_offset("runqueues") else { return };
        let Ok(lock) = btf.offset("rq.__lock") else { return };
        let base = 0xffff_8880_7b40_0000;
        let run_queues = [0, base + runqueues];
        let objects = KernelObjects::new(Some(btf), HashMap::new(), &run_queues, Vec::new());
        let address = base + runqueues + u64::from(lock);
        let found = objects.find(LockClass::Qspinlock, address).unwrap();
        assert_eq!((found.name.as_str(), found.start), ("runqueues[cpu 1].__lock", address));
        assert_eq!(objects.find(LockClass::Qspinlock, base + (1 << 40)), None);
    }
}
