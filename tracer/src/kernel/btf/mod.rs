//! The kernel's type information: member offsets, per-CPU variables, which functions exist.
//!
//! A small reader of our own. It indexes the raw bytes once and never copies a type; a kind that
//! it does not know is stepped over where the kernel describes its layout, and otherwise ends
//! the index at that point instead of failing the whole file.

use std::collections::hash_map::DefaultHasher;
use std::fs;
use std::hash::{Hash as _, Hasher as _};
use std::path::Path;

use thiserror::Error;

use raw::{Head, Header, kind, read_u32, trailing_bytes};

mod fields;
mod raw;

pub use fields::{LockField, LockShape, PerCpuLock};

/// Where the running kernel publishes its own BTF.
pub const KERNEL_BTF: &str = "/sys/kernel/btf/vmlinux";

/// Nesting of structs, arrays and typedefs that a path may go through; real ones stay below 10.
const MAX_DEPTH: u32 = 32;

/// Why type information could not be used.
#[derive(Debug, Error)]
pub enum BtfError {
    /// The file is missing or unreadable.
    #[error("cannot read {path}: {source}; the kernel needs CONFIG_DEBUG_INFO_BTF=y")]
    Read {
        /// The file.
        path: String,
        /// What the system said.
        source: std::io::Error,
    },
    /// The bytes are not BTF of this machine's byte order.
    #[error("malformed BTF: {0}")]
    Malformed(&'static str),
    /// A struct, union or member is not there.
    #[error("BTF has no `{missing}` (looking for `{path}`); this kernel names it otherwise")]
    NotFound {
        /// The whole path that was asked for.
        path: String,
        /// The part that is missing.
        missing: String,
    },
}

/// Where a member lies inside its outermost struct.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemberLocation {
    /// Bits from the start of the struct.
    pub bit_offset: u32,
    /// Width in bits if the member is a bit field.
    pub bit_size: Option<u32>,
    /// Size in bytes of the member's type, where it has one.
    pub byte_size: Option<u32>,
}

impl MemberLocation {
    /// Bytes from the start of the struct; for a bit field, of the byte that holds its first bit.
    pub fn byte_offset(self) -> u32 {
        self.bit_offset / 8
    }
}

/// An index over one BTF file.
pub struct Btf {
    bytes: Vec<u8>,
    types: (usize, usize),
    strings: (usize, usize),
    /// Byte position of each type; index 0 is `void`, which has none.
    positions: Vec<u32>,
    /// (hash of the name, type id), sorted.
    names: Vec<(u64, u32)>,
    unknown_kind: Option<u8>,
}

impl Btf {
    /// Indexes the running kernel's own BTF.
    pub fn of_running_kernel() -> Result<Self, BtfError> {
        Self::from_file(Path::new(KERNEL_BTF))
    }

    /// Indexes a raw BTF file.
    pub fn from_file(path: &Path) -> Result<Self, BtfError> {
        let bytes = fs::read(path)
            .map_err(|source| BtfError::Read { path: path.display().to_string(), source })?;
        Self::from_bytes(bytes)
    }

    /// Indexes raw BTF.
    pub fn from_bytes(bytes: Vec<u8>) -> Result<Self, BtfError> {
        let header = Header::parse(&bytes)?;
        let mut btf = Btf {
            types: header.types,
            strings: header.strings,
            positions: vec![0],
            names: Vec::new(),
            unknown_kind: None,
            bytes,
        };
        btf.index(header.types, &header)?;
        Ok(btf)
    }

    /// The kernel's types with those of a module, whose own BTF counts on from the kernel's. `None`
    /// where the module's cannot be read, or the kernel's is not known to its end.
    pub fn with_module(&self, module: &str) -> Option<Self> {
        self.with_split(&fs::read(Path::new(KERNEL_BTF).with_file_name(module)).ok()?)
    }

