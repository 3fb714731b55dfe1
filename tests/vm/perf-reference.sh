#!/bin/bash
# perf lock contention, recording along, has as many waits of the same threads and as much time in them.
# kernels: 6.1..
# timeout: 300
. "$WORKSPACE/tests/vm/lib/common.sh"

known_loads --perf --seconds 1 --option=--depth --option=locks hold-rwsem hold-mutex qspinlock
