//! The mount table of this process.

use std::path::{Path, PathBuf};

use super::tree::Tree;

/// One mount.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Mount {
    /// `major:minor` of the device.
    pub(super) device: String,
    /// The directory of the file system that is mounted.
    pub(super) root: PathBuf,
    /// Where.
    pub(super) point: PathBuf,
    /// Options of the mount.
    pub(super) options: String,
    /// File system type.
    pub(super) kind: String,
    /// What is mounted, as it was called.
    pub(super) source: String,
    /// Options of the file system.
    pub(super) super_options: String,
}

/// All mounts, in order: a later one hides an earlier one at the same place.
pub(super) fn mounts(tree: &Tree) -> Vec<Mount> {
    tree.read("proc/self/mountinfo").unwrap_or_default().lines().filter_map(parse).collect()
}

/// The mount that holds a path.
pub(super) fn holding<'mounts>(mounts: &'mounts [Mount], path: &Path) -> Option<&'mounts Mount> {
    mounts
        .iter()
        .filter(|mount| path.starts_with(&mount.point))
        .max_by_key(|mount| mount.point.components().count())
}

/// `36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw,errors=continue`
fn parse(line: &str) -> Option<Mount> {
    let (mount, file_system) = line.split_once(" - ")?;
    let mut mount = mount.split(' ').skip(2);
    let mut file_system = file_system.split(' ');
    Some(Mount {
        device: mount.next()?.to_owned(),
        root: unescaped(mount.next()?).into(),
        point: unescaped(mount.next()?).into(),
        options: mount.next()?.to_owned(),
        kind: file_system.next()?.to_owned(),
        source: unescaped(file_system.next()?),
        super_options: file_system.next().unwrap_or_default().to_owned(),
    })
}

/// White space and backslashes are written as `\040`.
fn unescaped(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        let code = tail.get(..3).and_then(|digits| std::str::from_utf8(digits).ok());
        match code.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(byte) if *first == b'\\' => {
                bytes.push(byte);
                rest = &tail[3..];
            }
            _ => {
                bytes.push(*first);
                rest = tail;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::super::tree::Fixture;
    use super::*;

    const TABLE: &str = "\
27 1 254:0 / / rw,relatime - ext4 /dev/vda rw,discard
28 27 253:1 /sub /mnt/my\\040data rw,noatime shared:7 master:1 - xfs /dev/mapper/vg-pg rw,logbufs=8
29 27 253:2 / /mnt rw - ext4 /dev/vdb rw
30 27 0:31 / /mnt rw - tmpfs tmpfs rw,size=4k
";

    #[test]
    fn the_deepest_and_last_mount_holds_a_path() {
        let mounts = mounts(&Fixture::new(&[("proc/self/mountinfo", TABLE)]).tree());
        let point = |path: &str| holding(&mounts, Path::new(path)).unwrap();
        assert_eq!(point("/var/lib").source, "/dev/vda");
        assert_eq!(point("/mnt/x").kind, "tmpfs", "the later mount is on top");
        assert_eq!(point("/mntx").source, "/dev/vda", "not a prefix of letters");
        let data = point("/mnt/my data/pg");
        assert_eq!((data.kind.as_str(), data.super_options.as_str()), ("xfs", "rw,logbufs=8"));
        assert_eq!((data.root.as_path(), data.device.as_str()), (Path::new("/sub"), "253:1"));
    }

    #[test]
    fn a_line_that_makes_no_sense_is_skipped() {
        let fixture = Fixture::new(&[("proc/self/mountinfo", "nonsense\n1 2 3\n")]);
        assert!(mounts(&fixture.tree()).is_empty());
        assert_eq!(unescaped("a\\"), "a\\");
        assert_eq!(unescaped("a\\134b"), "a\\b");
    }
}
