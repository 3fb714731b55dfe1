#!/bin/bash
# Direct writes to a disk flush block plugs, and the run's plug table has them.
# kernels: 6.1..
# timeout: 90
. "$WORKSPACE/tests/vm/lib/locks.sh"

load="plug --path $SCRATCH_DISK"
count=$(reference_count plug $load) || fail "bpftrace cannot count plug"
at_least "bpftrace, block_unplug" "$count" 100
traced_run "$load"
run_json "$RESULTS_DIR/run.json" positive /plug/flushes_per_transaction