    /// [`Btf::with_module`], of its bytes.
    pub fn with_split(&self, split: &[u8]) -> Option<Self> {
        if self.unknown_kind.is_some() {
            return None;
        }
        let header = Header::parse(split).ok()?;
        let mut bytes = self.bytes.get(..self.types.1)?.to_vec();
        bytes.extend_from_slice(split.get(header.types.0..header.types.1)?);
        let types = (self.types.1, bytes.len());
        bytes.extend_from_slice(self.bytes.get(self.strings.0..self.strings.1)?);
        bytes.extend_from_slice(split.get(header.strings.0..header.strings.1)?);
        let mut btf = Btf {
            types: (self.types.0, types.1),
            strings: (types.1, bytes.len()),
            positions: self.positions.clone(),
            names: self.names.clone(),
            unknown_kind: None,
            bytes,
        };
        btf.index(types, &header).ok()?;
        Some(btf)
    }

    /// Adds the types between two positions.
    fn index(&mut self, types: (usize, usize), header: &Header) -> Result<(), BtfError> {
        let (mut position, end) = types;
        while position < end {
            let head = self.head_at(position).ok_or(BtfError::Malformed("a type is cut off"))?;
            let Some(length) =
                trailing_bytes(&head).or_else(|| header.described(&self.bytes, &head))
            else {
                self.unknown_kind = Some(head.kind);
                break;
            };
            let id = u32::try_from(self.positions.len())
                .map_err(|_| BtfError::Malformed("too many types"))?;
            let start =
                u32::try_from(position).map_err(|_| BtfError::Malformed("larger than 4 GiB"))?;
            self.positions.push(start);
            if head.name != 0 {
                self.names.push((hash(self.string(head.name)), id));
            }
            position += 12 + length;
        }
        self.names.sort_unstable();
        Ok(())
    }

    /// The kind at which the index had to stop, if there was one that nothing describes.
    pub fn unknown_kind(&self) -> Option<u8> {
        self.unknown_kind
    }

    /// Whether a typedef of this name exists.
    pub fn has_typedef(&self, name: &str) -> bool {
        self.find(name, &[kind::TYPEDEF]).is_some()
    }

    /// Whether a function of this name exists.
    pub fn has_function(&self, name: &str) -> bool {
        self.find(name, &[kind::FUNC]).is_some()
    }

    /// Type id of a function, as `bpf(2)` wants it for fentry.
    pub fn function_id(&self, name: &str) -> Option<u32> {
        self.find(name, &[kind::FUNC])
    }

    /// Type id of a typedef, as `bpf(2)` wants it for a BTF tracepoint (`btf_trace_…`).
    pub fn typedef_id(&self, name: &str) -> Option<u32> {
        self.find(name, &[kind::TYPEDEF])
    }

    /// How many parameters a function (or the function a `btf_trace_…` typedef points at, which
    /// counts its leading `void *`) takes.
    pub fn parameter_count(&self, name: &str) -> Option<usize> {
        let mut head = self.head(self.find(name, &[kind::FUNC, kind::TYPEDEF])?)?;
        for _ in 0..MAX_DEPTH {
            if head.kind == kind::FUNC_PROTO {
                return Some(head.len);
            }
            head = self.head(head.word)?;
        }
        None
    }

    /// Offset of a variable inside the per-CPU section, if the kernel describes it.
    pub fn percpu_offset(&self, variable: &str) -> Option<u64> {
        let variable = self.find(variable, &[kind::VAR])?;
        let section = self.head(self.find(".data..percpu", &[kind::DATASEC])?)?;
        (0..section.len).find_map(|index| {
            let entry = section.position + 12 + index * 12;
            (self.u32_at(entry)? == variable).then(|| self.u32_at(entry + 4).map(u64::from))?
        })
    }

    /// Size of a struct or union in bytes.
    pub fn struct_size(&self, name: &str) -> Option<u32> {
        Some(self.head(self.find(name, &[kind::STRUCT, kind::UNION])?)?.word)
    }

    /// Finds a member by its path, `task_struct.se.cfs_rq`: the struct first, then members, each
    /// inside the one before (not through pointers). Members of anonymous structs and unions are
    /// found as in C.
    pub fn member(&self, path: &str) -> Result<MemberLocation, BtfError> {
        let missing = |part: &str| BtfError::NotFound { path: path.into(), missing: part.into() };
        let mut parts = path.split('.');
        let name = parts.next().unwrap_or_default();
        let mut id = self.find(name, &[kind::STRUCT, kind::UNION]).ok_or_else(|| missing(name))?;
        let mut found = MemberLocation { bit_offset: 0, bit_size: None, byte_size: None };
        for part in parts {
            let id_here = self.resolve(id).ok_or_else(|| missing(part))?;
            let (bits, size, next) =
                self.find_member(id_here, part, 0).ok_or_else(|| missing(part))?;
            found.bit_offset = found.bit_offset.saturating_add(bits);
            found.bit_size = size;
            id = next;
        }
        found.byte_size = self.size_of(id, 0);
        Ok(found)
    }

