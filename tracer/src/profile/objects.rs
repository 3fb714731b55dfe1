//! The files that code was executed from, each opened while somebody had it mapped: it may be deleted,
//! or lie in a container that is gone when names are looked up.

use std::collections::HashMap;
use std::fs::File;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use super::spaces::Mapping;

/// A file with code.
#[derive(Debug)]
pub struct ObjectFile {
    /// Its path as the process saw it.
    pub path: String,
    /// The file, where it could be opened.
    pub file: Option<File>,
}

/// All of them, by number.
#[derive(Debug, Default)]
pub(super) struct Objects {
    files: Vec<ObjectFile>,
    numbers: HashMap<(u64, String), u32>,
}

impl Objects {
    /// The number of a mapping's file.
    pub(super) fn number(&mut self, pid: u32, mapping: &Mapping) -> u32 {
        let key = (mapping.inode, mapping.path.clone());
        *self.numbers.entry(key).or_insert_with(|| {
            self.files.push(ObjectFile { path: mapping.path.clone(), file: open(pid, mapping) });
            (self.files.len() - 1) as u32
        })
    }

    pub(super) fn into_files(self) -> Vec<ObjectFile> {
        self.files
    }
}

/// The mapped file itself, whatever lies under its path now; else what lies there if it is the same.
fn open(pid: u32, mapping: &Mapping) -> Option<File> {
    let Mapping { start, end, inode, path, .. } = mapping;
    if let Ok(file) = File::open(format!("/proc/{pid}/map_files/{start:x}-{end:x}")) {
        return Some(file);
    }
    let inside = format!("/proc/{pid}/root{path}");
    [Path::new(&inside), Path::new(path)].into_iter().find_map(|path| {
        let file = File::open(path).ok()?;
        (file.metadata().ok()?.ino() == *inode).then_some(file)
    })
}
