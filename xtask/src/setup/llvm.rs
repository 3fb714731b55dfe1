//! LLVM versions: the one inside rustc and the one bpf-linker uses must agree.

use std::fmt;

/// A version as far as it is known: `22.1.8` from a compiler, `22.1` from a library's name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct LlvmVersion(Vec<u32>);

/// How two LLVM versions relate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Agreement {
    /// Equal in every component that both sides know.
    Same,
    /// The same major and minor version; bitcode usually, but not always, links.
    PatchDiffers,
    /// Bitcode of one is not readable by the other.
    Differs,
}

impl LlvmVersion {
    /// Reads the leading dotted number of `text`.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
        let parts: Option<Vec<u32>> =
            text[..end].trim_end_matches('.').split('.').map(|part| part.parse().ok()).collect();
        parts.map(Self)
    }

    /// The `LLVM version:` line of `rustc -vV`.
    pub(super) fn of_rustc(verbose_version: &str) -> Option<Self> {
        let line = verbose_version.lines().find_map(|line| line.strip_prefix("LLVM version:"))?;
        Self::parse(line.trim())
    }

    /// The libLLVM that `ldd` resolves for a program.
    pub(super) fn of_ldd(ldd: &str) -> Option<Self> {
        let library = ldd.split_whitespace().find(|word| word.starts_with("libLLVM"))?;
        let number = library.find(|c: char| c.is_ascii_digit())?;
        Self::parse(&library[number..])
    }

    pub(super) fn major(&self) -> u32 {
        self.0.first().copied().unwrap_or(0)
    }

    pub(super) fn agreement(&self, other: &Self) -> Agreement {
        match self.0.iter().zip(&other.0).position(|(a, b)| a != b) {
            None => Agreement::Same,
            Some(0 | 1) => Agreement::Differs,
            Some(_) => Agreement::PatchDiffers,
        }
    }
}

impl fmt::Display for LlvmVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts: Vec<String> = self.0.iter().map(u32::to_string).collect();
        f.write_str(&parts.join("."))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(text: &str) -> LlvmVersion {
        LlvmVersion::parse(text).expect("a version")
    }

    #[test]
    fn versions_are_read_where_tools_print_them() {
        let rustc = "rustc 1.96.0\nrelease: 1.96.0\nLLVM version: 22.1.8\n";
        assert_eq!(LlvmVersion::of_rustc(rustc), Some(version("22.1.8")));
        let ldd = "\tlibLLVM.so.22.1 => /usr/lib/llvm-22/lib/libLLVM.so.22.1 (0x0)\n";
        assert_eq!(LlvmVersion::of_ldd(ldd), Some(version("22.1")));
        let old_name = "\tlibLLVM-14.so.1 => /usr/lib/libLLVM-14.so.1 (0x0)\n";
        assert_eq!(LlvmVersion::of_ldd(old_name), Some(version("14")));
        assert_eq!(LlvmVersion::of_ldd("\tlibc.so.6 => /lib/libc.so.6\n"), None);
        assert_eq!(LlvmVersion::parse("git"), None);
    }

    #[test]
    fn unknown_components_do_not_disagree() {
        assert_eq!(version("22.1.8").agreement(&version("22.1")), Agreement::Same);
        assert_eq!(version("22.1.8").agreement(&version("22.1.2")), Agreement::PatchDiffers);
        assert_eq!(version("22.1.8").agreement(&version("22.2.8")), Agreement::Differs);
        assert_eq!(version("22.1").agreement(&version("14")), Agreement::Differs);
    }
}
