//! Names with `*` in them.

/// Whether `name` is `pattern`, in which `*` stands for any characters.
pub(super) fn matches(pattern: &str, name: &str) -> bool {
    let Some((first, rest)) = pattern.split_once('*') else { return pattern == name };
    let Some(mut left) = name.strip_prefix(first) else { return false };
    let (middle, last) = rest.rsplit_once('*').unwrap_or(("", rest));
    for part in middle.split('*') {
        let Some(at) = left.find(part) else { return false };
        left = &left[at + part.len()..];
    }
    left.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stars_stand_for_anything() {
        for (pattern, name, expected) in [
            ("tps", "tps", true),
            ("tps", "tps2", false),
            ("server.spin.*", "server.spin.osq", true),
            ("server.spin.*", "server.cpu", false),
            ("*cid_lock*", "mm_struct.cid_lock <- __schedule", true),
            ("lock.*.rwsem *xfs_ilock*", "lock.server.rwsem xfs_inode.i_lock <- xfs_ilock", true),
            ("lock.*.rwsem *xfs_ilock*", "lock.server.rwsem inode.i_rwsem <- vfs_write", false),
            ("a*b*c", "abc", true),
            ("a*b*c", "acb", false),
            ("ab*ba", "aba", false),
            ("*", "", true),
        ] {
            assert_eq!(matches(pattern, name), expected, "{pattern} on {name}");
        }
    }
}
