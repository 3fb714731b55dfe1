# Runs in the guest after init.sh: one command, as if it ran on the host.
# The share holds this script, prepare.sh, settings (variables, and hand_over_files) and command.sh, and
# receives stdout, stderr, status, and in files/N what the command saved of the N-th wanted.
share=/run/lockscope-vm
mark=/run/lockscope-mark
. "$share/prepare.sh"
. "$share/settings"

end() {
    sync
    "$BUSYBOX" poweroff -f
}

fail() {
    echo "lockscope-vm: failed $*"
    end
}

lacks() {
    echo "lockscope-vm: missing $1"
    fail "to use its disk"
}

# hand_over N FILE...: those that are newer than the mark.
hand_over() {
    dir=$share/files/$1
    shift
    mkdir -p "$dir"
    for file; do
        if [ -f "$file" ] && [ -n "$(find "$file" -newer "$mark")" ]; then
            cp "$file" "$dir" || fail "to hand over $file"
        fi
    done
}

# hand_over_all N DIRECTORY: the same of all files under it.
hand_over_all() {
    dir=$share/files/$1
    mkdir -p "$dir"
    [ -d "$2" ] || return 0
    (cd "$2" && find . -type f -newer "$mark" -exec cp --parents -t "$dir" {} +) ||
        fail "to hand over $2"
}

# The command. Its temporary files are its own: the host's lie in /tmp for all to see.
export TMPDIR=/run/tmp
mkdir -p "$TMPDIR"
if [ -n "$DISK" ]; then
    [ -b /dev/vda ] || lacks CONFIG_VIRTIO_BLK
    mkfs.ext4 -q -F -E lazy_itable_init=0,lazy_journal_init=0 /dev/vda ||
        fail "to make a file system on its disk; is mkfs.ext4 (e2fsprogs) installed here?"
    mount -t ext4 /dev/vda "$TMPDIR" || lacks CONFIG_EXT4_FS
fi
chmod 1777 "$TMPDIR"
cd "$DIRECTORY" || fail "to enter $DIRECTORY"
: >"$mark"
echo "lockscope-vm: begin command"
while sleep 10; do
    echo "lockscope-vm: alive"
done &
alive=$!
/bin/sh "$share/command.sh" >"$share/stdout" 2>"$share/stderr" </dev/null
status=$?
kill "$alive"
hand_over_files
echo "$status" >"$share/status"
echo "lockscope-vm: end command"
echo "lockscope-vm: done"
end
