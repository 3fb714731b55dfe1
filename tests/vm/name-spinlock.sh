#!/bin/bash
# A spinlock of the waiter's own descriptor table is recognised there, one of the futex table by its caller.
# kernels: 6.1..
# timeout: 180
. "$WORKSPACE/tests/vm/lib/locks.sh"

traced_run qspinlock
named qspinlock files_struct.file_lock "task files_struct"
named qspinlock futex_hash_bucket.lock caller
