#!/bin/bash
# Threads that renice tasks of one CPU contend on that CPU's run queue lock, and the lock is
# recognised by its address.
# kernels: 6.1..
# timeout: 180
. "$WORKSPACE/tests/vm/lib/locks.sh"

contends rq 1000 rq
