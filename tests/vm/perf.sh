#!/bin/bash
# `perf lock contention` over the same seconds has as many waits of the loads' threads, and as much time
# in them.
# kernels: 6.1..
# timeout: 300
. "$WORKSPACE/tests/vm/lib/common.sh"

known_loads --perf qspinlock hold-rwsem hold-mutex
