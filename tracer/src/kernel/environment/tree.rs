//! A file system tree to read from: the real one, or a fixture.

use std::fs;
use std::path::{Path, PathBuf};

/// The root under which /proc and /sys are looked up.
pub(super) struct Tree {
    root: PathBuf,
}

impl Tree {
    pub(super) fn at(root: impl Into<PathBuf>) -> Tree {
        Tree { root: root.into() }
    }

    /// Whether this is the running system and not a copy of another.
    pub(super) fn is_live(&self) -> bool {
        self.root == Path::new("/")
    }

    pub(super) fn path(&self, path: impl AsRef<Path>) -> PathBuf {
        let path = path.as_ref();
        self.root.join(path.strip_prefix("/").unwrap_or(path))
    }

    /// A file's text without white space around it; `None` when it cannot be read.
    pub(super) fn read(&self, path: impl AsRef<Path>) -> Option<String> {
        let bytes = fs::read(self.path(path)).ok()?;
        Some(String::from_utf8_lossy(&bytes).trim().to_owned())
    }

    pub(super) fn read_number(&self, path: impl AsRef<Path>) -> Option<u64> {
        self.read(path)?.parse().ok()
    }

    /// The names in a directory, sorted; none when it is not there.
    pub(super) fn list(&self, path: impl AsRef<Path>) -> Vec<String> {
        let Ok(entries) = fs::read_dir(self.path(path)) else { return Vec::new() };
        let mut names: Vec<String> =
            entries.flatten().filter_map(|entry| entry.file_name().into_string().ok()).collect();
        names.sort();
        names
    }
}

/// The choice in brackets of a list like `always [madvise] never`.
pub(super) fn chosen(text: &str) -> Option<String> {
    let (_, rest) = text.split_once('[')?;
    Some(rest.split_once(']')?.0.to_owned())
}

/// The numbers of a list like `0-3,8`.
pub(super) fn number_list(list: &str) -> Vec<u32> {
    let ranges = list.trim().split(',').filter_map(|part| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some(first.parse::<u32>().ok()?..=last.parse::<u32>().ok()?)
    });
    ranges.flatten().collect()
}

/// A fixture tree for tests.
#[cfg(test)]
pub(super) struct Fixture {
    pub(super) directory: tempfile::TempDir,
}

#[cfg(test)]
impl Fixture {
    pub(super) fn new(files: &[(&str, &str)]) -> Fixture {
        let fixture = Fixture { directory: tempfile::tempdir().unwrap() };
        for (path, text) in files {
            fixture.write(path, text);
        }
        fixture
    }

    pub(super) fn write(&self, path: &str, text: &str) {
        let path = self.directory.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// A relative link, as sysfs has them.
    pub(super) fn link(&self, path: &str, target: &str) {
        let path = self.directory.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::os::unix::fs::symlink(target, path).unwrap();
    }

    pub(super) fn tree(&self) -> Tree {
        Tree::at(self.directory.path())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_and_choices() {
        assert_eq!(number_list("0-3,8\n"), [0, 1, 2, 3, 8]);
        assert_eq!(number_list(""), [0; 0]);
        assert_eq!(chosen("always [madvise] never").as_deref(), Some("madvise"));
        assert_eq!(chosen("none"), None);
    }
}
