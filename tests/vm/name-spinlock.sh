#!/bin/bash
# The spinlock of the waiter's own descriptor table is recognised there.
# kernels: 6.1..
# timeout: 300
. "$WORKSPACE/tests/vm/lib/names.sh"
qspinlock_is_named() {
    named qspinlock files_struct.file_lock "task files_struct"
}
seen_as qspinlock qspinlock_is_named
