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

# Joins the disks, as LVM does with `lvcreate --stripes N --stripesize 64k`; sets device.
stripe() {
    modprobe -q dm-mod 2>/dev/null
    chunk=128
    length=0
    table=
    for disk in /dev/vd?; do
        sectors=$("$BUSYBOX" blockdev --getsz "$disk")
        length=$((length + sectors / chunk * chunk))
        table="$table $disk 0"
    done
    device=/dev/mapper/lockscope
    # There is no udev here to make the node.
    DM_DISABLE_UDEV=1 dmsetup create lockscope --table "0 $length striped $DISKS $chunk$table" || {
        [ -e /sys/class/misc/device-mapper ] || lacks CONFIG_BLK_DEV_DM
        fail "to stripe its disks; is dmsetup installed here?"
    }
}

make_file_system() {
    case $FILE_SYSTEM in
    ext4) mkfs.ext4 -q -F -E lazy_itable_init=0,lazy_journal_init=0 "$device" ;;
    xfs) mkfs.xfs -q -f "$device" ;;
    esac || fail "to make a file system on its disk; is mkfs.$FILE_SYSTEM installed here?"
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
if [ -n "$DISKS" ]; then
    [ -b /dev/vda ] || lacks CONFIG_VIRTIO_BLK
    [ "$DISKS" = 1 ] && device=/dev/vda || stripe
    make_file_system
    mount -t "$FILE_SYSTEM" "$device" "$TMPDIR" || lacks "CONFIG_$(echo "$FILE_SYSTEM" | tr a-z A-Z)_FS"
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
