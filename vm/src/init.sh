#!/bin/busybox sh
# The guest's first process: makes the host's root file system the guest's, and runs the job in it.
# Lines that begin with lockscope-vm: tell the host what happens.
/bin/busybox mkdir -p /proc /sys /dev /host /rw /root
/bin/busybox mount -t proc proc /proc
/bin/busybox mount -t sysfs sysfs /sys
/bin/busybox mount -t devtmpfs devtmpfs /dev
/bin/busybox --install -s /bin
export PATH=/bin

die() {
    echo "lockscope-vm: failed $*"
    poweroff -f
}

# need OPTION TEST...: the kernel's option is there when the test says so.
missing=
need() {
    option=$1
    shift
    "$@" || missing="$missing $option"
}

filesystem() {
    grep -qw "$1" /proc/filesystems
}

for module in $(cat /modules/order); do
    insmod "/modules/$module" || die "to load the module $module"
done

need CONFIG_DEVTMPFS filesystem devtmpfs
need CONFIG_TMPFS filesystem tmpfs
need CONFIG_VIRTIO_PCI [ -d /sys/bus/pci/drivers/virtio-pci ]
need CONFIG_NET_9P_VIRTIO [ -d /sys/bus/virtio/drivers/9pnet_virtio ]
need CONFIG_9P_FS filesystem 9p
need CONFIG_OVERLAY_FS filesystem overlay
if [ -n "$missing" ]; then
    echo "lockscope-vm: missing$missing"
    die "to reach the host's root"
fi

p9=trans=virtio,version=9p2000.L,msize=524288
mount -t 9p -o "ro,$p9,cache=loose" host /host || die "to mount the host's root"
mount -t tmpfs -o size=75% tmpfs /rw
mkdir /rw/upper /rw/work
mount -t overlay -o lowerdir=/host,upperdir=/rw/upper,workdir=/rw/work overlay /root ||
    die "to mount a writable layer over the host's root"
for dir in proc sys dev; do
    mount --move /$dir /root/$dir
done
SHARED_MODULES=
[ -e /modules/shared ] && SHARED_MODULES=yes
export SHARED_MODULES
exec chroot /root /bin/sh -c '
    p9=trans=virtio,version=9p2000.L,msize=524288
    mkdir -p /dev/pts /dev/shm
    mount -t devpts devpts /dev/pts
    mount -t tmpfs tmpfs /dev/shm
    chmod 1777 /dev/shm
    mount -t tmpfs tmpfs /run
    mkdir -p /run/lock /run/lockscope-vm "/lib/modules/$(uname -r)"
    mount -t 9p -o "rw,$p9" share /run/lockscope-vm
    if [ -n "$SHARED_MODULES" ]; then
        mount -t 9p -o "ro,$p9,cache=loose" modules "/lib/modules/$(uname -r)"
    fi
    exec /bin/sh /run/lockscope-vm/guest.sh'
