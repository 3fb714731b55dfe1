//! The byte layout of BTF: header, the head of a type, what follows it.

use super::BtfError;

pub(super) const MAGIC: u16 = 0xeb9f;

/// Kinds of BTF types, as numbered by the kernel's `enum` of `BTF_KIND_*`.
pub(super) mod kind {
    pub(in super::super) const INT: u8 = 1;
    pub(in super::super) const PTR: u8 = 2;
    pub(in super::super) const ARRAY: u8 = 3;
    pub(in super::super) const STRUCT: u8 = 4;
    pub(in super::super) const UNION: u8 = 5;
    pub(in super::super) const ENUM: u8 = 6;
    pub(in super::super) const FWD: u8 = 7;
    pub(in super::super) const TYPEDEF: u8 = 8;
    pub(in super::super) const VOLATILE: u8 = 9;
    pub(in super::super) const CONST: u8 = 10;
    pub(in super::super) const RESTRICT: u8 = 11;
    pub(in super::super) const FUNC: u8 = 12;
    pub(in super::super) const FUNC_PROTO: u8 = 13;
    pub(in super::super) const VAR: u8 = 14;
    pub(in super::super) const DATASEC: u8 = 15;
    pub(in super::super) const FLOAT: u8 = 16;
    pub(in super::super) const DECL_TAG: u8 = 17;
    pub(in super::super) const TYPE_TAG: u8 = 18;
    pub(in super::super) const ENUM64: u8 = 19;
}

/// The fixed head of a type.
#[derive(Clone, Copy)]
pub(super) struct Head {
    pub(super) position: usize,
    pub(super) name: u32,
    pub(super) kind: u8,
    /// Bit fields are encoded in the members' offsets.
    pub(super) kind_flag: bool,
    pub(super) len: usize,
    /// Size or type id, by kind.
    pub(super) word: u32,
}

impl Head {
    pub(super) fn parse(bytes: &[u8], position: usize) -> Option<Self> {
        let info = read_u32(bytes, position + 4)?;
        Some(Head {
            position,
            name: read_u32(bytes, position)?,
            // Older kernels keep the bits around these fields zero, newer ones use them.
            kind: (info >> 24) as u8 & 0x7f,
            kind_flag: info >> 31 == 1,
            len: (info & 0x00ff_ffff) as usize,
            word: read_u32(bytes, position + 8)?,
        })
    }
}

/// The sections of the file, as byte ranges.
pub(super) struct Header {
    pub(super) types: (usize, usize),
    pub(super) strings: (usize, usize),
    /// Newer kernels describe how long each kind is: 4 bytes a kind.
    layout: Option<(usize, usize)>,
}

impl Header {
    pub(super) fn parse(bytes: &[u8]) -> Result<Self, BtfError> {
        let word = |position| read_u32(bytes, position).ok_or(BtfError::Malformed("no header"));
        if bytes.get(..2).and_then(|magic| magic.try_into().ok()).map(u16::from_ne_bytes)
            != Some(MAGIC)
        {
            return Err(BtfError::Malformed("wrong magic number"));
        }
        if bytes.get(2) != Some(&1) {
            return Err(BtfError::Malformed("a version other than 1"));
        }
        let header_len = word(4)? as usize;
        let section = |offset_at, length_at| {
            let start = header_len + word(offset_at)? as usize;
            let end = start + word(length_at)? as usize;
            match end <= bytes.len() {
                true => Ok((start, end)),
                false => Err(BtfError::Malformed("a section reaches past the end")),
            }
        };
        let layout = match header_len >= 32 {
            true => Some(section(24, 28)?).filter(|(start, end)| end > start),
            false => None,
        };
        Ok(Header { types: section(8, 12)?, strings: section(16, 20)?, layout })
    }

    /// Bytes after the head of a type whose kind only the kernel's own description knows.
    pub(super) fn described(&self, bytes: &[u8], head: &Head) -> Option<usize> {
        let (start, end) = self.layout?;
        let entry = bytes.get(start..end)?.chunks_exact(4).nth(usize::from(head.kind))?;
        Some(usize::from(entry[0]) + usize::from(entry[1]) * head.len)
    }
}

/// Bytes that follow the 12-byte head of a type of a known kind.
pub(super) fn trailing_bytes(head: &Head) -> Option<usize> {
    Some(match head.kind {
        kind::INT | kind::VAR | kind::DECL_TAG => 4,
        kind::ARRAY => 12,
        kind::STRUCT | kind::UNION | kind::DATASEC | kind::ENUM64 => 12 * head.len,
        kind::ENUM | kind::FUNC_PROTO => 8 * head.len,
        kind::PTR
        | kind::FWD
        | kind::TYPEDEF
        | kind::VOLATILE
        | kind::CONST
        | kind::RESTRICT
        | kind::FUNC
        | kind::FLOAT
        | kind::TYPE_TAG => 0,
        _ => return None,
    })
}

pub(super) fn read_u32(bytes: &[u8], position: usize) -> Option<u32> {
    let word = bytes.get(position..position.checked_add(4)?)?;
    word.try_into().ok().map(u32::from_ne_bytes)
}
