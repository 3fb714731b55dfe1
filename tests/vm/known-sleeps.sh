#!/bin/bash
# Kernels that do not tell of waits: sleeps are taken from the locks' slow paths, and are as many as bpftrace
# counts; holders sleep as long as the stressor says, and are its threads.
# kernels: ..6.0
# timeout: 900
. "$WORKSPACE/tests/vm/lib/common.sh"

frozen_disk
# By itself: bpftrace's probe of the slow path's return hides the caller, by which the lock is named.
known_loads freeze
known_loads --reference mutex rwlock hold-rwsem hold-mutex
run_json "$RESULTS_DIR/run.json" held-by "inode.i_rwsem (tmpfs)" "$RESULTS_DIR/hold-rwsem.json"
for capability in mutex-waits rwsem-waits percpu-rwsem-waits rwlock-waits; do
    method=$(run_json "$RESULTS_DIR/run.json" method "$capability")
    [ "$method" = fentry ] || fail "$capability was traced by $method"
done
