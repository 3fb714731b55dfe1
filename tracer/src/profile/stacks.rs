//! The samples, summed by task and stack as they come.

use std::collections::HashMap;

use super::event::{Event, EventKind};
use super::objects::{ObjectFile, Objects};
use super::spaces::{Mapping, Missing, Spaces};

/// Addresses above this are marks in a stack (`PERF_CONTEXT_MAX`), not places.
const FIRST_MARK: u64 = -4095_i64 as u64;
const MARK_KERNEL: u64 = -128_i64 as u64;
const MARK_USER: u64 = -512_i64 as u64;

/// Where a frame is, in words that outlive its process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Place {
    /// An address of the kernel.
    Kernel(u64),
    /// An offset in a file with code.
    File {
        /// Its number.
        object: u32,
        /// In bytes from its start.
        offset: u64,
    },
    /// An offset in the kernel's own piece of user memory.
    Vdso(u64),
    /// An address in memory without a file: code that was made at run time.
    Nameless {
        /// The process.
        pid: u32,
        /// Its address.
        address: u64,
    },
    /// The process was gone before it was looked at.
    Gone,
    /// Nothing is mapped there.
    NotMapped,
}

/// The samples of one stack of one task.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StackSamples {
    /// Process id.
    pub pid: u32,
    /// Thread id.
    pub tid: u32,
    /// The task's name at that time.
    pub command: String,
    /// Places by number, innermost first.
    pub stack: Vec<u32>,
    /// Samples.
    pub count: u64,
    /// What they stand for: cycles or nanoseconds.
    pub weight: u64,
}

/// Samples by task and stack.
#[derive(Default)]
pub(super) struct Stacks {
    spaces: Spaces,
    objects: Objects,
    commands: HashMap<u32, u32>,
    names: Interned<String>,
    places: Interned<Place>,
    stacks: Interned<Vec<u32>>,
    /// By pid, tid, name and stack: count and weight.
    sums: HashMap<(u32, u32, u32, u32), (u64, u64)>,
    pub(super) lost_count: u64,
    pub(super) throttled_count: u64,
}

impl Stacks {
    pub(super) fn add(&mut self, event: Event) {
        match event.kind {
            EventKind::Sample { pid, tid, weight, chain, .. } => {
                self.sample(pid, tid, weight, &chain);
            }
            EventKind::Fork { pid, parent_pid, tid, parent_tid } => {
                self.spaces.fork(pid, parent_pid);
                let name = self.command(parent_pid, parent_tid);
                self.commands.insert(tid, name);
            }
            EventKind::Comm { pid, tid, name, exec } => {
                let name = self.names.number(name);
                self.commands.insert(tid, name);
                if exec {
                    self.spaces.exec(pid);
                }
            }
            EventKind::Map { pid, start, length, offset, inode, path } => {
                let end = start.saturating_add(length);
                self.spaces.map(pid, Mapping { start, end, offset, inode, path });
            }
            EventKind::Lost(count) => self.lost_count += count,
            EventKind::Throttled => self.throttled_count += 1,
            EventKind::Switch { .. } | EventKind::Other => {}
        }
    }

    fn sample(&mut self, pid: u32, tid: u32, weight: u64, chain: &[u64]) {
        // The idle task.
        if tid == 0 {
            return;
        }
        let stack = self.stack(pid, chain);
        let key = (pid, tid, self.command(pid, tid), self.stacks.number(stack));
        let sum = self.sums.entry(key).or_default();
        sum.0 += 1;
        sum.1 += weight;
    }

    /// A stack as numbers of places.
    pub(super) fn stack(&mut self, pid: u32, chain: &[u64]) -> Vec<u32> {
        let number = |(is_kernel, address)| {
            let place = if is_kernel { Place::Kernel(address) } else { self.place(pid, address) };
            self.places.number(place)
        };
        addresses(chain).map(number).collect()
    }

    /// A task that may be gone when its name is asked for.
    pub(super) fn meet(&mut self, pid: u32, tid: u32) {
        self.command(pid, tid);
    }

    /// The name of a task that was met.
    pub(super) fn name(&self, tid: u32) -> String {
        let number = self.commands.get(&tid);
        number.map_or_else(|| "?".to_owned(), |number| self.names.list[*number as usize].clone())
    }

    fn place(&mut self, pid: u32, address: u64) -> Place {
        match self.spaces.find(pid, address) {
            Ok(mapping) if mapping.path == "[vdso]" => Place::Vdso(mapping.offset_of(address)),
            Ok(mapping) if mapping.inode == 0 || mapping.path.starts_with("//anon") => {
                Place::Nameless { pid, address }
            }
            Ok(mapping) => Place::File {
                object: self.objects.number(pid, mapping),
                offset: mapping.offset_of(address),
            },
            Err(Missing::Gone) => Place::Gone,
            Err(Missing::NotMapped) => Place::NotMapped,
        }
    }

