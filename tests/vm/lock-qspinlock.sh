#!/bin/bash
# Threads that duplicate descriptors and miss on one futex contend on two spinlocks.
# kernels: 6.1..
# timeout: 180
. "$WORKSPACE/tests/vm/lib/locks.sh"

contends qspinlock 1000 qspinlock
