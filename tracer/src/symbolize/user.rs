//! Names for code that ran outside the kernel, from the files it lay in: their own symbols, those of
//! separate debug files, the lists that JIT compilers write for perf.

use std::collections::HashMap;
use std::os::fd::AsRawFd as _;
use std::path::{Path, PathBuf};

use blazesym::Pid;
use blazesym::symbolize::source::{Elf, Process, Source};
use blazesym::symbolize::{Input, Symbolized, Symbolizer};
use object::{Object as _, ObjectSegment as _, ObjectSymbol as _, ReadCache};

use super::user_debug::debug_file;
use super::user_jit::{JitMap, read_jit_map};
use crate::profile::ObjectFile;

/// Why a place outside the kernel has no name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NoName {
    /// The file has no symbol there, and no debug file was found.
    NoSymbol,
    /// The file could not be opened any more.
    NoFile,
    /// Code made at run time, without a list of it.
    Jit,
    /// The process was gone before it was looked at.
    Gone,
    /// No code is mapped there: the caller kept no frame pointer.
    NotMapped,
}

impl NoName {
    /// The word in the JSON.
    pub fn name(self) -> &'static str {
        match self {
            NoName::NoSymbol => "no_symbol",
            NoName::NoFile => "no_file",
            NoName::Jit => "jit",
            NoName::Gone => "process_gone",
            NoName::NotMapped => "not_mapped",
        }
    }
}

/// Names places in files, processes and this kernel's piece of user memory.
pub struct UserSymbolizer<'a> {
    symbolizer: Symbolizer,
    objects: Vec<UserObject<'a>>,
    jit_maps: HashMap<u32, Option<JitMap>>,
    vdso_start: Option<u64>,
}

/// A file, and where its symbols are.
struct UserObject<'a> {
    name: String,
    /// `None` where it cannot be read.
    symbols: Option<Symbols>,
    /// Open as long as `symbols` leads to it.
    _file: &'a ObjectFile,
}

struct Symbols {
    path: PathBuf,
    /// File offset, size and address of what is loaded.
    segments: Vec<(u64, u64, u64)>,
}

impl<'a> UserSymbolizer<'a> {
    /// For files by number.
    pub fn new(files: &'a [ObjectFile]) -> UserSymbolizer<'a> {
        UserSymbolizer {
            symbolizer: Symbolizer::builder().enable_code_info(false).build(),
            objects: files.iter().map(UserObject::new).collect(),
            jit_maps: HashMap::new(),
            vdso_start: own_vdso(),
        }
    }

    /// A file's name without its directories.
    pub fn object_name(&self, object: u32) -> &str {
        self.objects.get(object as usize).map_or("?", |object| object.name.as_str())
    }

    /// The function at an offset in a file.
    ///
    /// # Errors
    /// Why it has no name.
    pub fn in_file(&self, object: u32, offset: u64) -> Result<String, NoName> {
        let object = self.objects.get(object as usize).ok_or(NoName::NoFile)?;
        let symbols = object.symbols.as_ref().ok_or(NoName::NoFile)?;
        let address = symbols.address(offset).ok_or(NoName::NoSymbol)?;
        let elf = Elf { debug_syms: false, ..Elf::new(&symbols.path) };
        self.name(&Source::Elf(elf), Input::VirtOffset(address)).ok_or(NoName::NoSymbol)
    }

    /// The function at an offset in the vDSO, which is the same in every process.
    ///
    /// # Errors
    /// This process has none.
    pub fn in_vdso(&self, offset: u64) -> Result<String, NoName> {
        let start = self.vdso_start.ok_or(NoName::NoFile)?;
        let own = Process { perf_map: false, debug_syms: false, ..Process::new(Pid::Slf) };
        self.name(&Source::Process(own), Input::AbsAddr(start + offset)).ok_or(NoName::NoSymbol)
    }

    /// Code that a process made at run time.
    ///
    /// # Errors
    /// Its compiler wrote no list for perf, or one without this address.
    pub fn in_jit(&mut self, pid: u32, address: u64) -> Result<String, NoName> {
        let map = self.jit_maps.entry(pid).or_insert_with(|| read_jit_map(pid));
        let name = map.as_ref().and_then(|map| map.name(address));
        name.map(str::to_owned).ok_or(NoName::Jit)
    }

    fn name(&self, source: &Source<'_>, input: Input<u64>) -> Option<String> {
        match self.symbolizer.symbolize_single(source, input) {
            Ok(Symbolized::Sym(symbol)) => Some(symbol.name.into_owned()),
            Ok(Symbolized::Unknown(_)) => None,
            Err(error) => {
                log::debug!("no symbol for {input:?}: {error}");
                None
            }
        }
    }
}

impl<'a> UserObject<'a> {
    fn new(file: &'a ObjectFile) -> UserObject<'a> {
        let name = Path::new(file.path.trim_end_matches(" (deleted)"));
        let name =
            name.file_name().map_or_else(|| file.path.clone(), |n| n.to_string_lossy().into());
        let symbols = file.file.as_ref().and_then(|open| {
            Symbols::find(open, &file.path).map_err(|error| log::debug!("{name}: {error}")).ok()
        });
        UserObject { name, symbols, _file: file }
    }
}

impl Symbols {
    /// In the file itself where it has a symbol table; else in a debug file; else its dynamic ones.
    fn find(file: &std::fs::File, path: &str) -> Result<Symbols, object::Error> {
        let cache = ReadCache::new(file);
        let elf = object::File::parse(&cache)?;
        let loaded = |segment: object::Segment<'_, '_, _>| {
            let (offset, size) = segment.file_range();
            (offset, size, segment.address())
        };
        let segments = elf.segments().map(loaded).collect();
        let own = PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()));
        let is_stripped = !elf.symbols().any(|symbol| symbol.is_definition());
        let debug = is_stripped.then(|| debug_file(&elf, Path::new(path))).flatten();
        Ok(Symbols { path: debug.unwrap_or(own), segments })
    }

