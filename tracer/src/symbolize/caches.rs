//! Which type a slab cache's objects have, where its name does not say it.

use crate::kernel::layout::INODE_CACHES;

/// A cache whose objects are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cache<'a> {
    /// The type of its objects.
    pub(super) object: &'a str,
    /// The module whose BTF has it; absent = the kernel's own.
    pub(super) module: Option<&'static str>,
}

/// (cache, type of its objects). Others are tried as the name of a type.
const CACHES: &[(&str, &str)] = &[
    ("PING", "inet_sock"),
    ("RAW", "raw_sock"),
    ("RAWv6", "raw6_sock"),
    ("TCP", "tcp_sock"),
    ("TCPv6", "tcp6_sock"),
    ("UDP", "udp_sock"),
    ("UDPv6", "udp6_sock"),
    ("UNIX", "unix_sock"),
    ("UNIX-STREAM", "unix_sock"),
    ("blkdev_ioc", "io_context"),
    ("cred_jar", "cred"),
    ("eventpoll_epi", "epitem"),
    ("eventpoll_pwq", "eppoll_entry"),
    ("files_cache", "files_struct"),
    ("filp", "file"),
    ("fs_cache", "fs_struct"),
    ("jbd2_journal_head", "journal_head"),
    ("jbd2_transaction_s", "transaction_s"),
    ("kernfs_node_cache", "kernfs_node"),
    ("mnt_cache", "mount"),
    ("radix_tree_node", "xa_node"),
    ("sighand_cache", "sighand_struct"),
    ("signal_cache", "signal_struct"),
    ("skbuff_head_cache", "sk_buff"),
    ("uid_cache", "user_struct"),
];

/// Of modules: (cache, type of its objects, module).
const MODULE_CACHES: &[(&str, &str, &str)] =
    &[("xfs_buf", "xfs_buf", "xfs"), ("xfs_ili", "xfs_inode_log_item", "xfs")];

/// What is known of a cache's objects by its name alone.
pub(super) fn cache(name: &str) -> Option<Cache<'static>> {
    let inode = INODE_CACHES
        .iter()
        .find(|(cache, ..)| *cache == name)
        .map(|(_, object, _, module)| Cache { object, module: *module });
    let other = || {
        let found = CACHES.iter().find(|(cache, _)| *cache == name);
        found.map(|(_, object)| Cache { object, module: None })
    };
    let of_module = || {
        let found = MODULE_CACHES.iter().find(|(cache, ..)| *cache == name);
        found.map(|(_, object, module)| Cache { object, module: Some(*module) })
    };
    inode.or_else(other).or_else(of_module)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn no_cache_is_listed_twice() {
        let names: Vec<&str> = CACHES
            .iter()
            .map(|(cache, _)| *cache)
            .chain(MODULE_CACHES.iter().map(|(cache, ..)| *cache))
            .chain(INODE_CACHES.iter().map(|(cache, ..)| *cache))
            .collect();
        assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), names.len());
    }

    #[test]
    fn caches_lead_to_types() {
        assert_eq!(cache("filp"), Some(Cache { object: "file", module: None }));
        let ext4 = Cache { object: "ext4_inode_info", module: Some("ext4") };
        assert_eq!(cache("ext4_inode_cache"), Some(ext4));
        assert_eq!(cache("kmalloc-256"), None);
    }
}
