#!/bin/bash
# Threads that wait for something else than a lock, or for nothing: a futex of their own, CPUs that
# others use, a cache line, a timer, a disk. None of it is called a lock.
# kernels: 6.1..
# timeout: 400
. "$WORKSPACE/tests/vm/lib/common.sh"

known_loads futex cpu cache sleep disk
