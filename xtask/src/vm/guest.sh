# Runs in the guest after init.sh: prepares the system, runs each case of the list, powers off.
# The share holds this script, `settings` (shell variables), `cases` (name, seconds, program) and
# receives NAME.log and NAME.status. Lines that begin with lockscope-vm: tell the host what happens.
share=/run/lockscope-vm
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8 TERM=dumb
. "$share/settings"

hostname lockscope-vm
ip link set lo up 2>/dev/null || busybox ip link set lo up
mountpoint -q /tmp && umount -l /tmp
mount -t tracefs tracefs /sys/kernel/tracing
mount -t debugfs debugfs /sys/kernel/debug
mount -t bpf bpf /sys/fs/bpf
mount -t cgroup2 cgroup2 /sys/fs/cgroup
echo 0 >/proc/sys/kernel/kptr_restrict
echo -1 >/proc/sys/kernel/perf_event_paranoid

cd "$WORKSPACE" || cd /
while read -r name seconds program; do
    echo "lockscope-vm: begin $name"
    mkdir -p "$share/$name"
    export RESULTS_DIR="$share/$name"
    timeout -k 5 "$seconds" "$program" >"$share/$name.log" 2>&1 </dev/null &
    job=$!
    if [ -n "$STREAM" ]; then
        tail -n +1 -f --pid="$job" "$share/$name.log"
    fi
    wait "$job"
    echo "$?" >"$share/$name.status"
    echo "lockscope-vm: end $name"
done <"$share/cases"

echo "lockscope-vm: done"
sync
busybox poweroff -f
