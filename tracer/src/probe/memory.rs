//! Finds where the kernel keeps its pages, so that a lock's address leads to its slab cache.
//!
//! Two numbers are needed: a page's address in the direct map, and the address of its `struct page`.
//! kallsyms leads to both where it lists variables. Elsewhere they follow from what is known of them:
//! both begin at a multiple of 1 GiB, and the right pair is the one by which the current task's own
//! address leads to the slab cache `task_struct`. Symbols are checked the same way.

use std::io;
use std::os::fd::AsFd as _;

use aya::Ebpf;
use aya::programs::RawTracePoint;
use lockscope_ebpf::{KernelLayout, LockIdentity};

use super::error::TraceError;
use super::tracer::map_fd;
use crate::collect::bpf;
use crate::kernel::layout::cache_key;

const GIB: u64 = 1 << 30;
/// A `struct page` for 4 KiB: the pages of this much memory have theirs in one GiB.
const PAGES_PER_BYTE: u64 = 4096;
/// Beyond this much memory nothing is searched; such machines' kernels list their variables.
const LARGEST_SEARCH_GIB: u64 = 1024;

/// What the kernel side needs to identify locks.
#[derive(Clone, Debug, Default)]
pub struct IdentityNeeds {
    /// Without the places of memory.
    pub layout: KernelLayout,
    /// By cache name, the offset of the inode in its objects.
    pub inode_caches: Vec<([u8; lockscope_ebpf::CACHE_NAME_BYTES], u32)>,
    /// Addresses of the variables `page_offset_base` and `vmemmap_base`, where kallsyms lists them.
    pub base_symbols: Option<(u64, u64)>,
    /// Address of the variable `node_data`, likewise.
    pub node_data: Option<u64>,
    /// `task_struct.stack_vm_area` and `vm_struct.pages`, the way to the pages of a task's stack.
    pub stack_pages: Option<(u32, u32)>,
    /// Memory of the machine in bytes.
    pub memory_bytes: u64,
}

/// What was found about this boot's memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// Why slab caches cannot be found; absent where they can.
    pub no_slabs: Option<String>,
    /// Address of each NUMA node's `pglist_data`, where it is known.
    pub nodes: Vec<u64>,
}

/// Writes the layout, with this boot's places of memory if they can be found.
pub(super) fn learn(ebpf: &mut Ebpf, needs: &IdentityNeeds) -> Result<Memory, TraceError> {
    let mut learner = Learner { ebpf };
    learner.load()?;
    for (cache, offset) in &needs.inode_caches {
        let map = learner.map("INODE_CACHES")?;
        bpf::update(map, cache, offset).map_err(failed("INODE_CACHES", "written"))?;
    }
    let mut layout = needs.layout;
    let no_slabs = learner.find_memory(needs, &mut layout)?;
    learner.write(&layout)?;
    let nodes = learner.nodes(needs)?;
    Ok(Memory { no_slabs, nodes })
}

struct Learner<'a> {
    ebpf: &'a mut Ebpf,
}

fn failed(map: &'static str, action: &'static str) -> impl Fn(io::Error) -> TraceError {
    move |source| TraceError::Map { map, action, source }
}

