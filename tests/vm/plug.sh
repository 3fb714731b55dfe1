#!/bin/bash
# Writing scattered blocks back to a disk flushes block plugs, and the run's plug table has them.
# kernels: 6.1..
# timeout: 180
. "$WORKSPACE/tests/vm/lib/locks.sh"

# Before 6.12, requests that go past a scheduler flush the plug without the tracepoint.
echo mq-deadline >"/sys/block/${SCRATCH_DISK#/dev/}/queue/scheduler"
load="plug --path $SCRATCH_DISK"
count=$(reference_count plug $load) || fail "bpftrace cannot count plug"
at_least "bpftrace, block_unplug" "$count" 50
traced_run "$load"
run_json "$RESULTS_DIR/run.json" positive /plug/flushes_per_transaction