    /// Where a file offset is loaded.
    fn address(&self, offset: u64) -> Option<u64> {
        let around = |(start, size, _): &&(u64, u64, u64)| (*start..start + size).contains(&offset);
        let (start, _, address) = self.segments.iter().find(around)?;
        Some(offset - start + address)
    }
}

fn own_vdso() -> Option<u64> {
    let maps = procfs::process::Process::myself().ok()?.maps().ok()?;
    let vdso = maps.iter().find(|map| map.pathname == procfs::process::MMapPath::Vdso)?;
    Some(vdso.address.0)
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;

    /// Of this program, whose file has a symbol table.
    #[inline(never)]
    fn a_function_with_a_name() -> u64 {
        std::hint::black_box(7)
    }

    fn this_program() -> ObjectFile {
        let path = std::env::current_exe().unwrap().to_string_lossy().into_owned();
        ObjectFile { file: Some(File::open(&path).unwrap()), path }
    }

    fn offset_of(address: u64) -> u64 {
        let maps = procfs::process::Process::myself().unwrap().maps().unwrap();
        let map = maps.iter().find(|map| (map.address.0..map.address.1).contains(&address));
        let map = map.unwrap();
        address - map.address.0 + map.offset
    }

    #[test]
    fn a_function_of_a_file_is_named() {
        a_function_with_a_name();
        let files = [this_program()];
        let symbolizer = UserSymbolizer::new(&files);
        let offset = offset_of(a_function_with_a_name as fn() -> u64 as usize as u64);
        let name = symbolizer.in_file(0, offset + 1).unwrap();
        assert!(name.contains("a_function_with_a_name"), "{name}");
        assert!(symbolizer.object_name(0).starts_with("lockscope"));
    }

    #[test]
    fn what_has_no_name_says_why() {
        let missing = ObjectFile { path: "/gone/libx.so".to_owned(), file: None };
        let text =
            ObjectFile { file: Some(File::open("/proc/self/maps").unwrap()), path: "x".into() };
        let files = [missing, text, this_program()];
        let symbolizer = UserSymbolizer::new(&files);
        assert_eq!(symbolizer.in_file(0, 1), Err(NoName::NoFile));
        assert_eq!(symbolizer.object_name(0), "libx.so");
        assert_eq!(symbolizer.in_file(1, 1), Err(NoName::NoFile));
        assert_eq!(symbolizer.in_file(2, 1 << 50), Err(NoName::NoSymbol));
        assert_eq!(symbolizer.in_file(9, 1), Err(NoName::NoFile));
    }

    /// A stripped program: libc has dynamic symbols alone on most systems.
    #[test]
    fn a_function_of_a_shared_library_is_named() {
        let address = libc::getppid as unsafe extern "C" fn() -> i32 as usize as u64;
        let maps = procfs::process::Process::myself().unwrap().maps().unwrap();
        let map = maps.iter().find(|map| (map.address.0..map.address.1).contains(&address));
        let Some(procfs::process::MMapPath::Path(path)) = map.map(|map| map.pathname.clone())
        else {
            panic!("getppid lies in no file");
        };
        let file = File::open(&path).unwrap();
        let path = path.to_string_lossy().into_owned();
        let files = [ObjectFile { path, file: Some(file) }];
        let symbolizer = UserSymbolizer::new(&files);
        let name = symbolizer.in_file(0, offset_of(address)).unwrap();
        assert!(name.contains("getppid"), "{name}");
    }

    #[test]
    fn the_vdso_is_named() {
        let symbolizer = UserSymbolizer::new(&[]);
        // Whatever lies there: its symbols can be read at all.
        let named = (0..0x1000).step_by(16).filter(|offset| symbolizer.in_vdso(*offset).is_ok());
        assert!(own_vdso().is_none() || named.count() > 0);
    }
}
