#!/bin/bash
# Threads that map and unmap memory queue up on the optimistic spin queue of `mmap_lock`.
# kernels: 6.1..
# timeout: 180
. "$WORKSPACE/tests/vm/lib/locks.sh"

contends osq 500 mmap