    fn command(&mut self, pid: u32, tid: u32) -> u32 {
        *self.commands.entry(tid).or_insert_with(|| {
            if tid == 0 {
                return self.names.number("[idle]".to_owned());
            }
            let name = std::fs::read_to_string(format!("/proc/{pid}/task/{tid}/comm"));
            let name = name.map_or_else(|_| "?".to_owned(), |name| name.trim_end().to_owned());
            self.names.number(name)
        })
    }

    /// The places, the files, and the samples.
    pub(super) fn into_parts(self) -> (Vec<Place>, Vec<ObjectFile>, Vec<StackSamples>) {
        let (names, stacks) = (&self.names.list, &self.stacks.list);
        let samples = self.sums.into_iter().map(|((pid, tid, name, stack), (count, weight))| {
            let command = names[name as usize].clone();
            let stack = stacks[stack as usize].clone();
            StackSamples { pid, tid, command, stack, count, weight }
        });
        let samples = samples.collect();
        (self.places.list, self.objects.into_files(), samples)
    }
}

/// The addresses of a stack, and whether each is the kernel's. All but the first of either are
/// return addresses: the call before them is meant.
fn addresses(chain: &[u64]) -> impl Iterator<Item = (bool, u64)> {
    let (mut is_kernel, mut is_first) = (false, true);
    chain.iter().filter_map(move |address| {
        if *address >= FIRST_MARK {
            is_kernel = match *address {
                MARK_KERNEL => true,
                MARK_USER => false,
                _ => is_kernel,
            };
            is_first = true;
            return None;
        }
        let back = u64::from(!std::mem::take(&mut is_first));
        Some((is_kernel, address.saturating_sub(back)))
    })
}

/// Values by number.
struct Interned<T> {
    list: Vec<T>,
    numbers: HashMap<T, u32>,
}

impl<T> Default for Interned<T> {
    fn default() -> Self {
        Interned { list: Vec::new(), numbers: HashMap::new() }
    }
}

impl<T: Clone + Eq + std::hash::Hash> Interned<T> {
    fn number(&mut self, value: T) -> u32 {
        let (list, next) = (&mut self.list, self.numbers.len() as u32);
        *self.numbers.entry(value).or_insert_with_key(|value| {
            list.push(value.clone());
            next
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(tid: u32, chain: &[u64]) -> Event {
        let (chain, raw) = (chain.to_vec(), Vec::new());
        let kind = EventKind::Sample { pid: tid, tid, weight: 5, chain, raw };
        Event { time_ns: 0, kind }
    }

    const GONE: u32 = 1 << 30;

    #[test]
    fn marks_tell_kernel_from_user_and_returns_are_moved_into_the_call() {
        let chain = [MARK_KERNEL, 0xffff_0010, 0xffff_0020, MARK_USER, 0x4000, 0x5000, 0x6000];
        let found: Vec<_> = addresses(&chain).collect();
        let expected = [
            (true, 0xffff_0010),
            (true, 0xffff_001f),
            (false, 0x4000),
            (false, 0x4fff),
            (false, 0x5fff),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn equal_stacks_are_summed_and_the_idle_task_is_nobody() {
        let mut stacks = Stacks::default();
        let name = |tid| EventKind::Comm { pid: tid, tid, name: "postgres".into(), exec: true };
        stacks.add(Event { time_ns: 0, kind: name(GONE) });
        for event in [
            sample(GONE, &[MARK_KERNEL, 0xffff_0010]),
            sample(GONE, &[MARK_KERNEL, 0xffff_0010]),
            sample(GONE, &[MARK_USER, 0x10]),
            sample(0, &[MARK_KERNEL, 0xffff_0010]),
            Event { time_ns: 0, kind: EventKind::Lost(3) },
        ] {
            stacks.add(event);
        }
        assert_eq!(stacks.lost_count, 3);
        let (places, _, mut samples) = stacks.into_parts();
        samples.sort_by_key(|samples| samples.count);
        assert_eq!(places, [Place::Kernel(0xffff_0010), Place::NotMapped]);
        assert_eq!(samples.len(), 2);
        assert_eq!((samples[1].count, samples[1].weight), (2, 10));
        assert_eq!(samples[1].command, "postgres");
    }

    #[test]
    fn a_child_has_its_parents_name_until_it_takes_another() {
        let mut stacks = Stacks::default();
        let comm = |tid, name: &str| Event {
            time_ns: 0,
            kind: EventKind::Comm { pid: tid, tid, name: name.into(), exec: false },
        };
        let (parent, child) = (GONE, GONE + 1);
        stacks.add(comm(parent, "postmaster"));
        let fork =
            EventKind::Fork { pid: child, parent_pid: parent, tid: child, parent_tid: parent };
        stacks.add(Event { time_ns: 0, kind: fork });
        stacks.add(sample(child, &[MARK_USER, 0x10]));
        stacks.add(comm(child, "postgres"));
        stacks.add(sample(child, &[MARK_USER, 0x10]));
        let (places, _, samples) = stacks.into_parts();
        let mut names: Vec<String> = samples.into_iter().map(|s| s.command).collect();
        names.sort();
        assert_eq!(names, ["postgres", "postmaster"]);
        assert_eq!(places, [Place::Gone]);
    }
}
