//! The storage stack under a directory: file system, mapped devices, disks.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::mounts::{holding, mounts};
use super::tree::{Tree, chosen};
use crate::model::StorageLayer;

/// Devices on devices deeper than this are a loop.
const MAX_DEPTH: usize = 16;

/// The layers, top first; empty when the mount cannot be found.
pub(super) fn layers(tree: &Tree, directory: &Path) -> Vec<StorageLayer> {
    let mounts = mounts(tree);
    let Some(mount) = holding(&mounts, directory) else { return Vec::new() };
    let mut layers = vec![StorageLayer {
        kind: "filesystem".to_owned(),
        name: mount.kind.clone(),
        attributes: BTreeMap::from([(
            "options".to_owned(),
            joined_options(&mount.options, &mount.super_options),
        )]),
    }];
    let by_number = tree.path(format!("sys/dev/block/{}", mount.device));
    // Some file systems (btrfs) hide their device behind an anonymous number.
    let name = Path::new(&mount.source).file_name().unwrap_or_default();
    let by_name = tree.path("sys/class/block").join(name);
    let device = fs::canonicalize(by_number).or_else(|_| {
        let is_device = mount.source.starts_with("/dev/");
        if is_device { fs::canonicalize(by_name) } else { Err(std::io::ErrorKind::NotFound.into()) }
    });
    if let Ok(device) = device {
        descend(tree, &device, 0, &mut layers);
    }
    layers
}

/// Both lists as one, each option once.
fn joined_options(mount: &str, file_system: &str) -> String {
    let mut options: Vec<&str> = Vec::new();
    for option in mount.split(',').chain(file_system.split(',')) {
        if !option.is_empty() && !options.contains(&option) {
            options.push(option);
        }
    }
    options.join(",")
}

fn descend(tree: &Tree, device: &Path, depth: usize, layers: &mut Vec<StorageLayer>) {
    let layer = layer(tree, device);
    // Two stripes of one disk lead to the same disk.
    if depth >= MAX_DEPTH || layers.contains(&layer) {
        return;
    }
    let is_partition = layer.kind == "partition";
    layers.push(layer);
    if is_partition {
        if let Some(disk) = device.parent() {
            descend(tree, disk, depth + 1, layers);
        }
        return;
    }
    let Ok(entries) = fs::read_dir(device.join("slaves")) else { return };
    let mut below: Vec<PathBuf> =
        entries.flatten().filter_map(|entry| fs::canonicalize(entry.path()).ok()).collect();
    below.sort();
    for device in below {
        descend(tree, &device, depth + 1, layers);
    }
}

fn layer(tree: &Tree, device: &Path) -> StorageLayer {
    let file = |name: &str| {
        let text = fs::read_to_string(device.join(name)).ok()?;
        Some(text.trim().to_owned()).filter(|text| !text.is_empty())
    };
    let name = device.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let mut attributes = BTreeMap::new();
    let mut add = |name: &str, value: Option<String>| {
        if let Some(value) = value {
            attributes.insert(name.to_owned(), value);
        }
    };
    let scheduler = file("queue/scheduler");
    let scheduler = scheduler.map(|text| chosen(&text).unwrap_or(text));
    if device.join("partition").exists() {
        return StorageLayer { kind: "partition".to_owned(), name, attributes };
    }
    if device.join("dm").exists() {
        // A mapped device's own queue has no scheduler and no rotation.
        let mapped = file("dm/name").unwrap_or_else(|| name.clone());
        add("device", Some(name));
        add("subsystem", file("dm/uuid").as_deref().and_then(subsystem));
        if tree.is_live() {
            for (key, value) in target(&mapped) {
                add(key, Some(value));
            }
        }
        return StorageLayer { kind: "dm".to_owned(), name: mapped, attributes };
    }
    if device.join("md").exists() {
        add("level", file("md/level"));
        add("chunk_bytes", file("md/chunk_size").filter(|size| size != "0"));
        return StorageLayer { kind: "md".to_owned(), name, attributes };
    }
    add("scheduler", scheduler);
    add("rotational", file("queue/rotational"));
    add("nr_requests", file("queue/nr_requests"));
    add("write_cache", file("queue/write_cache"));
    let kind = if device.join("loop").exists() { "loop" } else { "disk" };
    add("backing_file", file("loop/backing_file"));
    StorageLayer { kind: kind.to_owned(), name, attributes }
}

/// Who made a mapped device, from its uuid's prefix: `LVM-…`, `CRYPT-LUKS2-…`, `mpath-…`.
fn subsystem(uuid: &str) -> Option<String> {
    let (prefix, _) = uuid.split_once('-')?;
    Some(prefix.to_lowercase())
}

/// What a mapped device does. sysfs does not tell; `dmsetup` does where it is installed and allowed.
fn target(name: &str) -> Vec<(&'static str, String)> {
    let output = Command::new("dmsetup").args(["table", "--", name]).output();
    let Ok(output) = output else { return Vec::new() };
    match output.status.success() {
        true => parse_table(&String::from_utf8_lossy(&output.stdout)),
        false => Vec::new(),
    }
}

