//! `/proc/kallsyms`: which symbols exist, and the names of global variables.
//!
//! Function addresses are left to the symbolizer; only variables are kept here, because a lock's
//! address is the address of one or lies in one.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, BufRead, BufReader};

/// Where the kernel lists its symbols.
pub const KALLSYMS: &str = "/proc/kallsyms";

/// Kernel addresses have the upper half to themselves; per-CPU variables are listed as offsets.
const KERNEL_HALF: u64 = 1 << 63;
/// No single variable that holds a lock is larger: an address further behind a symbol is foreign.
const LARGEST_VARIABLE: u64 = 1 << 18;
/// A variable that is listed only where all are (`CONFIG_KALLSYMS_ALL`).
pub const TYPICAL_VARIABLE: &str = "runqueues";

/// One line.
struct Line<'a> {
    address: u64,
    kind: u8,
    name: &'a str,
    in_module: bool,
}

impl Line<'_> {
    fn has_data_letter(&self) -> bool {
        matches!(self.kind, b'd' | b'D' | b'b' | b'B' | b'r' | b'R' | b'v' | b'V')
    }
}

/// `ffffffff81000000 T _text`, with the module in brackets behind a tab where there is one.
fn parse(line: &str) -> Option<Line<'_>> {
    let mut parts = line.split_ascii_whitespace();
    let address = u64::from_str_radix(parts.next()?, 16).ok()?;
    let kind = *parts.next()?.as_bytes().first()?;
    Some(Line { address, kind, name: parts.next()?, in_module: parts.next().is_some() })
}

/// What a look through the symbols found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listing {
    /// Lines.
    pub symbol_count: u64,
    /// Whether real addresses are shown, not zeros.
    pub addresses: bool,
    /// The wanted names that are there, each with its first address; 0 where that is withheld.
    pub found: BTreeMap<String, u64>,
}

impl Listing {
    /// The address of a wanted symbol, if it is known.
    pub fn address(&self, name: &str) -> Option<u64> {
        self.found.get(name).copied().filter(|address| *address != 0)
    }
}

/// Looks for symbols by name in the running kernel.
pub fn list(wanted: &[String]) -> io::Result<Listing> {
    list_from(BufReader::with_capacity(1 << 16, File::open(KALLSYMS)?), wanted)
}

/// Looks for symbols by name.
pub fn list_from(kallsyms: impl BufRead, wanted: &[String]) -> io::Result<Listing> {
    let wanted: BTreeSet<&str> = wanted.iter().map(String::as_str).collect();
    let mut listing = Listing::default();
    each_line(kallsyms, |line| {
        listing.symbol_count += 1;
        listing.addresses |= line.address != 0;
        if wanted.contains(line.name) {
            listing.found.entry(line.name.to_owned()).or_insert(line.address);
        }
    })?;
    Ok(listing)
}

/// The names of the running kernel's functions, without the suffixes of the compiler's clones
/// (`.isra.0`, `.constprop.0`, `.part.0`).
pub fn functions() -> io::Result<BTreeSet<String>> {
    let mut found = BTreeSet::new();
    each_line(BufReader::with_capacity(1 << 16, File::open(KALLSYMS)?), |line| {
        if matches!(line.kind, b't' | b'T' | b'w' | b'W') {
            // Padding in front of a function is a symbol of its own.
            let name = line.name.strip_prefix("__pfx_").unwrap_or(line.name);
            let name = name.split_once('.').map_or(name, |(name, _)| name);
            found.insert(name.to_owned());
        }
    })?;
    Ok(found)
}

/// The kernel's global variables by address. Without `CONFIG_KALLSYMS_ALL` only a few are listed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DataSymbols {
    /// By address. Other symbols are kept, nameless, where they end a variable.
    entries: Vec<Entry>,
    /// All names, each ended by a line feed: one allocation, not a hundred thousand.
    names: String,
    /// Whether all variables are listed: only then does the distance to one mean anything.
    complete: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Entry {
    address: u64,
    /// Where a variable's name begins in `names`.
    name: Option<u32>,
}

impl DataSymbols {
    /// Reads the running kernel's.
    pub fn of_running_kernel() -> io::Result<Self> {
        Self::from_listing(BufReader::with_capacity(1 << 16, File::open(KALLSYMS)?))
    }

    /// Reads a listing.
    pub fn from_listing(kallsyms: impl BufRead) -> io::Result<Self> {
        let mut symbols = DataSymbols::default();
        let mut image_data = ImageData::default();
        each_line(kallsyms, |line| {
            symbols.complete |= line.name == TYPICAL_VARIABLE;
            if line.address < KERNEL_HALF {
                return;
            }
            let is_variable = image_data.holds(line);
            // Names beyond 4 GiB do not occur; such a symbol would only lose its name.
            let start = u32::try_from(symbols.names.len()).ok();
            let name = start.filter(|_| is_variable);
            if name.is_some() {
                symbols.names.push_str(line.name);
                symbols.names.push('\n');
            }
            symbols.entries.push(Entry { address: line.address, name });
        })?;
        symbols.entries.sort_unstable();
        symbols.entries.dedup_by(|next, kept| next.name.is_none() && kept.name.is_none());
        symbols.entries.shrink_to_fit();
        Ok(symbols)
    }

    /// Whether all variables are listed.
    pub fn is_complete(&self) -> bool {
        self.complete
    }

