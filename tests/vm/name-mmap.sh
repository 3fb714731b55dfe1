#!/bin/bash
# The address space's lock is recognised in the waiter's own mm_struct, also where only its queue is seen.
# kernels: 6.1..
# timeout: 300
. "$WORKSPACE/tests/vm/lib/names.sh"
mmap_is_named() {
    named rwsem mm_struct.mmap_lock "task mm_struct" &&
        named osq mm_struct.mmap_lock "task mm_struct" &&
        held_by mm_struct.mmap_lock
}
seen_as mmap mmap_is_named
