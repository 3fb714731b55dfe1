//! What lies where in the memory of processes: read when one is first met, kept up to date by the
//! kernel's records, and kept when it is gone. A child begins with its parent's.

use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

use procfs::process::{MMPermissions, MMapPath, Process};

/// A mapped piece of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Mapping {
    pub(super) start: u64,
    pub(super) end: u64,
    /// Where in the file it starts.
    pub(super) offset: u64,
    /// 0 where there is no file.
    pub(super) inode: u64,
    /// The file's path as the process sees it, or a name in brackets.
    pub(super) path: String,
}

impl Mapping {
    /// Where in the file (or in the nameless piece) an address is.
    pub(super) fn offset_of(&self, address: u64) -> u64 {
        address - self.start + self.offset
    }
}

type Space = BTreeMap<u64, Mapping>;

/// The address spaces by process; `None` of one that was gone when it was first met.
pub(super) struct Spaces {
    spaces: HashMap<u32, Option<Rc<Space>>>,
    read: fn(u32) -> Option<Vec<Mapping>>,
}

impl Default for Spaces {
    fn default() -> Self {
        Spaces::reading(read_maps)
    }
}

impl Spaces {
    fn reading(read: fn(u32) -> Option<Vec<Mapping>>) -> Self {
        Spaces { spaces: HashMap::new(), read }
    }

    /// What an address of a process lies in.
    ///
    /// # Errors
    /// Nothing is known of the process (`Gone`), or nothing is mapped there.
    pub(super) fn find(&mut self, pid: u32, address: u64) -> Result<&Mapping, Missing> {
        let space = self.space(pid).as_deref().ok_or(Missing::Gone)?;
        let below = space.range(..=address).next_back().map(|(_, mapping)| mapping);
        below.filter(|mapping| address < mapping.end).ok_or(Missing::NotMapped)
    }

    /// A process has a child: it has its parent's memory until it maps other files.
    pub(super) fn fork(&mut self, pid: u32, parent: u32) {
        if pid != parent {
            let space = self.space(parent).clone();
            self.spaces.insert(pid, space);
        }
    }

    /// A new program: what it maps is told from now on.
    pub(super) fn exec(&mut self, pid: u32) {
        self.spaces.insert(pid, Some(Rc::default()));
    }

    /// A file was mapped.
    pub(super) fn map(&mut self, pid: u32, mapping: Mapping) {
        if let Some(space) = self.space(pid) {
            insert(Rc::make_mut(space), mapping);
        }
    }

    fn space(&mut self, pid: u32) -> &mut Option<Rc<Space>> {
        self.spaces.entry(pid).or_insert_with(|| {
            let mut space = Space::new();
            for mapping in (self.read)(pid)? {
                insert(&mut space, mapping);
            }
            Some(Rc::new(space))
        })
    }
}

/// Why an address leads nowhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Missing {
    /// The process was gone before it was looked at.
    Gone,
    /// No file is mapped there: the frame pointers led astray.
    NotMapped,
}

/// A new mapping takes the place of what lay there.
fn insert(space: &mut Space, new: Mapping) {
    let overlapping: Vec<u64> = space
        .range(..new.end)
        .filter(|(_, old)| old.end > new.start)
        .map(|(start, _)| *start)
        .collect();
    for start in overlapping {
        let Some(old) = space.remove(&start) else { continue };
        if old.end > new.end {
            let offset = old.offset + (new.end - old.start);
            space.insert(new.end, Mapping { start: new.end, offset, ..old.clone() });
        }
        if old.start < new.start {
            space.insert(old.start, Mapping { end: new.start, ..old });
        }
    }
    space.insert(new.start, new);
}

/// What a living process may execute.
fn read_maps(pid: u32) -> Option<Vec<Mapping>> {
    let maps = Process::new(i32::try_from(pid).ok()?).ok()?.maps().ok()?;
    let executable = maps.into_iter().filter(|map| map.perms.contains(MMPermissions::EXECUTE));
    let mapping = |map: procfs::process::MemoryMap| Mapping {
        start: map.address.0,
        end: map.address.1,
        offset: map.offset,
        inode: map.inode,
        path: match map.pathname {
            MMapPath::Path(path) => path.to_string_lossy().into_owned(),
            MMapPath::Vdso => "[vdso]".to_owned(),
            MMapPath::Vsyscall => "[vsyscall]".to_owned(),
            _ => "//anon".to_owned(),
        },
    };
    Some(executable.map(mapping).collect())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn mapping(start: u64, end: u64, path: &str) -> Mapping {
        Mapping { start, end, offset: 0x1000, inode: 7, path: path.to_owned() }
    }

    fn postmaster(pid: u32) -> Option<Vec<Mapping>> {
        (pid == 10).then(|| vec![mapping(0x4000, 0x8000, "/bin/postgres")])
    }

    /// A backend that came and went between two readings.
    #[test]
    fn a_child_that_is_gone_has_its_parents_memory() {
        let mut spaces = Spaces::reading(postmaster);
        spaces.fork(11, 10);
        spaces.map(11, mapping(0x9000, 0xa000, "/lib/plpgsql.so"));
        assert_eq!(spaces.find(11, 0x4010).unwrap().path, "/bin/postgres");
        assert_eq!(spaces.find(11, 0x4010).unwrap().offset_of(0x4010), 0x1010);
        assert_eq!(spaces.find(11, 0x9fff).unwrap().path, "/lib/plpgsql.so");
        assert_eq!(spaces.find(10, 0x9fff), Err(Missing::NotMapped), "the parent has no part");
        assert_eq!(spaces.find(12, 0x4010), Err(Missing::Gone));
    }

    #[test]
    fn an_exec_begins_anew() {
        let mut spaces = Spaces::reading(postmaster);
        spaces.fork(11, 10);
        spaces.exec(11);
        assert_eq!(spaces.find(11, 0x4010), Err(Missing::NotMapped));
        spaces.map(11, mapping(0x4000, 0x5000, "/bin/true"));
        assert_eq!(spaces.find(11, 0x4010).unwrap().path, "/bin/true");
    }

    #[test]
    fn this_process_is_found() {
        let address = this_process_is_found as fn() as usize as u64;
        let mut spaces = Spaces::default();
        let found = spaces.find(std::process::id(), address).unwrap();
        assert!(found.path.contains("lockscope") && found.inode != 0, "{found:?}");
    }

    proptest! {
        /// Byte by byte, the newest mapping wins, and its file offset is kept.
        #[test]
        fn the_newest_mapping_wins(pieces in prop::collection::vec((0_u64..60, 1_u64..30), 1..12)) {
            let mut space = Space::new();
            let mut expected: HashMap<u64, (String, u64)> = HashMap::new();
            for (index, (start, length)) in pieces.iter().enumerate() {
                let (end, path) = (start + length, index.to_string());
                let new = Mapping { start: *start, end, offset: 100, inode: 1, path: path.clone() };
                for address in *start..end {
                    expected.insert(address, (path.clone(), new.offset_of(address)));
                }
                insert(&mut space, new);
            }
            let shared = Some(Rc::new(space));
            let mut spaces = Spaces { spaces: HashMap::from([(1, shared)]), read: |_| None };
            for address in 0..100 {
                let found = spaces.find(1, address).ok();
                let found = found.map(|m| (m.path.clone(), m.offset_of(address)));
                prop_assert_eq!(found, expected.get(&address).cloned());
            }
        }
    }
}