impl Learner<'_> {
    fn load(&mut self) -> Result<(), TraceError> {
        for name in ["learn_word", "learn_memory"] {
            let program: &mut RawTracePoint = self
                .ebpf
                .program_mut(name)
                .and_then(|program| program.try_into().ok())
                .ok_or(TraceError::MissingProgram(name))?;
            program.load().map_err(|error| failed(name, "loaded")(io::Error::other(error)))?;
        }
        Ok(())
    }

    fn run(&self, name: &'static str) -> Result<(), TraceError> {
        let program = self.ebpf.program(name).ok_or(TraceError::MissingProgram(name))?;
        let fd = program.fd().map_err(|error| failed(name, "run")(io::Error::other(error)))?;
        bpf::run_here(fd.as_fd()).map_err(failed(name, "run"))
    }

    fn map(&self, name: &'static str) -> Result<std::os::fd::BorrowedFd<'_>, TraceError> {
        self.ebpf.map(name).and_then(map_fd).ok_or(TraceError::MissingMap(name))
    }

    /// The word at an address (0: the current task's address); 0 where it cannot be read.
    fn word(&self, address: u64) -> Result<u64, TraceError> {
        bpf::update(self.map("WORD")?, &0_u32, &address).map_err(failed("WORD", "written"))?;
        self.run("learn_word")?;
        let word = bpf::lookup::<u32, u64>(self.map("WORD")?, &0);
        Ok(word.map_err(failed("WORD", "read"))?.unwrap_or(0))
    }

    /// Follows pointers: the word at each offset behind the one before.
    fn follow(&self, mut address: u64, offsets: &[u32]) -> Result<u64, TraceError> {
        for offset in offsets {
            if address == 0 {
                break;
            }
            address = self.word(address.wrapping_add(u64::from(*offset)))?;
        }
        Ok(address)
    }

    fn write(&self, layout: &KernelLayout) -> Result<(), TraceError> {
        bpf::update(self.map("LAYOUT")?, &0_u32, layout).map_err(failed("LAYOUT", "written"))
    }

    /// Fills in the places of memory, or says why not.
    fn find_memory(
        &self,
        needs: &IdentityNeeds,
        layout: &mut KernelLayout,
    ) -> Result<Option<String>, TraceError> {
        if layout.page_bytes == 0 {
            return Ok(Some("this kernel's BTF does not describe its slabs".to_owned()));
        }
        if let Some((direct_map, vmemmap)) = needs.base_symbols {
            (layout.direct_map, layout.page_of_direct_map) =
                (self.word(direct_map)?, self.word(vmemmap)?);
            if self.finds_task(layout)? {
                return Ok(None);
            }
        }
        let found = self.search(needs, layout)?;
        if !found {
            (layout.direct_map, layout.page_of_direct_map) = (0, 0);
        }
        Ok((!found).then(|| match needs.base_symbols {
            Some(_) => "what kallsyms says of the kernel's memory does not lead to it".to_owned(),
            None => "kallsyms does not list page_offset_base and vmemmap_base, and a search did \
                     not find them"
                .to_owned(),
        }))
    }

    fn search(&self, needs: &IdentityNeeds, layout: &mut KernelLayout) -> Result<bool, TraceError> {
        let Some((area, pages)) = needs.stack_pages else { return Ok(false) };
        let task = self.word(0)?;
        let page = self.follow(task, &[area, pages, 0])?;
        // Memory has holes: it may reach twice as far as there is of it.
        let reach = (needs.memory_bytes / GIB + 2) * 2;
        if task == 0 || page == 0 || reach > LARGEST_SEARCH_GIB {
            return Ok(false);
        }
        let page_reach = reach * u64::from(layout.page_bytes) / PAGES_PER_BYTE + 1;
        let starts = |address: u64, reach: u64| {
            (0..=reach).map(move |back| (address & !(GIB - 1)).wrapping_sub(back * GIB))
        };
        for page_of_direct_map in starts(page, page_reach) {
            for direct_map in starts(task, reach) {
                *layout = KernelLayout { direct_map, page_of_direct_map, ..*layout };
                if self.finds_task(layout)? {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    /// Whether the current task's address leads to the right cache, and to the start of an object.
    fn finds_task(&self, layout: &KernelLayout) -> Result<bool, TraceError> {
        self.write(layout)?;
        self.run("learn_memory")?;
        let map = self.map("IDENTITIES")?;
        let found = bpf::lookup::<u64, LockIdentity>(map, &0).map_err(failed("IDENTITIES", "read"));
        bpf::delete(map, &0_u64).map_err(failed("IDENTITIES", "cleared"))?;
        Ok(found?.is_some_and(|found| {
            found.slab_object != 0
                && found.slab_offset == 0
                && found.cache == cache_key("task_struct")
        }))
    }

    fn nodes(&self, needs: &IdentityNeeds) -> Result<Vec<u64>, TraceError> {
        let Some(node_data) = needs.node_data else { return Ok(Vec::new()) };
        let online = std::fs::read_to_string("/sys/devices/system/node/online").unwrap_or_default();
        let last = crate::collect::last_cpu(&online).unwrap_or(0);
        let nodes = (0..=last as u64).map(|node| self.word(node_data + 8 * node));
        Ok(nodes.collect::<Result<Vec<_>, _>>()?.into_iter().filter(|node| *node != 0).collect())
    }
}
