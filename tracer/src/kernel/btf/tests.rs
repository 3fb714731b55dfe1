use proptest::prelude::*;

use super::raw::MAGIC;
use super::*;

/// Writes BTF for the tests: strings and types are appended, ids count from 1.
pub(super) struct Writer {
    /// Bytes of the strings that this BTF builds on.
    string_base: u32,
    strings: Vec<u8>,
    types: Vec<u8>,
    next_id: u32,
}

impl Writer {
    pub(super) fn new() -> Self {
        Writer { string_base: 0, strings: vec![0], types: Vec::new(), next_id: 1 }
    }

    /// For a module: goes on where the kernel's own ends.
    pub(super) fn split(&self) -> Self {
        let string_base = self.strings.len() as u32;
        Writer { string_base, strings: vec![0], types: Vec::new(), next_id: self.next_id }
    }

    fn string(&mut self, text: &str) -> u32 {
        if text.is_empty() {
            return 0;
        }
        let offset = self.string_base + self.strings.len() as u32;
        self.strings.extend_from_slice(text.as_bytes());
        self.strings.push(0);
        offset
    }

    /// `info` is the kind, `flagged` bit fields and all, and the number of elements.
    pub(super) fn add(
        &mut self,
        name: &str,
        info: (u8, bool, u32),
        word: u32,
        rest: &[u32],
    ) -> u32 {
        let name = self.string(name);
        let (kind, flagged, len) = info;
        let info = u32::from(flagged) << 31 | u32::from(kind) << 24 | len;
        for value in [name, info, word].iter().chain(rest) {
            self.types.extend_from_slice(&value.to_ne_bytes());
        }
        self.next_id += 1;
        self.next_id - 1
    }

    fn structure(&mut self, name: &str, flag: bool, members: &[(&str, u32, u32)]) -> u32 {
        self.sized(name, flag, 64, members)
    }

    /// Members are their name, type and place in bits.
    pub(super) fn sized(
        &mut self,
        name: &str,
        flag: bool,
        bytes: u32,
        members: &[(&str, u32, u32)],
    ) -> u32 {
        let mut rest = Vec::new();
        for (member, type_id, offset) in members {
            rest.extend([self.string(member), *type_id, *offset]);
        }
        self.add(name, (kind::STRUCT, flag, members.len() as u32), bytes, &rest)
    }

    /// Overwrites the zeros behind the last type: members of a union.
    pub(super) fn patch_members(&mut self, members: &[(&str, u32, u32)]) {
        let words: Vec<u32> =
            members.iter().flat_map(|(name, id, bits)| [self.string(name), *id, *bits]).collect();
        self.patch(&words);
    }

    /// Likewise of an enum.
    pub(super) fn patch_enumerators(&mut self, enumerators: &[(&str, u32)]) {
        let words: Vec<u32> =
            enumerators.iter().flat_map(|(name, value)| [self.string(name), *value]).collect();
        self.patch(&words);
    }

    fn patch(&mut self, words: &[u32]) {
        let start = self.types.len() - words.len() * 4;
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        self.types[start..].copy_from_slice(&bytes);
    }

    pub(super) fn finish(self, layout: Option<&[[u8; 4]]>) -> Vec<u8> {
        let (types, strings) = (self.types.len() as u32, self.strings.len() as u32);
        let mut bytes = MAGIC.to_ne_bytes().to_vec();
        bytes.extend([1, 0]);
        let header_len: u32 = if layout.is_some() { 32 } else { 24 };
        for word in [header_len, 0, types, types, strings] {
            bytes.extend_from_slice(&word.to_ne_bytes());
        }
        if let Some(layout) = layout {
            for word in [types + strings, layout.len() as u32 * 4] {
                bytes.extend_from_slice(&word.to_ne_bytes());
            }
        }
        bytes.extend(self.types);
        bytes.extend(self.strings);
        bytes.extend(layout.unwrap_or_default().iter().flatten());
        bytes
    }
}

fn sample() -> Writer {
    let mut w = Writer::new();
    let int = w.add("int", (kind::INT, false, 0), 4, &[32]);
    let anonymous = w.structure("", false, &[("first", int, 0), ("second", int, 32)]);
    let inner = w.structure("inner", false, &[("x", int, 0), ("", anonymous, 64)]);
    let typedef = w.add("inner_t", (kind::TYPEDEF, false, 0), inner, &[]);
    let constant = w.add("", (kind::CONST, false, 0), typedef, &[]);
    // Bit fields: width in the upper byte of the offset.
    w.structure("outer", true, &[("flag", int, 1 << 24 | 35), ("nested", constant, 128)]);
    let variable = w.add("counter", (kind::VAR, false, 0), int, &[1]);
    w.add(".data..percpu", (kind::DATASEC, false, 1), 8, &[variable, 4096, 4]);
    let proto = w.add("", (kind::FUNC_PROTO, false, 2), 0, &[0, int, 0, int]);
    w.add("function", (kind::FUNC, false, 0), proto, &[]);
    w
}

