//! Addresses of this boot's kernel and its modules, by `/proc/kallsyms`.

use std::collections::HashMap;
use std::fmt;
use std::path::PathBuf;

use blazesym::MaybeDefault;
use blazesym::symbolize::source::{Kernel, Source};
use blazesym::symbolize::{Input, Symbolized, Symbolizer};

use super::caller::{is_lock_internal, is_tracing};

/// No kernel function is as large as this.
const LARGEST_FUNCTION: usize = 64 << 10;
/// The tracing's frames are among this many.
const TRACING_FRAMES: usize = 8;

/// A place in a function.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Symbol {
    /// The function.
    pub name: String,
    /// Bytes from its start.
    pub offset: u64,
}

impl fmt::Display for Symbol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}+{:#x}", self.name, self.offset)
    }
}

/// Functions by address, looked up while they were there.
pub type KernelNames = HashMap<u64, Symbol>;

/// Names kernel addresses, each looked up once. The symbols are read at the first use.
#[derive(Debug)]
pub struct KernelSymbolizer {
    symbolizer: Symbolizer,
    source: Source<'static>,
    known: HashMap<u64, Option<Symbol>>,
}

impl Default for KernelSymbolizer {
    fn default() -> Self {
        Self::new()
    }
}

impl KernelSymbolizer {
    /// For the running kernel.
    pub fn new() -> Self {
        Self::with(MaybeDefault::Default)
    }

    /// For a kernel whose kallsyms were saved in a file.
    pub fn from_kallsyms(path: PathBuf) -> Self {
        Self::with(MaybeDefault::Some(path))
    }

    fn with(kallsyms: MaybeDefault<PathBuf>) -> Self {
        let kernel = Kernel {
            kallsyms,
            // A debug image would be searched for in many places and adds only line numbers.
            vmlinux: MaybeDefault::None,
            debug_syms: false,
            ..Kernel::default()
        };
        KernelSymbolizer {
            symbolizer: Symbolizer::builder().enable_code_info(false).build(),
            source: Source::Kernel(kernel),
            known: HashMap::new(),
        }
    }

    /// The function around an address; absent when kallsyms does not tell.
    pub fn resolve(&mut self, address: u64) -> Option<&Symbol> {
        let (symbolizer, source) = (&self.symbolizer, &self.source);
        self.known.entry(address).or_insert_with(|| look_up(symbolizer, source, address)).as_ref()
    }

    /// A stack of return addresses, innermost first, as `function+0xoffset`, or the bare address
    /// where the function is unknown.
    pub fn stack(&mut self, addresses: &[u64]) -> Vec<String> {
        let symbols = self.symbols(addresses);
        let named = symbols.iter().zip(addresses).map(|(symbol, address)| match symbol {
            Some(symbol) => symbol.to_string(),
            None => format!("{address:#x}"),
        });
        named.collect()
    }

    /// The part of a sampled stack that begins in the lock's code: without the frames of the
    /// program that took it, which come first and have no symbol, or a wrong one.
    pub fn without_tracing<'a>(&mut self, addresses: &'a [u64]) -> &'a [u64] {
        let symbols = self.symbols(&addresses[..addresses.len().min(TRACING_FRAMES)]);
        let is = |symbol: &Option<Symbol>, test: fn(&str) -> bool| {
            symbol.as_ref().is_some_and(|symbol| test(&symbol.name))
        };
        // The sample is taken inside the lock's slow path. Where that function is not known as
        // such, what follows the last frame of the tracing must do.
        let lock = symbols
            .iter()
            .position(|symbol| is(symbol, is_lock_internal) && !is(symbol, is_tracing));
        let first = lock.unwrap_or_else(|| {
            let tracing = |symbol: &Option<Symbol>| symbol.is_none() || is(symbol, is_tracing);
            symbols.iter().rposition(tracing).map_or(0, |last| last + 1)
        });
        &addresses[first..]
    }

    /// The first function of a stack that is not the lock's own code: who wanted the lock.
    pub fn caller(&mut self, addresses: &[u64]) -> Option<String> {
        let symbols = self.symbols(addresses);
        let outside = symbols.into_iter().flatten().find(|symbol| !is_lock_internal(&symbol.name));
        outside.map(|symbol| symbol.name)
    }

    /// A return address is the instruction after the call, which in a function that ends with a
    /// call belongs to the next one: all but the innermost are looked up one byte earlier.
    fn symbols(&mut self, addresses: &[u64]) -> Vec<Option<Symbol>> {
        let mut symbols = Vec::with_capacity(addresses.len());
        for (depth, address) in addresses.iter().enumerate() {
            let back = u64::from(depth > 0);
            let symbol = self.resolve(address.saturating_sub(back)).cloned();
            symbols.push(symbol.map(|symbol| Symbol { offset: symbol.offset + back, ..symbol }));
        }
        symbols
    }
}

