#!/bin/bash
# Threads that duplicate descriptors and miss on one futex contend on two spinlocks.
# kernels: 6.1..
# timeout: 120
. "$WORKSPACE/tests/vm/lib/locks.sh"

stress qspinlock
contends qspinlock 1000
