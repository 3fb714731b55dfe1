//! The lists of functions that JIT compilers write for perf: `/tmp/perf-PID.map`, a line a function with
//! its start, its size (both hexadecimal) and its name.

use std::collections::BTreeMap;
use std::fs;

use crate::kernel::task::own_pid;

/// Functions by start: size and name.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct JitMap(BTreeMap<u64, (u64, String)>);

impl JitMap {
    /// The function around an address.
    pub(super) fn name(&self, address: u64) -> Option<&str> {
        let (start, (size, name)) = self.0.range(..=address).next_back()?;
        (address - start < *size).then_some(name.as_str())
    }

    /// A later line for the same place is the newer code. What is no such line is left out.
    fn parse(text: &str) -> JitMap {
        let line = |line: &str| {
            let mut words = line.splitn(3, ' ');
            let mut number =
                || u64::from_str_radix(words.next()?.trim_start_matches("0x"), 16).ok();
            let (start, size) = (number()?, number()?);
            Some((start, (size, words.next()?.to_owned())))
        };
        JitMap(text.lines().filter_map(line).collect())
    }
}

/// The list of a process; in a container it goes by the pid there.
pub(super) fn read_jit_map(pid: u32) -> Option<JitMap> {
    let in_root = own_pid(pid).map(|own| format!("/proc/{pid}/root/tmp/perf-{own}.map"));
    let paths = in_root.into_iter().chain([format!("/tmp/perf-{pid}.map")]);
    let text = paths.into_iter().find_map(|path| fs::read_to_string(path).ok())?;
    Some(JitMap::parse(&text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_found_by_range() {
        let map = JitMap::parse("7f00 20 evalexpr_0_1\nnonsense\n7f40 10 deform 2\n0x8000 8 x\n");
        assert_eq!(map.name(0x7f00), Some("evalexpr_0_1"));
        assert_eq!(map.name(0x7f1f), Some("evalexpr_0_1"));
        assert_eq!(map.name(0x7f20), None);
        assert_eq!(map.name(0x7f4f), Some("deform 2"));
        assert_eq!(map.name(0x8001), Some("x"));
        assert_eq!(map.name(0x10), None);
    }

    #[test]
    fn a_list_is_read_by_pid() {
        let pid = std::process::id();
        let path = format!("/tmp/perf-{pid}.map");
        fs::write(&path, "1000 10 made_at_run_time\n").unwrap();
        let map = read_jit_map(pid);
        fs::remove_file(&path).unwrap();
        assert_eq!(map.unwrap().name(0x1008), Some("made_at_run_time"));
        assert_eq!(read_jit_map(pid), None);
    }
}
