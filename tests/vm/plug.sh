#!/bin/bash
# Direct writes to a disk flush block plugs, and the run's plug table has them.
# kernels: 6.1..
# timeout: 120
. "$WORKSPACE/tests/vm/lib/locks.sh"

stress plug --path "$SCRATCH_DISK"
at_least "bpftrace, block_unplug" "$(reference_count plug)" 100
traced_run "$RESULTS_DIR/run.json"
run_json "$RESULTS_DIR/run.json" positive /plug/flushes_per_transaction
