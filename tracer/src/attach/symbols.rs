//! Where a variable of a running Postgres server lies in its processes' memory.
//!
//! The postmaster's executable tells the variable's address as linked, its memory map by how much
//! the program was moved. Its children are forks: theirs is the same.

use std::fs;
use std::os::unix::fs::MetadataExt as _;

use object::read::elf::{ElfFile64, ProgramHeader as _};
use object::{Object as _, ObjectSymbol as _, elf};
use procfs::process::{MMapPath, MemoryMap, Process};

use super::status::STATUS_ENTRY;

/// The variable that points to a process's wait event word (Postgres 14+).
const WAIT_EVENT: &str = "my_wait_event_info";

/// Why the variable is not found.
#[derive(Debug, thiserror::Error)]
pub enum SymbolError {
    /// The executable or the memory map.
    #[error("cannot read {path}: {source}")]
    Read {
        /// Which.
        path: String,
        /// What the system said.
        source: std::io::Error,
    },
    /// Not an ELF file of 64 bits.
    #[error("{path} is not a program that can be understood: {source}")]
    Elf {
        /// The executable.
        path: String,
        /// What is wrong with it.
        source: object::Error,
    },
    /// The executable is not in the memory map.
    #[error("{path} is not mapped in the process")]
    NotMapped {
        /// The executable.
        path: String,
    },
}

/// Where the postmaster and its children keep what they tell of themselves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Addresses {
    /// Of `my_wait_event_info`, absent before Postgres 14.
    pub wait_event: Option<u64>,
    /// Of `MyBEEntry`.
    pub status_entry: Option<u64>,
}

/// The addresses in the memory of the postmaster and its children.
///
/// # Errors
/// The executable or the memory map cannot be read or understood.
pub fn addresses(postmaster: u32) -> Result<Addresses, SymbolError> {
    let pid = postmaster;
    let path = format!("/proc/{pid}/exe");
    let read = |source| SymbolError::Read { path: path.clone(), source };
    let bytes = fs::read(&path).map_err(read)?;
    let program = ElfFile64::<object::Endianness>::parse(&*bytes)
        .map_err(|source| SymbolError::Elf { path: path.clone(), source })?;
    let inode = fs::metadata(&path).map_err(read)?.ino();
    let start = first_mapping(pid, inode).map_err(read)?;
    let start = start.ok_or_else(|| SymbolError::NotMapped { path: path.clone() })?;
    let moved = start.wrapping_sub(first_page(&program));
    let linked = |symbol| {
        let mut symbols = program.dynamic_symbols();
        symbols.find(|found| found.name() == Ok(symbol) && found.is_definition())
    };
    let address = |symbol| linked(symbol).map(|found| found.address().wrapping_add(moved));
    Ok(Addresses { wait_event: address(WAIT_EVENT), status_entry: address(STATUS_ENTRY) })
}

/// Where the start of the file is mapped.
fn first_mapping(pid: u32, inode: u64) -> std::io::Result<Option<u64>> {
    let process = Process::new(pid.cast_signed()).map_err(std::io::Error::other)?;
    let maps = process.maps().map_err(std::io::Error::other)?;
    let is_start = |map: &&MemoryMap| {
        map.inode == inode && map.offset == 0 && matches!(map.pathname, MMapPath::Path(_))
    };
    Ok(maps.iter().find(is_start).map(|map| map.address.0))
}

/// The page that the first loaded segment was linked to: 0 in a program that may be moved.
fn first_page(program: &ElfFile64<'_>) -> u64 {
    const PAGE: u64 = 4096;
    let endian = program.endian();
    let segments = program.elf_program_headers().iter();
    let loaded = segments.filter(|segment| segment.p_type(endian) == elf::PT_LOAD);
    let first = loaded.map(|segment| segment.p_vaddr(endian)).min();
    first.unwrap_or(0) & !(PAGE - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_without_the_variables_has_none() {
        let found = addresses(std::process::id()).unwrap();
        assert_eq!(found, Addresses { wait_event: None, status_entry: None });
    }

    #[test]
    fn a_process_that_is_gone_is_an_error() {
        assert!(matches!(addresses(1 << 23), Err(SymbolError::Read { .. })));
    }
}