#[test]
fn finds_members_through_anonymous_structs_typedefs_and_qualifiers() {
    let btf = Btf::from_bytes(sample().finish(None)).unwrap();
    assert_eq!(btf.offset("inner.second").unwrap(), 12);
    assert_eq!(btf.offset("outer.nested.second").unwrap(), 16 + 12);
    assert_eq!(btf.member("outer.nested.x").unwrap().byte_size, Some(4));
    assert_eq!(btf.struct_size("outer"), Some(64));
}

#[test]
fn a_bit_field_has_its_bit_offset_and_width() {
    let btf = Btf::from_bytes(sample().finish(None)).unwrap();
    let flag = btf.member("outer.flag").unwrap();
    assert_eq!((flag.bit_offset, flag.bit_size, flag.byte_offset()), (35, Some(1), 4));
}

#[test]
fn finds_functions_variables_and_parameters() {
    let btf = Btf::from_bytes(sample().finish(None)).unwrap();
    assert!(btf.has_function("function") && !btf.has_function("counter"));
    assert_eq!(btf.percpu_offset("counter"), Some(4096));
    assert_eq!(btf.percpu_offset("other"), None);
    assert_eq!(btf.parameter_count("function"), Some(2));
    assert!(btf.has_typedef("inner_t") && !btf.has_typedef("inner"));
}

#[test]
fn says_which_part_of_a_path_is_missing() {
    let btf = Btf::from_bytes(sample().finish(None)).unwrap();
    let message = btf.member("outer.nested.third").unwrap_err().to_string();
    assert!(message.contains("`third`") && message.contains("outer.nested.third"), "{message}");
    assert!(btf.member("absent.x").unwrap_err().to_string().contains("`absent`"));
}

#[test]
fn an_unknown_kind_is_stepped_over_where_its_layout_is_described() {
    let mut w = sample();
    // 8 bytes and 4 more an element.
    w.add("novelty", (25, false, 2), 0, &[1, 2, 3, 4]);
    w.structure("after", false, &[("y", 1, 64)]);
    let mut layout = [[0; 4]; 26];
    layout[25] = [8, 4, 0, 0];
    let btf = Btf::from_bytes(w.finish(Some(&layout))).unwrap();
    assert_eq!(btf.offset("after.y").unwrap(), 8);
    assert_eq!(btf.unknown_kind(), None);
}

#[test]
fn an_undescribed_kind_keeps_what_came_before_it() {
    let mut w = sample();
    w.add("novelty", (25, false, 2), 0, &[1, 2, 3, 4]);
    w.structure("after", false, &[("y", 1, 64)]);
    let btf = Btf::from_bytes(w.finish(None)).unwrap();
    assert_eq!(btf.unknown_kind(), Some(25));
    assert_eq!(btf.offset("inner.x").unwrap(), 0);
    assert!(btf.offset("after.y").is_err());
}

#[test]
fn rejects_what_is_not_btf() {
    assert!(Btf::from_bytes(Vec::new()).is_err());
    assert!(Btf::from_bytes(b"\x7fELF and so on, long enough for a header".to_vec()).is_err());
}

#[test]
fn reads_the_running_kernel() {
    let btf = match Btf::of_running_kernel() {
        Ok(btf) => btf,
        Err(BtfError::Read { .. }) => return eprintln!("skipped: this kernel has no BTF"),
        Err(error) => panic!("{error}"),
    };
    assert_eq!(btf.unknown_kind(), None);
    assert!(btf.struct_size("task_struct").is_some_and(|size| size > 1000));
    // Both are in every supported kernel.
    assert_eq!(btf.member("task_struct.comm").unwrap().byte_size, Some(16));
    assert!(btf.offset("task_struct.se.cfs_rq").is_ok());
}

proptest! {
    /// Damaged input gives an error or an index that can be asked, never a panic.
    #[test]
    fn never_panics_on_damage(position in 0usize..700, value: u8, cut in 0usize..700) {
        let mut bytes = sample().finish(None);
        let position = position % bytes.len();
        bytes[position] = value;
        bytes.truncate(bytes.len().max(cut) - cut.min(bytes.len()) / 2);
        if let Ok(btf) = Btf::from_bytes(bytes) {
            let _ = btf.member("outer.nested.second");
            let _ = btf.percpu_offset("counter");
            let _ = btf.parameter_count("function");
        }
    }
}
