#!/bin/bash
# Threads that create files in one directory spin on the owner of its rwsem.
# kernels: 6.1..
# timeout: 180
. "$WORKSPACE/tests/vm/lib/locks.sh"

contends rwsem_owner 100 rwsem