    /// The variable that an address is or lies in, and the distance to its start.
    pub fn containing(&self, address: u64) -> Option<(&str, u64)> {
        let after = self.entries.partition_point(|entry| entry.address <= address);
        let before = &self.entries[..after];
        let start = before.last()?.address;
        let mut same_start = before.iter().rev().take_while(|entry| entry.address == start);
        let name = same_start.find_map(|entry| entry.name)?;
        // Past the last symbol there is no telling where its variable ends.
        let inside =
            self.complete && after < self.entries.len() && address - start < LARGEST_VARIABLE;
        let name = self.names.get(name as usize..)?.split('\n').next()?;
        (inside || address == start).then_some((name, address - start))
    }
}

/// The part of the kernel's image behind its code. Kernels from 7.x on list variables with the
/// letters of functions, so what a symbol is follows from where it lies; the image is listed in
/// ascending order, before the modules.
#[derive(Default)]
struct ImageData {
    entered: bool,
}

impl ImageData {
    fn holds(&mut self, line: &Line<'_>) -> bool {
        match line.name {
            "_etext" => self.entered = true,
            "_sinittext" | "_end" => self.entered = false,
            "_einittext" => self.entered = true,
            _ => {}
        }
        line.has_data_letter() || (self.entered && !line.in_module)
    }
}

fn each_line(mut kallsyms: impl BufRead, mut visit: impl FnMut(&Line<'_>)) -> io::Result<()> {
    let mut text = String::new();
    while kallsyms.read_line(&mut text)? > 0 {
        if let Some(line) = parse(&text) {
            visit(&line);
        }
        text.clear();
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SAMPLE: &str = "\
0000000000001000 A runqueues
ffffffff81000000 T _text
ffffffff81000010 t osq_lock
ffffffff82000000 D tasklist_lock
ffffffff82000040 d futex_queues
ffffffff82000080 b cgroup_mutex\t[some_module]
ffffffff82000090 T some_function
";

    /// As Linux 7.2 lists them.
    const MISLABELLED: &str = "\
ffffffff81000000 T _text
ffffffff81000010 t osq_lock
ffffffff81ffffff T _etext
ffffffff82000000 T mmlist_lock
ffffffff82000040 T tasklist_lock
ffffffff82000080 t pidmap_lock
ffffffff83000000 D runqueues
ffffffff84000000 T _sinittext
ffffffff84000010 t start_kernel
ffffffff84100000 T _einittext
ffffffff84200000 B _end
ffffffffc0000000 t module_function\t[some_module]
";

    #[test]
    fn lists_what_is_wanted() {
        let wanted = ["osq_lock".to_owned(), "absent".to_owned(), "runqueues".to_owned()];
        let listing = list_from(SAMPLE.as_bytes(), &wanted).unwrap();
        assert!(listing.addresses);
        assert_eq!(listing.symbol_count, 7);
        assert_eq!(Vec::from_iter(listing.found.keys()), ["osq_lock", "runqueues"]);
    }

    #[test]
    fn withheld_addresses_are_noticed() {
        let hidden = "0000000000000000 T _text\n0000000000000000 t osq_lock\n";
        assert!(!list_from(hidden.as_bytes(), &[]).unwrap().addresses);
        let hidden = list_from(hidden.as_bytes(), &["osq_lock".to_owned()]).unwrap();
        assert_eq!(hidden.address("osq_lock"), None);
    }

    #[test]
    fn finds_the_variable_around_an_address() {
        let data = DataSymbols::from_listing(SAMPLE.as_bytes()).unwrap();
        assert_eq!(data.containing(0xffff_ffff_8200_0000), Some(("tasklist_lock", 0)));
        assert_eq!(data.containing(0xffff_ffff_8200_0048), Some(("futex_queues", 8)));
        assert_eq!(data.containing(0xffff_ffff_8200_0080), Some(("cgroup_mutex", 0)));
        // Behind the last variable, before the first, on the heap, a per-CPU offset.
        for foreign in [0xffff_ffff_8200_0091, 0xffff_ffff_81ff_ffff, 0xffff_8880_1234_5678, 0x1000]
        {
            assert_eq!(data.containing(foreign), None);
        }
    }

    #[test]
    fn a_variable_is_one_by_its_place_not_by_its_letter() {
        let data = DataSymbols::from_listing(MISLABELLED.as_bytes()).unwrap();
        assert_eq!(data.containing(0xffff_ffff_8200_0040), Some(("tasklist_lock", 0)));
        assert_eq!(data.containing(0xffff_ffff_8200_0048), Some(("tasklist_lock", 8)));
        for function in [0xffff_ffff_8100_0010, 0xffff_ffff_8400_0010, 0xffff_ffff_c000_0000] {
            assert_eq!(data.containing(function), None, "{function:#x}");
        }
    }

    #[test]
    fn an_incomplete_listing_names_only_what_is_exactly_there() {
        let few = SAMPLE.replace("runqueues", "something");
        let data = DataSymbols::from_listing(few.as_bytes()).unwrap();
        assert!(!data.is_complete());
        assert_eq!(data.containing(0xffff_ffff_8200_0040), Some(("futex_queues", 0)));
        assert_eq!(data.containing(0xffff_ffff_8200_0048), None);
    }

    #[test]
    fn finds_addresses_by_name() {
        let wanted = ["runqueues", "osq_lock"].map(str::to_owned);
        let found = list_from(SAMPLE.as_bytes(), &wanted).unwrap();
        assert_eq!(found.address("runqueues"), Some(0x1000));
        assert_eq!(found.address("osq_lock"), Some(0xffff_ffff_8100_0010));
    }

    proptest! {
        #[test]
        fn any_text_is_read_without_harm(text in "\\PC{0,200}", address: u64) {
            let data = DataSymbols::from_listing(text.as_bytes()).unwrap();
            prop_assert!(data.containing(address).is_none_or(|(_, offset)| offset <= address));
        }
    }
}