/// `0 12582912 striped 6 128 254:16 2048 …`: start, length, target, for stripes number and chunk.
fn parse_table(table: &str) -> Vec<(&'static str, String)> {
    let mut words = table.lines().next().unwrap_or_default().split_whitespace().skip(2);
    let Some(target) = words.next() else { return Vec::new() };
    let mut found = vec![("target", target.to_owned())];
    if target == "striped"
        && let (Some(stripes), Some(chunk)) = (words.next(), words.next())
    {
        found.push(("stripes", stripes.to_owned()));
        found.push(("chunk_sectors", chunk.to_owned()));
    }
    let segments = table.lines().filter(|line| !line.trim().is_empty()).count();
    if segments > 1 {
        found.push(("segments", segments.to_string()));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::super::tree::Fixture;
    use super::*;

    fn names(layers: &[StorageLayer]) -> Vec<(&str, &str)> {
        layers.iter().map(|layer| (layer.kind.as_str(), layer.name.as_str())).collect()
    }

    /// xfs on an LVM stripe over a partition of vda and the whole of vdb.
    fn stripe() -> Fixture {
        let fixture = Fixture::new(&[
            (
                "proc/self/mountinfo",
                "1 0 253:0 / /data rw,noatime - xfs /dev/mapper/vg-pg rw,logbufs=8\n\
                 2 0 0:40 / /btrfs rw - btrfs /dev/vdb rw\n\
                 3 0 0:41 / /tmp rw - tmpfs tmpfs rw\n",
            ),
            ("sys/devices/virtual/block/dm-0/dm/name", "vg-pg\n"),
            ("sys/devices/virtual/block/dm-0/dm/uuid", "LVM-abcdef\n"),
            ("sys/devices/pci/block/vda/queue/scheduler", "none [mq-deadline] bfq\n"),
            ("sys/devices/pci/block/vda/queue/rotational", "1\n"),
            ("sys/devices/pci/block/vda/queue/nr_requests", "256\n"),
            ("sys/devices/pci/block/vda/vda1/partition", "1\n"),
            ("sys/devices/pci/block/vdb/queue/scheduler", "none\n"),
        ]);
        fixture.link("sys/dev/block/253:0", "../../devices/virtual/block/dm-0");
        fixture.link("sys/class/block/vdb", "../../devices/pci/block/vdb");
        for (name, target) in [("vda1", "vda/vda1"), ("vdb", "vdb")] {
            let link = format!("sys/devices/virtual/block/dm-0/slaves/{name}");
            fixture.link(&link, &format!("../../../../pci/block/{target}"));
        }
        fixture
    }

    #[test]
    fn a_stripe_is_followed_down_to_its_disks() {
        let found = layers(&stripe().tree(), Path::new("/data/pg"));
        assert_eq!(
            names(&found),
            [
                ("filesystem", "xfs"),
                ("dm", "vg-pg"),
                ("partition", "vda1"),
                ("disk", "vda"),
                ("disk", "vdb"),
            ]
        );
        assert_eq!(found[0].attributes["options"], "rw,noatime,logbufs=8");
        assert_eq!(found[1].attributes["subsystem"], "lvm");
        assert_eq!(found[3].attributes["scheduler"], "mq-deadline");
        assert_eq!(found[4].attributes["scheduler"], "none");
    }

    #[test]
    fn an_anonymous_number_is_looked_up_by_name() {
        let found = layers(&stripe().tree(), Path::new("/btrfs/pg"));
        assert_eq!(names(&found), [("filesystem", "btrfs"), ("disk", "vdb")]);
    }

    #[test]
    fn memory_has_no_device() {
        assert_eq!(
            names(&layers(&stripe().tree(), Path::new("/tmp/pg"))),
            [("filesystem", "tmpfs")]
        );
    }

    #[test]
    fn an_md_array_tells_its_level() {
        let fixture = Fixture::new(&[
            ("proc/self/mountinfo", "1 0 9:0 / / rw - ext4 /dev/md0 rw\n"),
            ("sys/devices/virtual/block/md0/md/level", "raid10\n"),
            ("sys/devices/virtual/block/md0/md/chunk_size", "524288\n"),
        ]);
        fixture.link("sys/dev/block/9:0", "../../devices/virtual/block/md0");
        let found = layers(&fixture.tree(), Path::new("/x"));
        assert_eq!(found[1].attributes["level"], "raid10");
        assert_eq!(found[1].attributes["chunk_bytes"], "524288");
    }

    #[test]
    fn a_table_tells_the_target() {
        let table = "0 12582912 striped 6 128 254:16 2048 254:32 2048\n";
        assert_eq!(
            parse_table(table),
            [
                ("target", "striped".to_owned()),
                ("stripes", "6".to_owned()),
                ("chunk_sectors", "128".to_owned()),
            ]
        );
        let table = "0 8192 linear 254:16 2048\n8192 8192 linear 254:32 2048\n";
        assert_eq!(parse_table(table)[1], ("segments", "2".to_owned()));
        assert!(parse_table("").is_empty());
    }
}
