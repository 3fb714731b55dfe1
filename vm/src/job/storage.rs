//! What lies under a job's temporary files: disks, what joins them, and a file system.

use std::fmt;
use std::fs::File;
use std::path::{Path, PathBuf};

use crate::VmError;

/// A file system that the guest makes for its temporary files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileSystem {
    /// ext4, by e2fsprogs.
    Ext4,
    /// XFS, by xfsprogs, which make none of less than 300 MiB.
    Xfs,
}

impl fmt::Display for FileSystem {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Ext4 => "ext4",
            Self::Xfs => "xfs",
        })
    }
}

/// Disks with a file system; several are striped by the device mapper.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Storage {
    /// The size of each disk, in MiB.
    pub disk_mib: u32,
    /// How many there are.
    pub disks: u32,
    /// The file system on them.
    pub file_system: FileSystem,
}

impl Storage {
    /// Makes the disks' images; sparse: they take room as the guest writes.
    pub(super) fn make_images(&self, place: &Path) -> Result<Vec<PathBuf>, VmError> {
        let make = |index| {
            let path = place.join(format!("disk-{index}.raw"));
            let image = File::create(&path).map_err(VmError::io("create a guest's disk"))?;
            let bytes = u64::from(self.disk_mib) << 20;
            image.set_len(bytes).map_err(VmError::io("size a guest's disk"))?;
            Ok(path)
        };
        (0..self.disks).map(make).collect()
    }
}