    /// Byte offset of a member that is not a bit field; see [`Btf::member`].
    pub fn offset(&self, path: &str) -> Result<u32, BtfError> {
        self.member(path).map(MemberLocation::byte_offset)
    }

    /// Depth-first search through anonymous members: (bit offset, bit-field width, type id).
    fn find_member(&self, id: u32, name: &str, depth: u32) -> Option<(u32, Option<u32>, u32)> {
        let outer = self.head(id)?;
        if depth > MAX_DEPTH || !matches!(outer.kind, kind::STRUCT | kind::UNION) {
            return None;
        }
        (0..outer.len).find_map(|index| {
            let entry = outer.position + 12 + index * 12;
            let (name_at, type_id, word) =
                (self.u32_at(entry)?, self.u32_at(entry + 4)?, self.u32_at(entry + 8)?);
            let (bits, width) = match outer.kind_flag {
                true => (word & 0x00ff_ffff, word >> 24),
                false => (word, 0),
            };
            if name_at == 0 {
                let inner = self.resolve(type_id)?;
                let (inner_bits, size, found) = self.find_member(inner, name, depth + 1)?;
                return Some((bits.saturating_add(inner_bits), size, found));
            }
            (self.string(name_at) == name.as_bytes()).then_some((
                bits,
                (width != 0).then_some(width),
                type_id,
            ))
        })
    }

    /// Strips typedefs and qualifiers.
    fn resolve(&self, mut id: u32) -> Option<u32> {
        for _ in 0..MAX_DEPTH {
            let head = self.head(id)?;
            match head.kind {
                kind::TYPEDEF | kind::VOLATILE | kind::CONST | kind::RESTRICT | kind::TYPE_TAG => {
                    id = head.word;
                }
                _ => return Some(id),
            }
        }
        None
    }

    fn size_of(&self, id: u32, depth: u32) -> Option<u32> {
        let head = self.head(self.resolve(id)?)?;
        match head.kind {
            kind::INT | kind::STRUCT | kind::UNION | kind::ENUM | kind::ENUM64 | kind::FLOAT => {
                Some(head.word)
            }
            kind::PTR => Some(8),
            kind::ARRAY if depth < MAX_DEPTH => {
                let element = self.u32_at(head.position + 12)?;
                let count = self.u32_at(head.position + 20)?;
                self.size_of(element, depth + 1)?.checked_mul(count)
            }
            _ => None,
        }
    }

    /// The first type of that name and one of those kinds. Duplicates (a `struct` that two
    /// compilation units define differently) are rare for the names lockscope needs.
    fn find(&self, name: &str, kinds: &[u8]) -> Option<u32> {
        let wanted = hash(name.as_bytes());
        let first = self.names.partition_point(|(hash, _)| *hash < wanted);
        self.names[first..].iter().take_while(|(hash, _)| *hash == wanted).map(|(_, id)| *id).find(
            |id| {
                self.head(*id).is_some_and(|head| {
                    kinds.contains(&head.kind) && self.string(head.name) == name.as_bytes()
                })
            },
        )
    }

    fn head(&self, id: u32) -> Option<Head> {
        let position = *self.positions.get(usize::try_from(id).ok()?)?;
        if id == 0 {
            return None;
        }
        self.head_at(position as usize)
    }

    fn head_at(&self, position: usize) -> Option<Head> {
        Head::parse(&self.bytes, position)
    }

    fn string(&self, offset: u32) -> &[u8] {
        let (start, end) = self.strings;
        let bytes = self.bytes.get(start + offset as usize..end).unwrap_or_default();
        bytes.split(|byte| *byte == 0).next().unwrap_or_default()
    }

    fn u32_at(&self, position: usize) -> Option<u32> {
        read_u32(&self.bytes, position)
    }
}

fn hash(name: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    name.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod fields_tests;
#[cfg(test)]
mod tests;
