#!/bin/bash
# The release binary works where nothing but it and glibc is.
# timeout: 60
. "$WORKSPACE/tests/vm/lib/common.sh"

[ -x "$DIST_BIN" ] || fail "$DIST_BIN is missing; cargo xtask dist builds it"
root=$(mktemp -d)
cp "$DIST_BIN" "$root/lockscope"
ldd "$DIST_BIN" | grep -o '/[^ ]*' | while read -r library; do
    cp --parents -L "$library" "$root"
done
mkdir -p "$root/proc" "$root/sys"
mount -t proc proc "$root/proc"
mount --rbind /sys "$root/sys"
chroot "$root" /lockscope doctor
