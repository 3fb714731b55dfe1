//! Which of a kernel's modules a guest loads before it has a root, and in which order.

/// What the guest's root, its share and its disk need. A kernel that has one of them built in, or
/// does not know it, has no such module.
pub(crate) const WANTED: [&str; 5] = ["virtio_pci", "9pnet_virtio", "9p", "overlay", "virtio_blk"];

/// The files of these modules and of all that they need, each behind what it needs itself; `index` is
/// the text of a `modules.dep`.
pub(crate) fn load_order<'a>(index: &'a str, wanted: &[&str]) -> Vec<&'a str> {
    let mut order = Vec::new();
    for name in wanted {
        let mut entries = index.lines().filter_map(|line| line.split_once(':'));
        let Some((file, needs)) = entries.find(|(file, _)| is_called(file, name)) else {
            continue;
        };
        // depmod names what is to be loaded first last.
        for file in needs.split_whitespace().rev().chain([file]) {
            if !order.contains(&file) {
                order.push(file);
            }
        }
    }
    order
}

/// Files spell `_` and `-` as they like, and may be compressed.
fn is_called(file: &str, name: &str) -> bool {
    let base = file.rsplit('/').next().unwrap_or(file);
    base.split('.').next().is_some_and(|stem| stem.replace('-', "_") == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    const INDEX: &str = "\
kernel/fs/9p/9p.ko.xz: kernel/net/9p/9pnet.ko.xz kernel/fs/netfs/netfs.ko.xz
kernel/net/9p/9pnet.ko.xz:
kernel/net/9p/9pnet_virtio.ko.xz: kernel/net/9p/9pnet.ko.xz kernel/drivers/virtio/virtio.ko.xz kernel/drivers/virtio/virtio-ring.ko.xz
kernel/fs/netfs/netfs.ko.xz:
kernel/drivers/virtio/virtio.ko.xz: kernel/drivers/virtio/virtio-ring.ko.xz
kernel/drivers/virtio/virtio-ring.ko.xz:
";

    #[test]
    fn a_module_comes_after_all_that_it_needs_and_only_once() {
        let order = load_order(INDEX, &["9pnet_virtio", "9p"]);
        let names: Vec<&str> =
            order.iter().map(|file| file.rsplit('/').next().unwrap_or(file)).collect();
        let expected = [
            "virtio-ring.ko.xz",
            "virtio.ko.xz",
            "9pnet.ko.xz",
            "9pnet_virtio.ko.xz",
            "netfs.ko.xz",
            "9p.ko.xz",
        ];
        assert_eq!(names, expected);
    }

    #[test]
    fn what_is_built_in_is_not_loaded() {
        assert!(load_order(INDEX, &["overlay"]).is_empty());
        assert!(load_order("", &WANTED).is_empty());
    }

    #[test]
    fn modules_are_found_whatever_their_spelling_and_compression() {
        assert!(is_called("kernel/drivers/virtio/virtio-ring.ko.xz", "virtio_ring"));
        assert!(is_called("kernel/fs/9p/9p.ko", "9p"));
        assert!(!is_called("kernel/net/9p/9pnet.ko", "9p"));
    }
}
