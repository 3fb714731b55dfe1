#!/bin/bash
# A directory's rwsem is recognised as an inode's, with its filesystem; the queue inside it, too.
# kernels: 6.1..
# timeout: 300
. "$WORKSPACE/tests/vm/lib/names.sh"
rwsem_is_named() {
    named rwsem "inode.i_rwsem (tmpfs)" "slab shmem_inode_cache" &&
        named osq "inode.i_rwsem (tmpfs)" "slab shmem_inode_cache" &&
        held_by "inode.i_rwsem (tmpfs)"
}
seen_as rwsem rwsem_is_named
