#!/bin/bash
# Threads that only compute contend on no mutex: the few counted are the machine's own.
# kernels: 6.1..
# timeout: 180
. "$WORKSPACE/tests/vm/lib/locks.sh"

at_most=50
count=$(reference_count mutex_owner cpu) || fail "bpftrace cannot count mutex_owner"
[ "$count" -le "$at_most" ] || fail "bpftrace, mutex_owner: $count, expected at most $at_most"
traced_run cpu
count=$(run_json "$RESULTS_DIR/run.json" count mutex_owner)
[ "$count" -le "$at_most" ] || fail "lockscope, mutex_owner: $count, expected at most $at_most"