fn look_up(symbolizer: &Symbolizer, source: &Source<'_>, address: u64) -> Option<Symbol> {
    match symbolizer.symbolize_single(source, Input::AbsAddr(address)) {
        // kallsyms has no sizes: what lies far behind a function (a BPF program, behind the last
        // one of the kernel) is not in it.
        Ok(Symbolized::Sym(symbol)) if symbol.offset >= LARGEST_FUNCTION => None,
        Ok(Symbolized::Sym(symbol)) => {
            Some(Symbol { name: symbol.name.into_owned(), offset: symbol.offset as u64 })
        }
        Ok(Symbolized::Unknown(_)) => None,
        Err(error) => {
            log::debug!("no symbol for {address:#x}: {error}");
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    const KALLSYMS: &str = "\
ffffffff80000000 T bpf_trace_run2
ffffffff80001000 T bpf_trace_run3
ffffffff81000000 T _text
ffffffff81000100 T osq_lock
ffffffff81000200 t __mutex_lock.constprop.0
ffffffff81000300 T pipe_read
ffffffff81000400 T vfs_read
ffffffff81000500 T ksys_read
ffffffff82000000 T _etext
";

    fn symbolizer() -> (tempfile::NamedTempFile, KernelSymbolizer) {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(KALLSYMS.as_bytes()).unwrap();
        let symbolizer = KernelSymbolizer::from_kallsyms(file.path().to_owned());
        (file, symbolizer)
    }

    const STACK: [u64; 4] = [
        0xffff_ffff_8100_0110,
        0xffff_ffff_8100_0288,
        0xffff_ffff_8100_0310,
        0xffff_ffff_8100_0500,
    ];

    #[test]
    fn names_a_stack_and_its_caller() {
        let (_file, mut symbolizer) = symbolizer();
        // The last return address lies just behind vfs_read's final call.
        let expected =
            ["osq_lock+0x10", "__mutex_lock.constprop.0+0x88", "pipe_read+0x10", "vfs_read+0x100"];
        assert_eq!(symbolizer.stack(&STACK), expected);
        assert_eq!(symbolizer.caller(&STACK).as_deref(), Some("pipe_read"));
    }

    #[test]
    fn unknown_addresses_stay_addresses() {
        let (_file, mut symbolizer) = symbolizer();
        assert_eq!(symbolizer.stack(&[0x1000]), ["0x1000"]);
        assert_eq!(symbolizer.caller(&[0x1000]), None);
        assert_eq!(symbolizer.caller(&[0xffff_ffff_8100_0110]), None);
    }

    #[test]
    fn a_missing_listing_is_no_error() {
        let mut symbolizer = KernelSymbolizer::from_kallsyms("/nonexistent/kallsyms".into());
        assert_eq!(symbolizer.resolve(STACK[0]), None);
    }

    /// The program's own frame has no symbol of its own, and the nearest one below is far away.
    #[test]
    fn the_tracers_own_frames_are_cut_off() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(KALLSYMS.as_bytes()).unwrap();
        let mut symbolizer = KernelSymbolizer::from_kallsyms(file.path().to_owned());
        let program = 0xffff_ffff_8300_0000;
        let in_lock = [0xffff_ffff_8100_0110, 0xffff_ffff_8100_0310];
        let stack = [program, 0xffff_ffff_8000_0010, in_lock[0], in_lock[1]];
        assert_eq!(symbolizer.without_tracing(&stack), in_lock);
        assert_eq!(symbolizer.without_tracing(&in_lock), in_lock);
        // A program may lie right behind a function, and then goes by its name.
        let wrong = [0xffff_ffff_8100_0510, in_lock[0], in_lock[1]];
        assert_eq!(symbolizer.without_tracing(&wrong), in_lock);
        assert_eq!(symbolizer.resolve(program), None);
        assert_eq!(symbolizer.caller(&stack).as_deref(), Some("pipe_read"));
    }
}
