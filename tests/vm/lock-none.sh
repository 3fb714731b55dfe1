#!/bin/bash
# Threads that only compute contend on nothing: what is counted is the benchmark's and the tracer's.
# kernels: 6.1..
# timeout: 120
. "$WORKSPACE/tests/vm/lib/locks.sh"

stress cpu
for class in osq mutex_owner qspinlock; do
    count=$(reference_count "$class")
    echo "bpftrace, $class: $count (at most 200)"
    [ "$count" -le 200 ] || fail "the computing threads contend on $class"
done
