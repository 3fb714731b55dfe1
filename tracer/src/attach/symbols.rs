//! Where a variable of a running Postgres server lies in its processes' memory.
//!
//! The postmaster's executable tells the variable's address as linked, its memory map by how much
//! the program was moved. Its children are forks: theirs is the same.

use std::fs;
use std::os::unix::fs::MetadataExt as _;

use object::read::elf::{ElfFile64, ProgramHeader as _};
use object::{Object as _, ObjectSymbol as _, elf};
use procfs::process::{MMapPath, MemoryMap, Process};

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
    /// An older Postgres, or not Postgres.
    #[error("{path} exports no `{symbol}`")]
    Absent {
        /// The executable.
        path: String,
        /// The variable.
        symbol: &'static str,
    },
    /// The executable is not in the memory map.
    #[error("{path} is not mapped in the process")]
    NotMapped {
        /// The executable.
        path: String,
    },
}

/// Address of `my_wait_event_info` in the memory of the postmaster and its children.
///
/// # Errors
/// See [`SymbolError`].
pub fn wait_event_address(postmaster: u32) -> Result<u64, SymbolError> {
    variable_address(postmaster, WAIT_EVENT)
}

fn variable_address(pid: u32, symbol: &'static str) -> Result<u64, SymbolError> {
    let path = format!("/proc/{pid}/exe");
    let read = |source| SymbolError::Read { path: path.clone(), source };
    let bytes = fs::read(&path).map_err(read)?;
    let program = ElfFile64::<object::Endianness>::parse(&*bytes)
        .map_err(|source| SymbolError::Elf { path: path.clone(), source })?;
    let linked = program
        .dynamic_symbols()
        .find(|found| found.name() == Ok(symbol) && found.is_definition())
        .map(|found| found.address())
        .ok_or_else(|| SymbolError::Absent { path: path.clone(), symbol })?;
    let inode = fs::metadata(&path).map_err(read)?.ino();
    let start = first_mapping(pid, inode).map_err(read)?;
    let start = start.ok_or_else(|| SymbolError::NotMapped { path: path.clone() })?;
    Ok(linked.wrapping_add(start.wrapping_sub(first_page(&program))))
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
    fn a_program_without_the_variable_is_named() {
        let error = wait_event_address(std::process::id()).unwrap_err();
        assert!(error.to_string().contains("exports no `my_wait_event_info`"), "{error}");
    }

    #[test]
    fn a_process_that_is_gone_is_an_error() {
        assert!(matches!(wait_event_address(1 << 23), Err(SymbolError::Read { .. })));
    }
}
