# Runs in the guest after init.sh: prepares the system, runs each case of the list, powers off.
# The share holds this script, prepare.sh, `settings` (shell variables), `cases` (name, seconds,
# program) and receives NAME.log and NAME.status. Lines that begin with lockscope-vm: tell the host what
# happens.
share=/run/lockscope-vm
. "$share/prepare.sh"
. "$share/settings"

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
