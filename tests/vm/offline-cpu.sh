#!/bin/bash
# A CPU that is offline from the start, and another that goes and comes while lockscope traces: nothing
# is lost of the others, and what happened on that CPU still counts.
# kernels: 6.1..
# timeout: 400
. "$WORKSPACE/tests/vm/lib/common.sh"

cpu=/sys/devices/system/cpu
[ -e "$cpu/cpu3/online" ] || skip "CPUs cannot be taken offline here"
trap 'echo 1 >$cpu/cpu3/online; echo 1 >$cpu/cpu2/online' EXIT
echo 0 >"$cpu/cpu3/online"
# Each load is told that the one before has ended by its line; the CPU changes during all of them.
(
    until [ -s "$RESULTS_DIR/hold-rwsem.json" ]; do sleep 0.2; done
    echo 0 >"$cpu/cpu2/online"
    until [ -s "$RESULTS_DIR/mmap.json" ]; do sleep 0.2; done
    echo 1 >"$cpu/cpu2/online"
    cat "$cpu/online" >"$RESULTS_DIR/online"
) &
known_loads hold-rwsem mmap hold-mutex
wait
[ "$(cat "$RESULTS_DIR/online")" = 0-2 ] || fail "the CPU did not come back during the run"
