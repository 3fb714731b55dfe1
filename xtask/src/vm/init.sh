#!/bin/busybox sh
# The guest's first process: makes the host's root file system the guest's, and runs the job in it.
/bin/busybox mkdir -p /proc /sys /dev /host /rw /root
/bin/busybox mount -t proc proc /proc
/bin/busybox mount -t sysfs sysfs /sys
/bin/busybox mount -t devtmpfs devtmpfs /dev
/bin/busybox --install -s /bin
export PATH=/bin

die() {
    echo "lockscope-vm: boot failed: $*"
    poweroff -f
}

for module in $(cat /modules/order); do
    insmod "/modules/$module" || die "insmod $module"
done

p9=trans=virtio,version=9p2000.L,msize=524288
mount -t 9p -o "ro,$p9,cache=loose" host /host || die "the host's root"
mount -t tmpfs -o size=75% tmpfs /rw
mkdir /rw/upper /rw/work
mount -t overlay -o lowerdir=/host,upperdir=/rw/upper,workdir=/rw/work overlay /root || die "the overlay"
for dir in proc sys dev; do
    mount --move /$dir /root/$dir
done
exec chroot /root /bin/sh -c '
    p9=trans=virtio,version=9p2000.L,msize=524288
    mkdir -p /dev/pts /dev/shm
    mount -t devpts devpts /dev/pts
    mount -t tmpfs tmpfs /dev/shm
    chmod 1777 /dev/shm
    mount -t tmpfs tmpfs /run
    mkdir -p /run/lock /run/lockscope-vm "/lib/modules/$(uname -r)"
    mount -t 9p -o "rw,$p9" share /run/lockscope-vm
    mount -t 9p -o "ro,$p9,cache=loose" modules "/lib/modules/$(uname -r)"
    exec /bin/sh /run/lockscope-vm/guest.sh'
