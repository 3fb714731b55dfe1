#!/bin/bash
# perf, which records the same tracepoint at the same time, has as many waits and as much time in them.
# Only of loads where both mean the same: the spins of a rw_semaphore are no event to perf, and it counts
# what nests in another wait, in that of an rwlock, twice.
# kernels: 6.1..
# timeout: 900
. "$WORKSPACE/tests/vm/lib/common.sh"

known_loads --perf qspinlock hold-rwsem hold-mutex
