#!/bin/bash
# The binary works where there is nothing but it and glibc.
# timeout: 60
. "$WORKSPACE/tests/vm/lib/common.sh"

root=$(mktemp -d)
cp "$LOCKSCOPE_BIN" "$root/lockscope"
ldd "$LOCKSCOPE_BIN" | grep -o '/[^ ]*' | while read -r library; do
    cp --parents -L "$library" "$root"
done
mkdir -p "$root/proc" "$root/sys"
mount -t proc proc "$root/proc"
mount --rbind /sys "$root/sys"
chroot "$root" /lockscope doctor
